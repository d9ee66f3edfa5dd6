"""Replicas whose hosts KubeRay does not index: groups shrink and grow, many RayClusters start at
once, and the webhook is killed in between.
"""

from functools import partial

import pytest

from tests.e2e import needs
from tests.e2e.api import RAY_CLUSTERS, Json, Objects
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kuberay import UNTHROTTLED, Operator
from tests.e2e.rays import (
    HOSTS,
    example,
    identities,
    of_replica,
    replica_names,
    scale,
    slices,
    stored,
    uids,
    wait_for_workers,
    whole,
    workers,
    wrong_identities,
)
from tests.e2e.waiting import until, until_equal
from tests.e2e.webhook_process import Webhook
from tests.harness.identities import identity_of

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("webhook")]

CLUSTERS, REPLICAS = 10, 25
LOAD = CLUSTERS * REPLICAS * HOSTS


def test_a_group_that_grows_fills_the_replicas_that_an_autoscaler_took(
    control_plane: ControlPlane, webhook: Webhook
) -> None:
    api, namespace = control_plane.api, control_plane.namespace("scaled-by-replica")
    count_members = partial(webhook.metric, "ray_webhook_members")
    with Operator(control_plane, multi_host_indexing=False):
        api.create(RAY_CLUSTERS, slices("one", 1), namespace)
        assert identities(wait_for_workers(api, namespace, HOSTS)) == whole(0)

        scale(api, "one", namespace, 5)
        five = wait_for_workers(api, namespace, 5 * HOSTS)
        assert identities(five) == whole(0, 1, 2, 3, 4)
        until_equal(count_members, 5 * HOSTS, "the watch tells who is there")

        leaving = [pod for replica in (0, 2, 3) for pod in of_replica(five, replica)]
        scale(api, "one", namespace, 2, leaving)
        assert identities(wait_for_workers(api, namespace, 2 * HOSTS)) == whole(1, 4)
        until_equal(count_members, 2 * HOSTS, "the watch tells who is gone")

        scale(api, "one", namespace, 4)
        four = wait_for_workers(api, namespace, 4 * HOSTS)
        assert identities(four) == whole(0, 1, 2, 4)
        new = [*of_replica(four, 0), *of_replica(four, 2)]
        assert len(replica_names(new)) == 2
        assert not replica_names(new) & replica_names(five)
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


def test_no_identity_is_held_twice_among_a_thousand_pods_that_come_up_together(
    control_plane: ControlPlane,
) -> None:
    flags = UNTHROTTLED if needs.CLIENT_RATE.is_met else ()
    clusters = [slices(f"load-{number}", REPLICAS) for number in range(CLUSTERS)]
    api, namespace = control_plane.api, control_plane.namespace("load")
    with Operator(control_plane, multi_host_indexing=False, reconcile_concurrency=10, flags=flags):
        for cluster in clusters:
            api.create(RAY_CLUSTERS, cluster, namespace)
        enough = LOAD + CLUSTERS  # with their heads
        until(lambda: stored(api, namespace) >= enough, f"{enough} pods", 900)
        pods = wait_for_workers(api, namespace, LOAD)
    assert wrong_identities(pods, *clusters) == []
    assert len({identity_of(pod) for pod in pods} - {None}) == LOAD
