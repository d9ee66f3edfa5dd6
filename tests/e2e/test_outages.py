"""Outages of the webhook, of some of its processes and of the API server: KubeRay's messages, and
the recovery.
"""

from functools import partial

import pytest

from tests.e2e.api import PODS, RAY_CLUSTERS, Api, Objects
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kuberay import Operator
from tests.e2e.rays import (
    HOSTS,
    events_of,
    identities,
    replica_names,
    slices,
    wait_for_workers,
    whole,
    with_identity,
    worker_of,
    workers,
)
from tests.e2e.waiting import until, until_equal
from tests.e2e.webhook_process import Webhook
from tests.lab.chaos import run

pytestmark = pytest.mark.e2e


def test_kuberay_reports_that_the_webhook_is_down_and_recovers(
    control_plane: ControlPlane, webhook: Webhook
) -> None:
    api, namespace = control_plane.api, control_plane.namespace("webhook-down")
    with Operator(control_plane, multi_host_indexing=False):
        api.create(RAY_CLUSTERS, slices("one", 2), namespace)
        before = wait_for_workers(api, namespace, 2 * HOSTS)

        webhook.kill()
        api.delete(PODS, with_identity(before, 0, 2)["metadata"]["name"], namespace, grace=0)
        (event, *_) = until(
            lambda: events_of(api, namespace, "FailedToCreateWorkerPod"), "an event"
        )
        (condition,) = until(
            lambda: replica_failures(api, namespace), "the condition ReplicaFailure"
        )

        assert "pods.admission.ray.io" in event["note"]
        assert event["type"] == "Warning"
        assert event["regarding"]["name"] == "one"
        assert condition["reason"] == "FailedCreateWorkerPod"
        assert "pods.admission.ray.io" in condition["message"]
        assert len(workers(api, namespace)) == 2 * HOSTS - 1

        webhook.start()
        after = wait_for_workers(api, namespace, 2 * HOSTS)
        assert identities(after) == whole(0, 1)
        assert replica_names(after) == replica_names(before)
        until(lambda: not replica_failures(api, namespace), "the condition ReplicaFailure is gone")
    control_plane.delete_ray_cluster("one", namespace)


def test_the_feeds_resume_when_the_api_server_is_back(
    control_plane: ControlPlane, webhook: Webhook
) -> None:
    api, namespace = control_plane.api, control_plane.namespace("api-server-down")
    cluster = api.create(RAY_CLUSTERS, slices("one", 1), namespace)
    count_members = partial(webhook.metric, "ray_webhook_members")
    pods = [api.create(PODS, worker_of(cluster), namespace) for _ in range(HOSTS)]
    assert identities(pods) == whole(0)
    until_equal(count_members, HOSTS, "the cache contains the pods")

    control_plane.stop_api_server()
    assert webhook.ready
    control_plane.start_api_server()
    api.delete(PODS, with_identity(pods, 0, 2)["metadata"]["name"], namespace, grace=0)

    until_equal(count_members, HOSTS - 1, "the feed tells of a pod that was deleted")
    assert identities([api.create(PODS, worker_of(cluster), namespace)]) == [(0, 2)]
    other = api.create(RAY_CLUSTERS, slices("two", 1), namespace)
    count_clusters = partial(webhook.metric, "ray_webhook_clusters")
    until_equal(count_clusters, 2, "the feed tells of a new RayCluster")
    assert identities([api.create(PODS, worker_of(other), namespace)]) == [(0, 0)]


def test_no_identity_is_held_twice_while_processes_and_the_control_plane_break() -> None:
    """A short run of `make chaos`."""
    with ControlPlane() as plane:
        assert run(plane, 4, 30, clusters=5, replicas=3) == ""


def replica_failures(api: Api, namespace: str) -> Objects:
    """The condition by which KubeRay says that it cannot create pods, while it holds."""
    conditions = api.get(RAY_CLUSTERS, "one", namespace).get("status", {}).get("conditions") or []
    return [
        each for each in conditions if each["type"] == "ReplicaFailure" and each["status"] == "True"
    ]
