"""Gangs: the groups that a RayCluster requests, unmet preconditions, and derived names."""

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.builders import ClusterBuilder, a_cluster, cluster_config
from webhook.api import names
from webhook.api.formats import is_dns_label, is_qualified_name
from webhook.groups.annotations import CLUSTER, REPLICA, WORKER_GROUP
from webhook.groups.scheduling_groups import (
    CLUSTER_TEMPLATE,
    HEAD_TEMPLATE,
    cluster_pod_group,
    group_pod_group,
    head_pod_group,
    replica_pod_group,
    template_name,
    workload_name,
)

GROUPS = st.text(alphabet="abAB019-_.é/ ", min_size=1, max_size=80)
CLUSTERS = st.from_regex(r"[a-z]([-a-z0-9]{0,51}[a-z0-9])?", fullmatch=True)
SUFFIXES = st.text(alphabet="abz09-A", min_size=0, max_size=12)


def asking(granularity: str) -> ClusterBuilder:
    return a_cluster("c").opting(scheduling_group=granularity).group("g", hosts=4)


def is_subdomain(text: str) -> bool:
    """Return whether a text is an RFC 1123 subdomain, as names of PodGroups are."""
    return len(text) <= 253 and is_qualified_name(f"{text}/x")


@pytest.mark.parametrize(("cluster", "word"), [
    (asking("pod"), "'pod' is unknown"), (asking(""), ""),
    (asking(REPLICA).label(names.LABEL_GANG, "true"), names.LABEL_GANG),
    (asking(REPLICA).label("kai.scheduler/queue", "q"), "kai.scheduler/queue"),
    (asking(REPLICA).head(schedulerName="volcano"), "volcano"),
    (asking(REPLICA).head(evictionResponders=[{"name": "a.example.com"}]), "evictionResponders"),
    (asking(REPLICA).group("v", template={"spec": {"schedulerName": "yunikorn"}}), "yunikorn"),
    (asking(CLUSTER).spec(enableInTreeAutoscaling=True), f"use {WORKER_GROUP} or {REPLICA}"),
    (asking(CLUSTER).head(priorityClassName="high"), f"use {WORKER_GROUP}"),
    (asking(CLUSTER).head(schedulerName="mine"), f"use {WORKER_GROUP}"),
])  # fmt: skip
def test_what_stands_in_the_way_of_a_gang_is_named(cluster: ClusterBuilder, word: str) -> None:
    gang = cluster_config(cluster).gang
    assert not gang.active
    assert word in gang.unmet
    assert bool(gang.unmet) == bool(word)


def every_name(cluster: str, group: str, suffix: str) -> list[str]:
    """Return the names of PodGroups of a cluster that has one group with one replica."""
    return [
        cluster_pod_group(cluster), head_pod_group(cluster), group_pod_group(cluster, group),
        replica_pod_group(cluster, group, f"{group}-{suffix}"),
        replica_pod_group(cluster, group, suffix)]  # fmt: skip


@given(CLUSTERS, GROUPS, SUFFIXES)
def test_names_are_valid_bounded_and_our_own(cluster: str, group: str, suffix: str) -> None:
    for name in every_name(cluster, group, suffix):
        assert is_subdomain(name)
        assert name != cluster
        assert not name.endswith("-cluster")
    assert is_subdomain(workload_name(cluster))
    assert workload_name(cluster) != cluster
    assert is_dns_label(template_name(group))


@given(CLUSTERS, GROUPS, GROUPS)
def test_two_groups_of_a_cluster_never_share_a_name(cluster: str, one: str, other: str) -> None:
    if one != other:
        assert group_pod_group(cluster, one) != group_pod_group(cluster, other)
        assert template_name(one) != template_name(other)
    fixed = {cluster_pod_group(cluster), head_pod_group(cluster)}
    assert len(fixed) == 2
    assert group_pod_group(cluster, one) not in fixed
    assert template_name(one) not in {HEAD_TEMPLATE, CLUSTER_TEMPLATE}


LONG = "x" * 240
PARTS = st.lists(
    st.sampled_from(["a", "b", "worker", "all", "head", "cluster", "bcdfg", "1234abcd"]),
    min_size=1,
    max_size=4,
).map("-".join)
KEYS = st.one_of(
    st.tuples(st.just(cluster_pod_group), st.tuples(PARTS)),
    st.tuples(st.just(head_pod_group), st.tuples(PARTS)),
    st.tuples(st.just(group_pod_group), st.tuples(PARTS, PARTS)),
    st.tuples(st.just(replica_pod_group), st.tuples(PARTS, PARTS, PARTS)),
)


@settings(max_examples=1000)
@given(KEYS, KEYS)
@example((group_pod_group, ("a", "b-worker-c")), (group_pod_group, ("a-worker-b", "c")))
@example((group_pod_group, ("a", "b-bcdfg")), (replica_pod_group, ("a", "b", "b-bcdfg")))
@example((head_pod_group, ("a-worker",)), (group_pod_group, ("a", "head")))
@example((group_pod_group, (f"{LONG}a", "g")), (group_pod_group, (f"{LONG}b", "g")))
@example((replica_pod_group, ("c", "a", "b-c")), (replica_pod_group, ("c", "a-b", "c")))
@example((replica_pod_group, ("c", "A", "x")), (replica_pod_group, ("c", "a", "x")))
@example((replica_pod_group, ("c", "a", "")), (replica_pod_group, ("c", "a", "a")))
@example((replica_pod_group, ("c", "a", "b")), (replica_pod_group, ("c", "a", "a-b")))
def test_no_two_pod_groups_of_a_namespace_share_a_name(
    one: tuple[Callable[..., str], tuple[str, ...]],
    other: tuple[Callable[..., str], tuple[str, ...]],
) -> None:
    (first, key), (second, keys) = one, other
    assert (first(*key) == second(*keys)) == (one == other)


def test_names_that_people_see_every_day_are_plain() -> None:
    assert every_name("c", "tpu", "bcdfg")[:4] == [
        "c-all", "c-head", "c-worker-tpu", "c-worker-tpu-bcdfg"]  # fmt: skip
    assert template_name("tpu") == "worker-tpu"
    assert workload_name("c") == "c.gang"
