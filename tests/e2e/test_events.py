"""Problems become events on the RayCluster, in a real API server, and metrics."""

from collections.abc import Iterator

import pytest

from tests.e2e.api import PODS, RAY_CLUSTERS
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import WITH_CONTROLLER
from tests.e2e.kuberay import Operator
from tests.e2e.rays import (
    HOSTS,
    IDENTITY,
    events_of,
    slices,
    wait_for_workers,
    with_identity,
    workers,
)
from tests.e2e.waiting import until, until_equal
from tests.e2e.webhook_process import Webhook

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> Iterator[Webhook]:
    """The webhook and the controller, as both overlays have them."""
    with Webhook(control_plane, [WITH_CONTROLLER]) as running:
        yield running


def test_a_pod_without_its_identity_is_reported_as_one_series_whoever_leads(
    control_plane: ControlPlane, installed: Webhook
) -> None:
    api, namespace = control_plane.api, control_plane.namespace("events")
    with Operator(control_plane, multi_host_indexing=False) as operator:
        made = api.create(RAY_CLUSTERS, slices("unidentified", 1), namespace)
        wait_for_workers(api, namespace, HOSTS, "unidentified")
        operator.stop()
        pod = with_identity(workers(api, namespace, "unidentified"), 0, 3)
        api.patch(
            PODS,
            pod["metadata"]["name"],
            {"metadata": {"labels": dict.fromkeys(IDENTITY)}},
            namespace,
        )
        until(
            lambda: events_of(api, namespace, "PodWithoutIdentity"), "the RayCluster has its event"
        )
        (event,) = events_of(api, namespace, "PodWithoutIdentity")
        assert event["regarding"]["uid"] == made["metadata"]["uid"]
        assert event["type"] == "Warning"
        assert pod["metadata"]["name"] in event["note"]
        shown = control_plane.kubectl(
            "describe", "raycluster", "unidentified", "-n", namespace
        ).stdout
        assert "PodWithoutIdentity" in shown

        installed.controller.kill()
        installed.controller.start()
        until(
            lambda: (
                events_of(api, namespace, "PodWithoutIdentity")[0].get("series", {}).get("count", 1)
                > 1
            ),
            "the next process continues with the series",
        )
        assert len(events_of(api, namespace, "PodWithoutIdentity")) == 1
        place = {
            "raycluster_namespace": namespace,
            "raycluster": "unidentified",
            "group": "tpu-group",
        }
        until_equal(
            lambda: installed.controller.sample("ray_webhook_pods_without_identity", place),
            1.0,
            "its metrics count the pod",
        )
    control_plane.delete_ray_cluster("unidentified", namespace)


def test_a_missing_host_is_reported_after_two_minutes(
    control_plane: ControlPlane, installed: Webhook
) -> None:
    assert installed.ready
    api, namespace = control_plane.api, control_plane.namespace("late-events")
    with Operator(control_plane, multi_host_indexing=False) as operator:
        api.create(RAY_CLUSTERS, slices("lacking", 1), namespace)
        wait_for_workers(api, namespace, HOSTS, "lacking")
        operator.stop()
        pod = with_identity(workers(api, namespace, "lacking"), 0, 3)
        api.delete(PODS, pod["metadata"]["name"], namespace, grace=0)
        until(lambda: events_of(api, namespace, "HostMissing"), "the RayCluster has its event", 400)
        (event,) = events_of(api, namespace, "HostMissing")
        assert "has 3 of 4 hosts: host 3 is missing" in event["note"]
    control_plane.delete_ray_cluster("lacking", namespace)
