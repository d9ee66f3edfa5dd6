"""The desired PodGroups and ComputeDomains of a RayCluster, and when a Workload is needed."""

import pytest

from tests.builders import NAMESPACE, ClusterBuilder, a_cluster, cluster_config, uid_of
from webhook.controller.podgroups.domains import build_desired_domains
from webhook.groups.annotations import CLUSTER, REPLICA, WORKER_GROUP
from webhook.groups.identity import GroupKey, HostIdentity
from webhook.groups.identity_index import Member, Membership
from webhook.groups.pod_groups import (
    BASIC,
    TEMPLATES_MAX,
    Desired,
    PodGroup,
    build_desired,
    list_replica_names,
)
from webhook.groups.scheduling_groups import digest


def asking(granularity: str) -> ClusterBuilder:
    return a_cluster("c").opting(scheduling_group=granularity)


def desired(cluster: ClusterBuilder, members: Membership | None = None) -> Desired:
    known = cluster_config(cluster)
    return build_desired(known, list_replica_names(known, members or Membership()))


def with_pods(*identities: tuple[str, HostIdentity]) -> Membership:
    """Return a membership with pods in identities of groups of the RayCluster `c`."""
    members = Membership()
    for number, (group, identity) in enumerate(identities):
        members.put(f"pod-{number}", Member(GroupKey(NAMESPACE, uid_of("c"), group), identity))
    return members


def counts(found: Desired) -> dict[str, int]:
    return {group.name: group.min_count for group in found.pod_groups}


def templates(found: Desired) -> dict[str, int]:
    """Return the minimal count of each template, nothing without a Workload."""
    templates = found.workload.templates if found.workload else ()
    return {template.name: template.min_count for template in templates}


def test_a_whole_cluster_waits_for_its_head_and_every_desired_pod() -> None:
    cluster = asking(CLUSTER).group("a", hosts=4, replicas=2).group("b", replicas=3)
    found = desired(cluster.group("without-hosts", hosts=-1, replicas=2))
    assert counts(found) == {"c-all": 12}
    assert templates(found) == {"cluster": 12}


def test_each_worker_group_waits_for_its_own_and_the_head_for_nobody() -> None:
    found = desired(asking(WORKER_GROUP).group("a", hosts=4, replicas=2).group("b", replicas=3))
    assert counts(found) == {"c-head": BASIC, "c-worker-a": 8, "c-worker-b": 3}
    assert templates(found) == {"head": BASIC, "worker-a": 8, "worker-b": 3}
    assert found.workload is not None
    assert found.workload.name == "c.gang"


def test_a_worker_group_that_autoscales_waits_for_the_pods_that_it_has_at_least() -> None:
    cluster = asking(WORKER_GROUP).spec(enableInTreeAutoscaling=True)
    cluster.group("a", hosts=4, replicas=3, minReplicas=2).group("b", replicas=2, minReplicas=0)
    found = desired(cluster.group("none", replicas=0))
    assert counts(found) == {"c-head": BASIC, "c-worker-a": 8, "c-worker-b": BASIC}
    assert templates(found) == {"head": BASIC, "worker-a": 8, "worker-b": BASIC, "worker-none": 1}


def test_replicas_are_preempted_together_and_placed_within_their_domain() -> None:
    cluster = asking(REPLICA).opting(topology_key="rack")
    members = with_pods(("b", HostIdentity(0, 0, "b-xxxxx")))
    found = desired(cluster.group("b", hosts=2), members).pod_groups
    assert [(each.name, each.replica, each.topology_key) for each in found] == [
        ("c-worker-b-xxxxx", True, "rack")
    ]
    grouped = asking(WORKER_GROUP).opting(topology_key="rack")
    for each in desired(grouped.group("b", hosts=2)).pod_groups:
        assert (each.replica, each.topology_key) == (False, "")


@pytest.mark.parametrize("fields", [{"replicas": 0}, {"suspend": True}, {"maxReplicas": 0}])
def test_a_group_that_wants_no_pods_has_a_template_but_no_pod_group(fields: dict[str, int]) -> None:
    found = desired(asking(WORKER_GROUP).group("a", **{"hosts": 4, "replicas": 2} | fields))
    assert counts(found) == {"c-head": BASIC}
    assert templates(found) == {"head": BASIC, "worker-a": 1}


@pytest.mark.parametrize(("fields", "count"), [
    ({"replicas": 9, "maxReplicas": 2, "hosts": 3}, 6),
    ({"replicas": 1, "minReplicas": 5}, 5),
    ({"replicas": 2147483647, "hosts": 64}, 2147483647),
])  # fmt: skip
def test_the_desired_count_is_kept_within_its_bounds(fields: dict[str, int], count: int) -> None:
    found = desired(asking(WORKER_GROUP).group("a", **fields))
    assert counts(found)["c-worker-a"] == count


def test_each_replica_of_several_hosts_has_its_own_as_soon_as_a_identity_of_it_is_taken() -> None:
    cluster = asking(REPLICA).group("tpu", hosts=4, replicas=2).group("cpu", replicas=3)
    assert counts(desired(cluster)) == {}
    assert templates(desired(cluster)) == {"worker-tpu": 4}
    members = with_pods(
        ("tpu", HostIdentity(0, 0, "tpu-bcdfg")), ("tpu", HostIdentity(0, 1, "tpu-bcdfg")),
        ("cpu", HostIdentity(0, 0, "")), ("tpu", HostIdentity(1, 0, "tpu-hjklm")))  # fmt: skip
    assert counts(desired(cluster, members)) == {"c-worker-tpu-bcdfg": 4, "c-worker-tpu-hjklm": 4}
    assert desired(cluster, members).live == {"c-worker-tpu-bcdfg", "c-worker-tpu-hjklm"}


