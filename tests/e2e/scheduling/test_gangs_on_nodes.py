"""The scheduler binds all hosts of a replica to Nodes, or none."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.e2e import needs
from tests.e2e.api import PODS, PRIORITY_CLASSES, RAY_CLUSTERS, Api, Objects
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gangs import GROUPED, OPTED_OUT, by, grouped, pod_groups
from tests.e2e.kuberay import Operator
from tests.e2e.rays import HOSTS, names_of, scale, wait_for_workers, workers
from tests.e2e.scheduling.component import scheduler
from tests.e2e.scheduling.nodes import bound, present
from tests.e2e.waiting import until, until_equal
from tests.e2e.webhook_process import Webhook
from webhook.api import names

pytestmark = pytest.mark.e2e

ROOM = 6
"""Hosts that find a Node in stories of two replicas: more than one replica has."""

ONE_POD = {"cpu": "4"}
"""Of a Node that a head or a worker of the examples fills."""


@pytest.fixture(scope="module", autouse=True)
def scheduled(gated_plane: ControlPlane, publisher: Webhook) -> Iterator[None]:
    """The scheduler, and KubeRay without its own indexing: the webhook names the replicas."""
    assert publisher.ready
    with scheduler(gated_plane), Operator(gated_plane, multi_host_indexing=False):
        yield


def test_one_of_two_replicas_is_bound_where_there_is_room_for_one_and_a_half(
    gated_plane: ControlPlane,
) -> None:
    api, namespace = gated_plane.api, gated_plane.namespace("one-and-a-half")
    with present(api, nodes(ROOM + 1), capacity=ONE_POD):
        api.create(RAY_CLUSTERS, grouped("two", {"hosts": (2, HOSTS)}, by("replica")), namespace)
        wait_for_workers(api, namespace, 2 * HOSTS)
        until_equal(
            lambda: sorted(scheduling(api, namespace)),
            ["Scheduled", "Unschedulable"],
            "the scheduler has tried both",
        )
        until(lambda: bound(head(api, namespace)), "the head is bound")
        until_equal(
            lambda: list(bound_of_replicas(api, namespace).values()),
            [HOSTS],
            "one whole replica is bound",
        )
        with present(api, ["added-1", "added-2"], capacity=ONE_POD):
            until_equal(lambda: len(bound(workers(api, namespace))), 2 * HOSTS, "both are bound")
            until_equal(lambda: scheduling(api, namespace), ["Scheduled"] * 2, "both fit")
            gated_plane.delete_ray_cluster("two", namespace)


@pytest.mark.parametrize("size", ["cluster", "worker-group"])
def test_a_gang_that_runs_takes_in_the_pods_that_come_later(
    gated_plane: ControlPlane, size: str
) -> None:
    api, namespace = gated_plane.api, gated_plane.namespace(f"later-{size}")
    with present(api, nodes(ROOM), capacity=ONE_POD):
        api.create(RAY_CLUSTERS, grouped("one", {"workers": (2, 1)}, by(size)), namespace)
        until_equal(lambda: len(bound(api.list(PODS, namespace))), 3, "head and workers are bound")

        before = wait_for_workers(api, namespace, 2)
        api.delete(PODS, before[0]["metadata"]["name"], namespace, grace=0)
        until(
            lambda: names_of(bound(workers(api, namespace))) - names_of(before),
            "the pod that replaces it is bound",
        )
        scale(api, "one", namespace, 4)
        until_equal(
            lambda: len(bound(api.list(PODS, namespace))), 5, "the pods that are added are bound"
        )
        gated_plane.delete_ray_cluster("one", namespace)


def test_a_gang_has_the_priority_of_its_pods_or_it_would_never_be_bound(
    gated_plane: ControlPlane,
) -> None:
    api, namespace = gated_plane.api, gated_plane.namespace("priority")
    api.create(PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 7})
    cluster = grouped("one", {"workers": (1, HOSTS)}, by("replica"))
    cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["priorityClassName"] = "urgent"
    with present(api, nodes(HOSTS + 1), capacity=ONE_POD):
        api.create(RAY_CLUSTERS, cluster, namespace)
        until_equal(lambda: len(bound(workers(api, namespace))), HOSTS, "all hosts are bound")
        gated_plane.delete_ray_cluster("one", namespace)
    api.delete(PRIORITY_CLASSES, "urgent")


def test_a_gang_that_is_too_large_is_bound_when_it_is_made_smaller(
    gated_plane: ControlPlane,
) -> None:
    needs.MUTABLE_MIN_COUNT.ask()
    api, namespace = gated_plane.api, gated_plane.namespace("smaller")
    with present(api, nodes(3), capacity=ONE_POD):
        api.create(RAY_CLUSTERS, grouped("one", {"workers": (HOSTS, 1)}, by("cluster")), namespace)
        wait_for_workers(api, namespace, HOSTS)
        until_equal(
            lambda: scheduling(api, namespace),
            ["Unschedulable"],
            "the scheduler finds no room for head and workers",
        )
        assert bound(api.list(PODS, namespace)) == []

        scale(api, "one", namespace, 2)
        until_equal(lambda: len(bound(api.list(PODS, namespace))), 3, "head and workers are bound")
        gated_plane.delete_ray_cluster("one", namespace)


def test_a_gang_that_waits_when_its_cluster_opts_out_is_bound_all_the_same(
    gated_plane: ControlPlane,
) -> None:
    api, namespace = gated_plane.api, gated_plane.namespace("opted-out")
    with present(api, nodes(2), capacity=ONE_POD):
        api.create(RAY_CLUSTERS, grouped("one", {"workers": (1, HOSTS)}, GROUPED), namespace)
        wait_for_workers(api, namespace, HOSTS)
        until(lambda: bound(head(api, namespace)), "the head, which waits for no one, is bound")
        until(
            lambda: "Unschedulable" in scheduling(api, namespace),
            "the scheduler finds no room for the workers",
        )
        assert bound(workers(api, namespace)) == []

        api.patch(RAY_CLUSTERS, "one", {"metadata": {"annotations": OPTED_OUT}}, namespace)
        until(lambda: not pod_groups(api, namespace), "the PodGroups are being deleted")
        with present(api, ["added-1", "added-2", "added-3"], capacity=ONE_POD):
            until_equal(lambda: len(bound(workers(api, namespace))), HOSTS, "all workers are bound")
            gated_plane.delete_ray_cluster("one", namespace)


def nodes(count: int) -> list[str]:
    return [f"node-{number}" for number in range(count)]


def head(api: Api, namespace: str) -> Objects:
    return api.list(PODS, namespace, f"{names.LABEL_NODE_TYPE}={names.NODE_TYPE_HEAD}")


def bound_of_replicas(api: Api, namespace: str) -> Counter[str]:
    return Counter(
        pod["metadata"]["labels"][names.LABEL_REPLICA_NAME]
        for pod in bound(workers(api, namespace))
    )


def scheduling(api: Api, namespace: str) -> list[str]:
    """The reason of the scheduler's condition of each PodGroup, empty until it is tried."""
    return [
        _reason(each.get("status", {}).get("conditions") or [])
        for each in pod_groups(api, namespace)
    ]


TRIED = {"PodGroupInitiallyScheduled", "PodGroupScheduled"}
"""The condition of a PodGroup that was tried, in v1beta1 and in v1alpha2."""


def _reason(conditions: Objects) -> str:
    return next((each["reason"] for each in conditions if each["type"] in TRIED), "")
