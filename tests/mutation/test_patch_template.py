"""Patterns: what is filled in for a replica is what would be worked out for it, and where that may differ there is no pattern."""

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from tests.builders import ClusterBuilder, PodBuilder, a_cluster, a_pod, facts, manifest
from tests.mutation.strategies import Case, cases
from webhook.groups.clusters import facts_of
from webhook.groups.seat import MAX_REPLICAS, Seat
from webhook.kube import names
from webhook.kube.review import Denied
from webhook.manifest.files import as_cluster, as_pod
from webhook.mutation.patch_cache import Planner, make_plan
from webhook.mutation.patch_template import PatchTemplate, read_template
from webhook.mutation.worker import Replica, read_replica

GANG = a_cluster("c").group("g", hosts=4, replicas=4).annotated(names.ANNOTATION_SCHEDULING_GROUP, "replica")
SLICE = a_pod().of("c").worker("g").tpu(4).topology("2x2x4")
INDICES = [0, 1, 9, 10, 123, MAX_REPLICAS - 1]


def read(pod: PodBuilder, cluster: ClusterBuilder, *, group: str = "g", name: str = "g-abcde", assigned: bool = True) -> Replica:
    """Return replica 0 as it is read from a pod."""
    known = facts(cluster)
    return read_replica(as_pod(manifest(pod.build())), Seat(0, 0, name), known, known.groups[group], assigned=assigned)


def filled(pattern: PatchTemplate, replica: Replica, host: int) -> bytes | None:
    """Return the patch of one host by the pattern of its group."""
    patch = pattern.patch_of(replica)
    assert patch is not None
    return patch.of(host)


@pytest.mark.parametrize("assigned", [True, False])
@pytest.mark.parametrize("index", INDICES)
def test_what_is_filled_in_is_what_would_be_worked_out(index: int, *, assigned: bool) -> None:
    sample = read(SLICE, GANG, assigned=assigned)
    pattern = read_template(sample)
    assert pattern is not None
    replica = sample.sibling(Seat(index, 0, "g-x7k2p"), assigned=assigned)
    for host in (0, 3):
        assert filled(pattern, replica, host) == make_plan(replica).answer_for(host).patch


def test_single_hosts_have_a_pattern_without_a_name() -> None:
    sample = read(a_pod().of("c").worker("g").tpu(4), a_cluster("c").group("g"), name="")
    pattern = read_template(sample)
    assert pattern is not None
    replica = sample.sibling(Seat(17, 0, ""), assigned=True)
    assert filled(pattern, replica, 0) == make_plan(replica).answer_for(0).patch


@pytest.mark.parametrize("name", ["g-abc", "other-abcde", "g-abc_e", "g-ABCDE", "abcde"])
def test_a_replica_whose_name_is_spelt_otherwise_is_worked_out(name: str) -> None:
    sample = read(SLICE, GANG, assigned=False)
    pattern = read_template(sample)
    assert pattern is not None
    assert pattern.patch_of(sample.sibling(Seat(0, 0, name), assigned=False)) is None


def test_texts_of_the_user_that_look_like_an_index_or_a_suffix_rule_it_out() -> None:
    for group in ("g9876543", "g8765432", "zz9zz", "yy8yy"):
        cluster = a_cluster("c").group(group, hosts=4)
        pod = a_pod().of("c").worker(group).tpu(4).topology("2x2x4")
        assert read_template(read(pod, cluster, group=group, name=f"{group}-abcde")) is None


def test_a_value_to_replace_or_to_warn_of_rules_it_out() -> None:
    assert read_template(read(a_pod().of("c").worker("g").tpu(4).topology("2x2x4").env(names.TPU_NAME, ""), GANG)) is None
    assert read_template(read(a_pod().of("c").worker("g").tpu(4).topology("2x2x4").env(names.TPU_NAME, "mine"), GANG)) is None


def test_terms_about_a_replica_rule_it_out() -> None:
    planner, cluster = Planner(), facts(GANG)
    third = Seat(2, 0, "g-ccccc")
    alone = planner.plan(as_pod(manifest(SLICE.build())), third, cluster, cluster.groups["g"], assigned=True)
    (affinity,) = [operation.value for operation in alone.operations_for(0) if operation.path == "/spec/affinity"]
    hard_coded = as_pod(manifest(a_pod().of("c").worker("g").tpu(4).topology("2x2x4").spec(affinity=affinity).build()))
    for seat in (Seat(0, 0, "g-aaaaa"), Seat(1, 0, "g-bbbbb"), third):
        plan = planner.plan(hard_coded, seat, cluster, cluster.groups["g"], assigned=True)
        assert plan.answer_for(0) == Planner().plan(hard_coded, seat, cluster, cluster.groups["g"], assigned=True).answer_for(0)


def test_slices_that_may_be_too_many_rule_it_out() -> None:
    pod = a_pod().of("c").worker("g").tpu(4).topology("2x2x4").env(names.MEGASCALE_NUM_SLICES, "2")
    assert read_template(read(pod, GANG)) is None


def test_names_that_only_a_short_index_fits_rule_it_out() -> None:
    group = "g" * 57
    cluster = a_cluster("c").group(group, hosts=4)
    assert read_template(read(a_pod().of("c").worker(group), cluster, group=group, name=f"{group}-abcde")) is None


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(cases(), st.lists(st.sampled_from(INDICES), min_size=3, max_size=5), st.booleans())
def test_whatever_the_template_a_replica_gets_what_it_would_alone(case: Case, indices: list[int], assigned: bool) -> None:  # noqa: FBT001 - hypothesis gives it
    labels = case.pod["metadata"]["labels"]
    assume(labels[names.LABEL_NODE_TYPE] == names.NODE_TYPE_WORKER)
    hosts = case.cluster["spec"]["workerGroupSpecs"][0]["numOfHosts"]
    known = facts_of(as_cluster(manifest(case.cluster)))
    group = known.groups[labels[names.LABEL_GROUP]]
    pod = as_pod(manifest(case.pod))
    planner = Planner()
    for number, index in enumerate(indices):
        name = f"{group.group_name}-{'bcdfg'[:4]}{number}" if hosts > 1 else ""
        seat = Seat(index, hosts - 1, name)
        try:
            wanted = Planner().plan(pod, seat, known, group, assigned=assigned).answer_for(seat.host)
        except Denied:
            with pytest.raises(Denied):
                planner.plan(pod, seat, known, group, assigned=assigned)
        else:
            plan = planner.plan(pod, seat, known, group, assigned=assigned)
            event("filled in" if number and plan.shared is None else "worked out")
            assert plan.answer_for(seat.host) == wanted