def test_a_cluster_of_single_hosts_that_asks_for_replicas_gets_nothing() -> None:
    assert desired(asking(REPLICA).group("cpu", replicas=3)) == Desired(uid_of("c"))


def test_pod_groups_have_the_priority_of_their_pods() -> None:
    template = {"spec": {"priorityClassName": "low"}}
    cluster = asking(WORKER_GROUP).head(priorityClassName="low")
    found = desired(cluster.group("a", template=template))
    assert found.pod_groups == (
        PodGroup("c-head", "head", BASIC, "low"),
        PodGroup("c-worker-a", "worker-a", 1, "low"),
    )
    assert found.workload is not None
    assert found.workload.priority_class == "low"


def test_there_is_no_workload_when_priorities_differ_as_the_api_server_refuses_it() -> None:
    found = desired(asking(WORKER_GROUP).head(priorityClassName="high").group("a"))
    assert found.workload is None
    assert set(counts(found)) == {"c-head", "c-worker-a"}


@pytest.mark.parametrize(("groups", "fits"), [(TEMPLATES_MAX - 1, True), (TEMPLATES_MAX, False)])
def test_no_workload_has_more_groups_than_templates(groups: int, fits: bool) -> None:
    cluster = asking(WORKER_GROUP)
    for number in range(groups):
        cluster.group(f"g{number}")
    found = desired(cluster)
    assert (found.workload is not None) == fits
    assert len(found.pod_groups) == groups + 1


def test_a_suspended_cluster_keeps_its_workload_alone() -> None:
    found = desired(asking(WORKER_GROUP).group("a", hosts=4).spec(suspend=True))
    assert counts(found) == {}
    assert templates(found) == {"head": BASIC, "worker-a": 4}


def test_nothing_is_wanted_for_a_cluster_that_asks_for_nothing_or_cannot_have_it() -> None:
    autoscaled = asking(CLUSTER).group("a").spec(enableInTreeAutoscaling=True)
    for cluster in (a_cluster("c").group("a"), autoscaled):
        assert desired(cluster) == Desired(uid_of("c"))


def test_live_are_the_pod_groups_whose_workers_are_known_and_of_heads_nothing_is_known() -> None:
    members = with_pods(("a", HostIdentity(0, 0, "")))
    found = desired(asking(WORKER_GROUP).group("a").group("b"), members)
    assert (found.live, found.heads) == (frozenset({"c-worker-a"}), frozenset({"c-head"}))
    found = desired(asking(CLUSTER).group("a"), members)
    assert (found.live, found.heads) == (frozenset({"c-all"}), frozenset({"c-all"}))


def test_pods_of_a_previous_cluster_of_the_same_name_do_not_count() -> None:
    members, previous = Membership(), GroupKey(NAMESPACE, "another-uid", "tpu")
    members.put("p", Member(previous, HostIdentity(0, 0, "tpu-bcdfg")))
    assert counts(desired(asking(REPLICA).group("tpu", hosts=2), members)) == {}


UID = digest(uid_of("c"))
GPUS = [{"name": "ray-worker", "resources": {"limits": {"nvidia.com/gpu": 4}}}]


def with_gpus() -> ClusterBuilder:
    """Return a RayCluster with GPUs in a group of two hosts and in one of single hosts."""
    template = {"spec": {"containers": GPUS}}
    cluster = a_cluster("c").group("g", hosts=2, replicas=2, template=template)
    return cluster.group("single", replicas=16, template=template).group("cpu", hosts=2)


def domains(
    cluster: ClusterBuilder, scope: str, *identities: tuple[str, HostIdentity]
) -> list[str]:
    """Return the names of the ComputeDomains that should exist, with pods in these identities."""
    known = cluster_config(cluster.opting(compute_domain=scope))
    found = build_desired_domains(known, list_replica_names(known, with_pods(*identities)))
    assert found.workload is None
    return [each.name for each in found.pod_groups]


@pytest.mark.parametrize(("scope", "expected"), [
    ("cluster", [f"c-all-{UID}"]),
    ("worker-group", [f"c-worker-g-{UID}", f"c-worker-single-{UID}"]),
    ("replica", []), ("", []), ("pods", []),
])  # fmt: skip
def test_domains_exist_as_long_as_they_are_asked_for(scope: str, expected: list[str]) -> None:
    assert domains(with_gpus(), scope) == expected


def test_a_replica_of_several_hosts_has_a_domain_from_its_first_pod_on() -> None:
    identities = [
        ("g", HostIdentity(0, 0, "g-bcdfg")), ("g", HostIdentity(1, 1, "g-hjklm")),
        ("single", HostIdentity(0, 0, "")), ("cpu", HostIdentity(0, 0, "cpu-bcdfg"))]  # fmt: skip
    assert domains(with_gpus(), "replica", *identities) == ["c-worker-g-bcdfg", "c-worker-g-hjklm"]


def test_a_cluster_whose_head_alone_has_gpus_has_a_domain() -> None:
    cluster = a_cluster("c").group("cpu")
    assert domains(cluster, "cluster") == []
    assert domains(cluster.head(containers=GPUS), "cluster") == [f"c-all-{UID}"]
