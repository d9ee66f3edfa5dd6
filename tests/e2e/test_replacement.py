"""Replicas whose hosts KubeRay does not index: pods are deleted and recreated, groups shrink and
grow, and the webhook is killed in between.
"""

import pytest

from tests.e2e.api import PODS, RAY_CLUSTERS, Json, Objects
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kuberay import Operator
from tests.e2e.rays import (
    HOSTS,
    example,
    identities,
    of_replica,
    replica_names,
    scale,
    slices,
    uids,
    wait_for_workers,
    whole,
    workers,
    wrong_identities,
)
from tests.e2e.waiting import until, until_equal
from tests.e2e.webhook_process import Webhook

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("webhook")]


def members(webhook: Webhook, known: float, more: int) -> float:
    return until(
        lambda: count if (count := webhook.metric("ray_webhook_members")) >= known + more else 0.0,
        "the cache contains the new pods",
    )


def wait_for_members(webhook: Webhook, count: float) -> None:
    """Return once the watch has reported deletions, which free identities."""
    until_equal(lambda: webhook.metric("ray_webhook_members"), count, "the watch tells who is gone")


def test_a_replica_in_the_middle_comes_back_under_a_new_name(
    control_plane: ControlPlane, webhook: Webhook
) -> None:
    api, namespace = control_plane.api, control_plane.namespace("replaced-replica")
    empty = webhook.metric("ray_webhook_members")
    with Operator(control_plane, multi_host_indexing=False) as operator:
        api.create(RAY_CLUSTERS, slices("one", 3), namespace)
        before = wait_for_workers(api, namespace, 3 * HOSTS)
        known = members(webhook, empty, 3 * HOSTS)
        operator.stop()  # else it would replace the first of them before the last is gone
        for pod in of_replica(before, 1):
            api.delete(PODS, pod["metadata"]["name"], namespace, grace=0)
        assert identities(workers(api, namespace)) == whole(0, 2)
        wait_for_members(webhook, known - HOSTS)

        operator.start()
        after = wait_for_workers(api, namespace, 3 * HOSTS)

        assert identities(after) == whole(0, 1, 2)
        assert len(replica_names(of_replica(after, 1))) == 1
        assert not replica_names(of_replica(after, 1)) & replica_names(before)
    control_plane.delete_ray_cluster("one", namespace)


def test_a_group_that_grows_fills_the_replicas_that_an_autoscaler_took(
    control_plane: ControlPlane, webhook: Webhook
) -> None:
    api, namespace = control_plane.api, control_plane.namespace("scaled-by-replica")
    empty = webhook.metric("ray_webhook_members")
    with Operator(control_plane, multi_host_indexing=False):
        api.create(RAY_CLUSTERS, slices("one", 1), namespace)
        assert identities(wait_for_workers(api, namespace, HOSTS)) == whole(0)

        scale(api, "one", namespace, 5)
        five = wait_for_workers(api, namespace, 5 * HOSTS)
        assert identities(five) == whole(0, 1, 2, 3, 4)
        known = members(webhook, empty, 5 * HOSTS)

        leaving = [pod for replica in (0, 2, 3) for pod in of_replica(five, replica)]
        scale(api, "one", namespace, 2, leaving)
        assert identities(wait_for_workers(api, namespace, 2 * HOSTS)) == whole(1, 4)
        wait_for_members(webhook, known - 3 * HOSTS)

        scale(api, "one", namespace, 4)
        assert identities(wait_for_workers(api, namespace, 4 * HOSTS)) == whole(0, 1, 2, 4)
    control_plane.delete_ray_cluster("one", namespace)


def killed_among(plane: ControlPlane, cluster: Json, namespace: str, webhook: Webhook) -> Objects:
    """Kill the webhook while the hosts come; return those that are there then. Where all of them
    are, none stays, and the webhook is started again.
    """
    earlier = len(webhook.admissions())
    plane.api.create(RAY_CLUSTERS, cluster, namespace)
    until(lambda: len(webhook.admissions()) > earlier + 16, "16 hosts")
    webhook.kill()
    there = workers(plane.api, namespace)
    assert there
    if len(there) < 64:
        return there
    plane.delete_ray_cluster(cluster["metadata"]["name"], namespace)
    webhook.start()
    return []


def test_sixty_four_hosts_come_up_although_the_webhook_is_killed_among_them(
    control_plane: ControlPlane, webhook: Webhook
) -> None:
    api, namespace = control_plane.api, control_plane.namespace("killed")
    cluster = example("tpu-v6e-16x16")
    with Operator(control_plane, multi_host_indexing=False):
        partial = until(
            lambda: killed_among(control_plane, cluster, namespace, webhook),
            "the webhook is killed before all are there",
        )
        webhook.start()
        pods = wait_for_workers(api, namespace, 64)

        assert identities(pods) == [(0, host) for host in range(64)]
        assert wrong_identities(pods, cluster) == []
        assert uids(partial) <= uids(pods)
    control_plane.delete_ray_cluster("tpu-v6e", namespace)
