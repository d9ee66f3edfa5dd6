"""PodGroups of RayClusters with scheduling groups, while these grow, shrink, are suspended and are
edited.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime

import pytest

from tests.e2e import needs
from tests.e2e.api import LEASES, POD_GROUPS, PODS, RAY_CLUSTERS, WORKLOADS, Api, Json, Objects
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
from tests.e2e.installation import CONTROLLER, NAMESPACE
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

MANY = 9
"""Worker groups of a RayCluster that has more than the templates of a Workload can name."""

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


def test_a_worker_group_that_is_added_later_has_a_pod_group_too(gated_plane: ControlPlane) -> None:
    api, namespace = gated_plane.api, gated_plane.namespace("added")
    api.create(RAY_CLUSTERS, grouped("one", {"first": (1, 1)}, GROUPED), namespace)
    await_counts(api, namespace, {"one-head": HEAD, "one-worker-first": 1})
    wait_for_pods(api, namespace, 2)
    before = uids(pod_groups(api, namespace))

    cluster = grouped("one", {"first": (1, 1), "second": (2, 1)}, GROUPED)
    groups = cluster["spec"]["workerGroupSpecs"]
    api.patch(RAY_CLUSTERS, "one", {"spec": {"workerGroupSpecs": groups}}, namespace)

    await_counts(api, namespace, {"one-head": HEAD, "one-worker-first": 1, "one-worker-second": 2})
    assert Counter(map(group_of, wait_for_pods(api, namespace, 4)))["one-worker-second"] == 2
    assert before.items() <= uids(pod_groups(api, namespace)).items()  # pods still name them
    gated_plane.delete_ray_cluster("one", namespace)
    await_nothing(api, namespace)


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


def test_a_cluster_that_asks_for_other_groups_gets_them_for_the_pods_that_come(
    gated_plane: ControlPlane,
) -> None:
    api, namespace = gated_plane.api, gated_plane.namespace("other-size")
    api.create(RAY_CLUSTERS, grouped("one", {"workers": (1, HOSTS)}, by("worker-group")), namespace)
    await_counts(api, namespace, {"one-head": HEAD, "one-worker-workers": HOSTS})
    old = wait_for_workers(api, namespace, HOSTS)

    api.patch(RAY_CLUSTERS, "one", {"metadata": {"annotations": by("replica")}}, namespace)
    until_equal(
        lambda: "one-worker-workers" in counts(api, namespace),
        wanted=False,
        what="the previous PodGroups go",
    )
    scale(api, "one", namespace, 2)

    new = [
        pod
        for pod in wait_for_workers(api, namespace, 2 * HOSTS)
        if not uids([pod]).items() <= uids(old).items()
    ]
    (name,) = set(map(group_of, new))
    until_equal(
        lambda: counts(api, namespace).get(str(name), 0), HOSTS, "the new replica has a PodGroup"
    )
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


def test_a_controller_that_crashes_is_replaced_when_its_lease_is_over(
    gated_plane: ControlPlane, publisher: Webhook
) -> None:
    api, namespace = gated_plane.api, gated_plane.namespace("crashed")
    with publisher.controller.replica({}) as other:
        assert publisher.controller.leads
        publisher.controller.kill()
        crashed = lease(api)
        api.create(RAY_CLUSTERS, grouped("one", {"workers": (3, 1)}, GROUPED), namespace)
        await_counts(api, namespace, {"one-head": HEAD, "one-worker-workers": 3})
        assert other.leads
        waited = instant(lease(api)["acquireTime"]) - instant(crashed["renewTime"])
        assert waited.total_seconds() >= crashed["leaseDurationSeconds"] == 15
        publisher.controller.start()
    until(lambda: publisher.controller.leads, "the first one leads again")
    gated_plane.delete_ray_cluster("one", namespace)
    await_nothing(api, namespace)


def of_leases(lines: list[Json]) -> list[str]:
    said = [str(line.get("message")) for line in lines]
    return [each for each in said if each.startswith("leader: ")]


def lease(api: Api) -> Json:
    found: Json = api.get(LEASES, CONTROLLER, NAMESPACE)["spec"]
    return found


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_what_changed_while_the_controller_was_down_is_made_good(
    gated_plane: ControlPlane, publisher: Webhook
) -> None:
    api, namespace = gated_plane.api, gated_plane.namespace("caught-up")
    for name in ("grows", "goes-out"):
        api.create(RAY_CLUSTERS, grouped(name, {"workers": (1, 1)}, GROUPED), namespace)
    until(lambda: len(pod_groups(api, namespace)) == 4, "both are grouped")

    publisher.controller.kill()
    scale_group(api, "grows", namespace, "workers", 2)
    api.patch(RAY_CLUSTERS, "goes-out", {"metadata": {"annotations": OPTED_OUT}}, namespace)
    publisher.controller.start()

    await_counts(api, namespace, {"grows-head": HEAD, "grows-worker-workers": counted(2, 1)})
    for name in ("grows", "goes-out"):
        gated_plane.delete_ray_cluster(name, namespace)


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


def test_a_cluster_that_an_autoscaler_scales_is_no_gang_as_a_whole(
    gated_plane: ControlPlane,
) -> None:
    api, namespace = gated_plane.api, gated_plane.namespace("autoscaled-cluster")
    cluster = autoscaled("auto", 1)
    cluster["metadata"]["annotations"] = by("cluster")
    api.create(RAY_CLUSTERS, cluster, namespace)

    assert set(map(group_of, wait_for_pods(api, namespace, 1 + HOSTS))) == {None}
    assert [*pod_groups(api, namespace), *workloads(api, namespace)] == []
    gated_plane.delete_ray_cluster("auto", namespace)


def test_a_worker_group_that_autoscales_waits_for_the_pods_that_it_has_at_least(
    gated_plane: ControlPlane,
) -> None:
    api, namespace = gated_plane.api, gated_plane.namespace("autoscaled-group")
    cluster = autoscaled("auto", 2)
    cluster["metadata"]["annotations"] = by("worker-group")
    (group,) = cluster["spec"]["workerGroupSpecs"]
    group["minReplicas"] = 1
    api.create(RAY_CLUSTERS, cluster, namespace)

    name = f"auto-worker-{group['groupName']}"
    await_counts(api, namespace, {"auto-head": HEAD, name: HOSTS})
    pods = wait_for_pods(api, namespace, 1 + 2 * HOSTS)
    assert Counter(map(group_of, pods)) == {"auto-head": 1, name: 2 * HOSTS}
    gated_plane.delete_ray_cluster("auto", namespace)
    await_nothing(api, namespace)


def test_a_cluster_of_many_groups_has_pod_groups_without_a_workload(
    gated_plane: ControlPlane,
) -> None:
    api, namespace = gated_plane.api, gated_plane.namespace("many")
    groups = {f"group-{number}": (1, 1) for number in range(MANY)}
    api.create(RAY_CLUSTERS, grouped("many", groups, GROUPED), namespace)

    await_counts(
        api, namespace, {"many-head": HEAD, **{f"many-worker-{group}": 1 for group in groups}}
    )
    pods = wait_for_pods(api, namespace, MANY + 1)
    assert set(map(group_of, pods)) == set(uids(pod_groups(api, namespace)))
    assert not any(map(workload_of, pod_groups(api, namespace)))
    assert workloads(api, namespace) == []
    gated_plane.delete_ray_cluster("many", namespace)
    await_nothing(api, namespace)


def test_one_pod_group_holds_head_and_workers_where_that_is_asked_for(
    gated_plane: ControlPlane,
) -> None:
    api, namespace = gated_plane.api, gated_plane.namespace("by-cluster")
    api.create(
        RAY_CLUSTERS, grouped("one", {"single": (2, 1), "multi": (1, 4)}, by("cluster")), namespace
    )

    await_counts(api, namespace, {"one-all": 1 + 2 + 4})
    assert Counter(map(group_of, wait_for_pods(api, namespace, 7))) == {"one-all": 7}
    scale_group(api, "one", namespace, "multi", 2)
    await_counts(api, namespace, {"one-all": counted(1 + 2 + 8, 1 + 2 + 4)})
    wait_for_pods(api, namespace, 1 + 2 + 8)
    gated_plane.delete_ray_cluster("one", namespace)
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
    """The workers, once they are whole replicas, each with a PodGroup of its own that waits for all
    its hosts.
    """

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
