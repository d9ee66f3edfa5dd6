"""PodGroups of RayClusters while these grow, shrink, are suspended and are edited."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.e2e import needs
from tests.e2e.api import POD_GROUPS, PODS, RAY_CLUSTERS, WORKLOADS, Api, Json, Objects
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gangs import (
    GROUPED,
    by,
    counted,
    counts,
    group_of,
    grouped,
    owner_of,
    pod_groups,
    uids,
    workload_of,
    workloads,
)
from tests.e2e.kuberay import Operator
from tests.e2e.rays import (
    HOSTS,
    of_replica,
    replica_names,
    scale,
    slices,
    wait_for_pods,
    with_identity,
    workers,
)
from tests.e2e.waiting import until, until_equal
from tests.e2e.webhook_process import Webhook
from tests.harness.identities import identity_of
from webhook.api import names

pytestmark = pytest.mark.e2e


HEAD = 0
"""What the PodGroup of a head waits for: nothing, as it has one pod."""


@pytest.fixture(scope="module", autouse=True)
def operator(gated_plane: ControlPlane, publisher: Webhook) -> Iterator[Operator]:
    """KubeRay, which indexes hosts, as it does by default."""
    assert publisher.ready
    with Operator(gated_plane) as running:
        yield running


def test_each_worker_group_has_a_pod_group_whose_count_follows_it(
    gated_plane: ControlPlane,
) -> None:
    api, namespace = gated_plane.api, gated_plane.namespace("by-group")
    cluster = api.create(
        RAY_CLUSTERS, grouped("one", {"single": (2, 1), "multi": (1, 4)}, GROUPED), namespace
    )

    await_counts(api, namespace, {"one-head": HEAD, "one-worker-single": 2, "one-worker-multi": 4})
    pods = wait_for_pods(api, namespace, 7)
    assert Counter(map(group_of, pods)) == {
        "one-head": 1,
        "one-worker-single": 2,
        "one-worker-multi": 4,
    }
    before = pod_groups(api, namespace)
    for found in [*before, *workloads(api, namespace)]:
        assert owner_of(found) == (names.RAYCLUSTER_KIND, cluster["metadata"]["uid"])
        assert found["metadata"]["labels"][names.LABEL_CLUSTER] == "one"
    assert set(map(workload_of, before)) == set(uids(workloads(api, namespace)))

    for replicas in (4, 1):
        scale(api, "one", namespace, replicas)
        count = counted(replicas, 2)
        await_counts(
            api, namespace, {"one-head": HEAD, "one-worker-single": count, "one-worker-multi": 4}
        )
    wait_for_pods(api, namespace, 6)
    assert uids(pod_groups(api, namespace)) == uids(before)  # a count is changed in place
    gated_plane.delete_ray_cluster("one", namespace)
    await_nothing(api, namespace)


def test_what_somebody_deletes_is_made_again_by_the_one_of_two_that_leads(
    gated_plane: ControlPlane, publisher: Webhook
) -> None:
    api, namespace = gated_plane.api, gated_plane.namespace("deleted")
    wanted = {"one-head": HEAD, "one-worker-workers": 3}
    with publisher.controller.replica({}) as other:
        assert (publisher.controller.leads, other.leads) == (True, False)
        publisher.controller.stop()
        (*_, last) = of_leases(publisher.controller.lines())
        assert last.endswith("was released")
        until(lambda: other.leads, "the other one leads")
        publisher.controller.start()
        assert (publisher.controller.leads, other.leads) == (False, True)
        api.create(RAY_CLUSTERS, grouped("one", {"workers": (3, 1)}, GROUPED), namespace)
        await_counts(api, namespace, wanted)
        wait_for_pods(api, namespace, 4)
        kept, gone = (uids(pod_groups(api, namespace))[name] for name in wanted)

        # Its pods, which live, would keep it for ever
        api.delete(POD_GROUPS, "one-worker-workers", namespace)
        until(
            lambda: uids(pod_groups(api, namespace)).get("one-worker-workers", gone) != gone,
            "there is another one",
        )
        assert counts(api, namespace) == wanted
        assert uids(pod_groups(api, namespace))["one-head"] == kept

        api.delete(WORKLOADS, "one.gang", namespace)
        until_equal(
            lambda: list(uids(workloads(api, namespace))),
            ["one.gang"],
            "the Workload is there again",
        )
    until(lambda: publisher.controller.leads, "the first one leads again")
    gated_plane.delete_ray_cluster("one", namespace)
    await_nothing(api, namespace)


def of_leases(lines: list[Json]) -> list[str]:
    said = [str(line.get("message")) for line in lines]
    return [each for each in said if each.startswith("leader: ")]


def test_each_replica_that_an_autoscaler_adds_has_a_pod_group_of_its_own(
    gated_plane: ControlPlane,
) -> None:
    needs.MULTI_HOST_INDEXING.ask()
    api, namespace = gated_plane.api, gated_plane.namespace("by-replica")
    api.create(RAY_CLUSTERS, autoscaled("auto", 2), namespace)
    two = wait_for_replicas(api, namespace, 2)
    before = uids(pod_groups(api, namespace))

    scale(api, "auto", namespace, 3)
    three = wait_for_replicas(api, namespace, 3)
    assert before.items() < uids(pod_groups(api, namespace)).items()

    leaving = of_replica(three, 1)
    # KubeRay takes the whole replica of a pod that is named
    scale(api, "auto", namespace, 2, leaving[:1])
    left = wait_for_replicas(api, namespace, 2)
    assert replica_names(left) == replica_names(three) - replica_names(leaving)
    scale(api, "auto", namespace, 2)  # the autoscaler clears its list

    api.delete(PODS, with_identity(left, 0, 2)["metadata"]["name"], namespace, grace=0)
    until(
        lambda: replica_names(left) - replica_names(workers(api, namespace)),
        "KubeRay deletes the replica that lost a host",
    )
    after = wait_for_replicas(api, namespace, 2)
    gone = set(map(group_of, of_replica(left, 0)))
    assert not gone & set(map(group_of, after))
    assert set(map(group_of, of_replica(left, 2))) < set(map(group_of, after))
    assert len(replica_names(two) & replica_names(after)) == 0
    gated_plane.delete_ray_cluster("auto", namespace)
    await_nothing(api, namespace)


def await_counts(api: Api, namespace: str, wanted: dict[str, int]) -> None:
    until_equal(lambda: counts(api, namespace), wanted, "PodGroups")


def await_nothing(api: Api, namespace: str) -> None:
    """Wait until neither PodGroups nor Workloads are left, not even such as are being deleted."""
    until(
        lambda: not [*api.list(POD_GROUPS, namespace), *api.list(WORKLOADS, namespace)],
        "nothing is left",
    )


def wait_for_replicas(api: Api, namespace: str, count: int) -> Objects:
    """The workers, once they are whole replicas, each with its PodGroup for all hosts."""

    def settled() -> bool:
        members = Counter(map(group_of, workers(api, namespace)))
        return (
            len(members) == count
            and counts(api, namespace) == dict.fromkeys(members, HOSTS) == members
        )

    until(settled, f"{count} replicas in PodGroups of their own")
    pods = workers(api, namespace)
    assert (
        len({(group_of(pod), identity.name) for pod in pods if (identity := identity_of(pod))})
        == count
    )
    return pods


def autoscaled(name: str, replicas: int) -> Json:
    cluster = slices(name, replicas)
    cluster["metadata"]["annotations"] = by("replica")
    cluster["spec"]["enableInTreeAutoscaling"] = True
    return cluster
