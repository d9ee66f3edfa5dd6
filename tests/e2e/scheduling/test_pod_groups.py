"""PodGroups of RayClusters while these grow, shrink, are suspended and are edited."""

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.e2e import needs
from tests.e2e.api import POD_GROUPS, PODS, RAY_CLUSTERS, WORKLOADS, Api, Json, Objects
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gangs import (
    GROUPED,
    OPTED_OUT,
    by,
    counted,
    counts,
    group_of,
    grouped,
    owner_of,
    pod_groups,
    scale_group,
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
    wait_for_workers,
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
        scale_group(api, "one", namespace, "single", replicas)
        count = counted(replicas, 2)
        await_counts(
            api, namespace, {"one-head": HEAD, "one-worker-single": count, "one-worker-multi": 4}
        )
    wait_for_pods(api, namespace, 6)
    assert uids(pod_groups(api, namespace)) == uids(before)  # a count is changed in place
    gated_plane.delete_ray_cluster("one", namespace)
    await_nothing(api, namespace)


def test_a_cluster_that_is_suspended_keeps_its_workload_alone(gated_plane: ControlPlane) -> None:
    api, namespace = gated_plane.api, gated_plane.namespace("suspended")
    api.create(RAY_CLUSTERS, grouped("one", {"workers": (2, 1)}, GROUPED), namespace)
    await_counts(api, namespace, {"one-head": HEAD, "one-worker-workers": 2})
    wait_for_pods(api, namespace, 3)
    before, kept = uids(pod_groups(api, namespace)), uids(workloads(api, namespace))

    api.patch(RAY_CLUSTERS, "one", {"spec": {"suspend": True}}, namespace)
    until(lambda: not api.list(PODS, namespace), "KubeRay removes the pods")
    until(lambda: not api.list(POD_GROUPS, namespace), "the PodGroups are gone for good")
    assert uids(workloads(api, namespace)) == kept

    api.patch(RAY_CLUSTERS, "one", {"spec": {"suspend": False}}, namespace)
    await_counts(api, namespace, {"one-head": HEAD, "one-worker-workers": 2})
    pods = wait_for_pods(api, namespace, 3)
    assert Counter(map(group_of, pods)) == {"one-head": 1, "one-worker-workers": 2}
    assert not set(uids(pod_groups(api, namespace)).values()) & set(before.values())
    gated_plane.delete_ray_cluster("one", namespace)


def test_a_cluster_that_replaces_one_of_its_name_has_pod_groups_of_its_own(
    gated_plane: ControlPlane,
) -> None:
    api, namespace = gated_plane.api, gated_plane.namespace("replaced")
    old = api.create(RAY_CLUSTERS, grouped("one", {"workers": (2, 1)}, GROUPED), namespace)
    await_counts(api, namespace, {"one-head": HEAD, "one-worker-workers": 2})
    wait_for_pods(api, namespace, 3)

    api.delete(RAY_CLUSTERS, "one", namespace)
    new = api.create(RAY_CLUSTERS, grouped("one", {"workers": (4, 1)}, GROUPED), namespace)

    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    await_counts(api, namespace, {"one-head": HEAD, "one-worker-workers": 4})
    until_equal(
        lambda: {
            owner_of(each)[1] for each in [*pod_groups(api, namespace), *workloads(api, namespace)]
        },
        {new["metadata"]["uid"]},
        "all belongs to the new RayCluster",
    )
    assert Counter(map(group_of, wait_for_pods(api, namespace, 5))) == {
        "one-head": 1,
        "one-worker-workers": 4,
    }
    gated_plane.delete_ray_cluster("one", namespace)
    await_nothing(api, namespace)


def test_a_cluster_that_opts_out_loses_its_groups_and_nobody_else_does(
    gated_plane: ControlPlane,
) -> None:
    api, namespace = gated_plane.api, gated_plane.namespace("opted-out")
    for name in ("one", "other"):
        api.create(RAY_CLUSTERS, grouped(name, {"workers": (1, 1)}, GROUPED), namespace)
    others, foreign = {"other-head", "other-worker-workers"}, {"one-worker-foreign", "plain"}
    until_equal(
        lambda: set(counts(api, namespace)),
        {"one-head", "one-worker-workers", *others},
        "both have PodGroups",
    )
    labels = {names.LABEL_CLUSTER: "one", "app.kubernetes.io/managed-by": "ray-webhook"}
    for found in (foreign_group("one-worker-foreign", labels), foreign_group("plain", {})):
        api.create(POD_GROUPS, found, namespace)
    (kept, *_) = (wait_for_workers(api, namespace, 1, name) for name in ("one", "other"))
    before = uids(pod_groups(api, namespace))

    api.patch(RAY_CLUSTERS, "one", {"metadata": {"annotations": OPTED_OUT}}, namespace)
    until_equal(lambda: set(counts(api, namespace)), others | foreign, "its PodGroups go")
    until_equal(lambda: set(uids(workloads(api, namespace))), {"other.gang"}, "its Workload goes")
    assert uids(pod_groups(api, namespace)).items() <= before.items()

    scale_group(api, "one", namespace, "workers", 2)
    (new,) = (
        pod
        for pod in wait_for_workers(api, namespace, 2, "one")
        if not uids([pod]).keys() & uids(kept).keys()
    )
    assert group_of(new) is None
    for name in ("one", "other"):
        gated_plane.delete_ray_cluster(name, namespace)
    until_equal(
        lambda: set(uids(api.list(POD_GROUPS, namespace))), foreign, "only what is foreign is left"
    )


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
        until(lambda: other.leads, "the other one leads before the Lease of 15 s is over", 10)
        publisher.controller.start()
        assert (publisher.controller.leads, other.leads) == (False, True)
        api.create(RAY_CLUSTERS, grouped("one", {"workers": (3, 1)}, GROUPED), namespace)
        await_counts(api, namespace, wanted)
        wait_for_pods(api, namespace, 4)
        kept, gone = (uids(pod_groups(api, namespace))[name] for name in wanted)

        api.delete(
            POD_GROUPS, "one-worker-workers", namespace
        )  # its pods, which live, would keep it for ever
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
    scale(
        api, "auto", namespace, 2, leaving[:1]
    )  # KubeRay takes the whole replica of a pod that is named
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


def wait_for_pods(api: Api, namespace: str, count: int) -> Objects:
    until_equal(lambda: len(api.list(PODS, namespace)), count, f"pods of {namespace}")
    return api.list(PODS, namespace)


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


def foreign_group(name: str, labels: Json) -> Json:
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }
