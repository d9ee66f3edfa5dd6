"""Plans: what is kept for a replica gives each host what it would get alone, and no pod gets the plan of another."""

import base64
import json

import pytest
from hypothesis import HealthCheck, assume, event, given, settings

from tests.builders import Object, PodBuilder, a_cluster, a_pod, facts, manifest
from tests.mutation.strategies import Case, cases
from webhook.admission.pods import Placement, PodHandler
from webhook.groups.clusters import ClusterFacts
from webhook.groups.seat import Seat
from webhook.kube import names
from webhook.kube.objects import WorkerGroup
from webhook.kube.review import Answer, Denied
from webhook.manifest.files import as_pod
from webhook.manifest.standalone import load_state
from webhook.mutation.edit import SetEnv, Warn
from webhook.mutation.fold import encode
from webhook.mutation.patch_cache import Plan, Planner, make_plan
from webhook.mutation.policy import Policy
from webhook.mutation.worker import HEAD_GROUP, HEAD_SEAT, read_replica

TPU_GROUP = a_cluster("c").group("g", hosts=4, replicas=4)


def tpu_pod() -> PodBuilder:
    """Return a pod whose hosts differ in numbers alone."""
    return a_pod().of("c").worker("g").tpu(4).topology("2x2x4")


def plan_of(planner: Planner, pod: PodBuilder, seat: Seat, cluster: ClusterFacts) -> Plan:
    """Return the plan for a pod whose seat is assigned."""
    return planner.plan(as_pod(manifest(pod.build())), seat, cluster, cluster.groups["g"], assigned=True)


def alone(pod: PodBuilder, seat: Seat, cluster: ClusterFacts) -> Answer:
    """Return what a pod gets from a planner that has seen no other."""
    return plan_of(Planner(), pod, seat, cluster).answer_for(seat.host)


def patch(answer: Answer) -> list[Object]:
    """Return the operations of an answer."""
    return json.loads(base64.b64decode(answer.patch)) if answer.patch is not None else []


def check(plan: Plan, host: int) -> None:
    """Check that the answer for a host is made of its edits, and of nothing else."""
    answer = plan.answer_for(host)
    assert patch(answer) == json.loads(encode(plan.operations_for(host)))
    assert answer.patch is None or patch(answer)
    assert list(answer.warnings) == [edit.text for edit in plan.edits_for(host) if isinstance(edit, Warn)]


@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(cases())
def test_the_answer_for_each_host_is_its_edits_whatever_the_template(case: Case) -> None:
    known = load_state([manifest(case.cluster)])
    handler = PodHandler(known.clusters, known.seats)
    try:
        placed = handler.preview(as_pod(manifest(case.pod)), "", "request-0", 0.0)
    except Denied:
        assume(False)  # noqa: FBT003 - hypothesis asks for it
    assert isinstance(placed, Placement)
    event("numbers alone" if placed.plan.numbered else "worked out for each host")
    for host in range(placed.plan.replica.hosts):
        check(placed.plan, host)


def test_hosts_that_differ_in_numbers_alone_share_one_encoded_patch() -> None:
    plan = plan_of(Planner(), tpu_pod(), Seat(2, 0, "g-abcde"), facts(TPU_GROUP))
    assert plan.numbered is not None
    for host in range(4):
        check(plan, host)
    values = [operation["value"] for operation in patch(plan.answer_for(3))[:3]]
    assert values == ["g-2-3", "3", [{"name": names.TPU_WORKER_ID, "value": "3"}]]


def test_two_processes_of_a_host_have_numbers_of_their_own() -> None:
    pod = a_pod().of("c").worker("g").topology("2x2x4", "tpu7x").tpu(2).container("second").tpu(2)
    plan = plan_of(Planner(), pod, Seat(0, 0, "g-abcde"), facts(TPU_GROUP))
    assert plan.numbered is not None
    check(plan, 3)
    ids = [edit.value for edit in plan.edits_for(3) if isinstance(edit, SetEnv) and edit.name == names.TPU_WORKER_ID]
    assert ids == ["6", "7"]


@pytest.mark.parametrize("value", ["0", "2", ""])
def test_a_place_that_the_user_wrote_is_looked_at_for_each_host(value: str) -> None:
    plan = plan_of(Planner(), tpu_pod().env(names.TPU_WORKER_ID, value), Seat(0, 0, "g-abcde"), facts(TPU_GROUP))
    assert plan.numbered is None
    for host in range(4):
        check(plan, host)


