"""Refused objects, dry runs without side effects, and objects older than the webhook."""

import json

import pytest

from tests.e2e import build, needs
from tests.e2e.api import MERGE_PATCH, PODS, RAY_CLUSTERS, ApiError, Json
from tests.e2e.control_plane import UNFINALIZED, ControlPlane
from tests.e2e.rays import HOSTS, identities, slices, worker_of
from tests.e2e.versions import chosen, minor
from tests.e2e.webhook_process import Webhook

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("old", "webhook")]

FINALIZER = "example.com/keep"
BOUNDS_COUNT = minor(chosen().kuberay) >= 6
"""Whether KubeRay compares minReplicas with maxReplicas."""


@pytest.fixture(scope="module")
def old(control_plane: ControlPlane) -> str:
    """The namespace of a RayCluster that is older than the webhook, which would refuse it."""
    namespace = control_plane.namespace("old")
    cluster = broken("old")
    cluster["metadata"]["finalizers"] = [FINALIZER]
    control_plane.api.create(RAY_CLUSTERS, cluster, namespace)
    return namespace


def broken(name: str) -> Json:
    """A RayCluster with three things wrong, of which KubeRay before 1.6 minds two."""
    cluster = slices(name, 1)
    (group,) = cluster["spec"]["workerGroupSpecs"]
    group["minReplicas"], group["maxReplicas"] = 9, 3
    group["template"]["spec"]["nodeSelector"]["cloud.google.com/gke-tpu-topology"] = "4x4x4"
    group["template"]["metadata"] = {"labels": {"ray.io/replica-host-index": "0"}}
    return cluster


@pytest.mark.parametrize("kubectl", ["kubectl", build.PREVIOUS_KUBECTL])
def test_a_broken_cluster_is_refused_with_all_reasons(
    control_plane: ControlPlane, kubectl: str
) -> None:
    if kubectl == build.PREVIOUS_KUBECTL:
        needs.OTHERS.ask()
    namespace = control_plane.namespace("broken")

    done = control_plane.kubectl(
        "apply", "-n", namespace, "-f", "-", stdin=json.dumps(broken("broken")), program=kubectl
    )

    assert done.returncode == 1
    for path, words in (
        *([("spec.workerGroupSpecs[0].minReplicas", "9")] if BOUNDS_COUNT else []),
        ("spec.workerGroupSpecs[0].numOfHosts", "4x4x4"),
        ("spec.workerGroupSpecs[0].template.metadata.labels", "ray.io/replica-host-index"),
    ):
        assert path in done.stderr, done.stderr
        assert words in done.stderr, done.stderr
    assert control_plane.api.list(RAY_CLUSTERS, namespace) == []


def test_a_dry_run_of_a_pod_changes_nothing(control_plane: ControlPlane, webhook: Webhook) -> None:
    api, namespace = control_plane.api, control_plane.namespace("dry-run")
    cluster = api.create(RAY_CLUSTERS, slices("dry", 1), namespace)
    api.create(PODS, worker_of(cluster), namespace)
    writes = webhook.metric("ray_webhook_reservation_writes_total")

    shown = [
        api.create(PODS, worker_of(cluster), namespace, dryRun="All") for _ in range(2 * HOSTS)
    ]

    assert {identity for pod in shown for identity in identities([pod])} == {(0, 1)}
    assert webhook.metric("ray_webhook_reservation_writes_total") == writes
    stored = [api.create(PODS, worker_of(cluster), namespace) for _ in range(HOSTS - 1)]
    assert identities(stored) == [(0, 1), (0, 2), (0, 3)]


def test_an_old_bad_object_is_updated_with_warnings_and_then_deleted(
    control_plane: ControlPlane, old: str
) -> None:
    api, path = control_plane.api, RAY_CLUSTERS.path(old, "old")

    answer = api.request("PATCH", path, {"metadata": {"labels": {"team": "a"}}}, MERGE_PATCH)

    assert answer.body["metadata"]["labels"]["team"] == "a"
    said = any("minReplicas" in warning for warning in answer.warnings)
    assert said == BOUNDS_COUNT, answer.warnings
    assert len(answer.warnings) >= 2 + BOUNDS_COUNT

    # What is wrong newly is not excused by what was wrong before
    doubled = {"workerGroupSpecs": 2 * answer.body["spec"]["workerGroupSpecs"]}
    with pytest.raises(ApiError, match="tpu-group"):
        api.patch(RAY_CLUSTERS, "old", {"spec": doubled}, old)

    api.delete(RAY_CLUSTERS, "old", old)
    assert api.get(RAY_CLUSTERS, "old", old)["metadata"]["deletionTimestamp"]
    api.patch(RAY_CLUSTERS, "old", UNFINALIZED, old)
    assert api.list(RAY_CLUSTERS, old) == []