def test_a_place_from_a_field_is_left_alone_on_every_host() -> None:
    pod = tpu_pod().env_from(names.TPU_WORKER_ID, "metadata.labels['x']")
    plan = plan_of(Planner(), pod, Seat(0, 0, "g-abcde"), facts(TPU_GROUP))
    assert plan.numbered is not None
    assert not [edit for edit in plan.edits_for(1) if isinstance(edit, SetEnv) and edit.name == names.TPU_WORKER_ID]
    check(plan, 1)


def test_a_replica_read_from_a_sibling_receives_what_it_would_alone() -> None:
    planner, cluster = Planner(), facts(TPU_GROUP)
    seats = [Seat(index, host, f"g-abcd{index}") for index in range(3) for host in range(4)]
    for seat in seats:
        assert plan_of(planner, tpu_pod(), seat, cluster).answer_for(seat.host) == alone(tpu_pod(), seat, cluster)


CHANGES = {
    "a variable": tpu_pod().env("X", "1"),
    "devices": tpu_pod().tpu(2).topology("2x2x2"),
    "a host name": tpu_pod().spec(hostname="mine"),
    "a legacy label": tpu_pod().label(names.LABEL_LEGACY_REPLICA_INDEX, "g-7"),
    "an init container": tpu_pod().init("before"),
    "a scheduler": tpu_pod().spec(schedulerName="volcano"),
    "a scheduling group": tpu_pod().spec(schedulingGroup={"podGroupName": "x"}),
    "a resize policy": tpu_pod().spec(containers=[{"name": "ray-worker", "resizePolicy": [], "resources": {}}]),
}


@pytest.mark.parametrize("other", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("index", [0, 1], ids=["same replica", "another replica"])
def test_a_pod_that_is_not_like_the_ones_before_gets_a_plan_of_its_own(other: PodBuilder, index: int) -> None:
    gang = a_cluster("c").group("g", hosts=4, replicas=4)
    for annotation, value in {names.ANNOTATION_SCHEDULING_GROUP: "replica", names.ANNOTATION_IPPR: '{"groups": {"g": {}}}'}.items():
        gang.annotated(annotation, value)
    planner, cluster = Planner(), facts(gang)
    plan_of(planner, tpu_pod(), Seat(0, 0, "g-abcde"), cluster)
    seat = Seat(index, 1, "g-abcde" if index == 0 else "g-fghjk")
    try:
        wanted = alone(other, seat, cluster)
    except Denied:
        with pytest.raises(Denied):
            plan_of(planner, other, seat, cluster)
    else:
        assert plan_of(planner, other, seat, cluster).answer_for(1) == wanted
    assert plan_of(planner, tpu_pod(), seat, cluster).answer_for(1) == alone(tpu_pod(), seat, cluster)


def test_a_worker_group_named_like_the_head_is_not_taken_for_it() -> None:
    cluster = facts(
        a_cluster("c").group(names.HEAD_GROUP, hosts=2).annotated(names.ANNOTATION_IPPR, '{"groups": {"headgroup": {}}}')
    )
    planner, pod = Planner(), as_pod(manifest(a_pod().of("c").worker(names.HEAD_GROUP).build()))
    group: WorkerGroup = cluster.groups[names.HEAD_GROUP]
    head = planner.plan(pod, HEAD_SEAT, cluster, HEAD_GROUP, assigned=False)
    worker = planner.plan(pod, Seat(0, 1, "headgroup-abcde"), cluster, group, assigned=True)
    assert (head.replica.hosts, worker.replica.hosts) == (1, 2)
    check(head, 0)
    check(worker, 1)


def test_new_facts_of_the_raycluster_and_a_new_policy_make_plans_stale() -> None:
    planner, seat = Planner(), Seat(0, 1, "g-abcde")
    plan_of(planner, tpu_pod(), seat, facts(TPU_GROUP))
    asking = facts(a_cluster("c").group("g", hosts=4, replicas=4).annotated(names.ANNOTATION_SCHEDULING_GROUP, "replica"))
    assert plan_of(planner, tpu_pod(), seat, asking).answer_for(1) == alone(tpu_pod(), seat, asking)
    planner.policy = Policy(pod_groups=False)
    pod = as_pod(manifest(tpu_pod().build()))
    replica = read_replica(pod, seat, asking, asking.groups["g"], assigned=True, policy=planner.policy)
    assert plan_of(planner, tpu_pod(), seat, asking).answer_for(1) == make_plan(replica).answer_for(1)
    assert plan_of(planner, tpu_pod(), Seat(1, 1, "g-fghjk"), asking).warnings != ()
