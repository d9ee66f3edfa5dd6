"""Repair of a replica that has lost a host, over successive reconciliations."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from webhook.controller.repair.plan import (
    CHANGING,
    DELETE,
    DELETING,
    DUPLICATE,
    EMPTY,
    INCOMPLETE,
    LOST,
    RESTARTED,
    SCALING,
    SPENT,
    SUSPENDED,
    UNMARK,
    Action,
    Memory,
    Plan,
    Record,
    RepairGroup,
    RepairHost,
    RepairLimits,
    plan,
)
from webhook.groups.identity import HostIdentity

N = 4
"""Hosts of a replica."""
DATE = 1_800_000_000.0
"""Seconds since the epoch at time 0 of the clock."""


def a_replica(name: str, index: int = 0) -> list[RepairHost]:
    """Return the pods of a replica that runs."""
    identities = [HostIdentity(index, n, name) for n in range(N)]
    return [
        RepairHost(f"{name}-{n}", f"uid-{name}-{n}", "1", identity, ours=True, runs=True)
        for n, identity in enumerate(identities)
    ]


def recorded(*replicas: Sequence[RepairHost], **fields: Any) -> Record:  # noqa: ANN401 - those of Record
    """Return the record of replicas that were complete with these pods."""
    whole = {pods[0].identity.name: {host.id: host.restarts for host in pods} for pods in replicas}
    return Record(whole=whole, **fields)


def a_group(pods: Sequence[RepairHost], **fields: Any) -> RepairGroup:  # noqa: ANN401 - those of Group
    """Return a group that asks for repair."""
    known = {"version": "1", "hosts": N, "desired": 1, "repair": True, "head": True}
    return RepairGroup(**{**known, **fields}, pods=(*pods,))


def look(
    group: RepairGroup, record: Record, memory: Memory, limits: RepairLimits, now: float
) -> Plan:
    """Return the plan of one look, with a date that moves as the clock does."""
    return plan(group, record, memory, limits, now, DATE + now)


def rechecks(group: RepairGroup, record: Record = EMPTY, times: Sequence[float] = (0.0,)) -> Plan:
    """Return the last plan of several looks at the same."""
    memory = Memory()
    found = [look(group, record, memory, RepairLimits(), now) for now in times]
    return found[-1]


LIMITS = RepairLimits()
LATER = 100.0
SOON = (0.0, LATER)


def kinds(actions: list[Action]) -> list[str]:
    return [f"{action.kind} {action.host.name}" for action in actions]


def reasons(actions: list[Action]) -> set[str]:
    return {action.reason for action in actions if action.kind != UNMARK}


def marks(name: str, *hosts: int) -> list[str]:
    return [f"mark {name}-{host}" for host in hosts]


def test_a_replica_that_was_never_whole_has_lost_nothing() -> None:
    for pods in (a_replica("a")[:2], [replace(a_replica("a")[0], ended=True)]):
        found = rechecks(a_group(pods), times=SOON)
        assert (found.actions, found.waiting) == ([], {})


def test_a_replica_that_lost_a_host_goes_when_that_has_lasted() -> None:
    pods = a_replica("a")
    broken, record = a_group(pods[1:]), recorded(pods)
    memory = Memory()
    assert look(broken, record, memory, LIMITS, 0.0).waiting == {"a": CHANGING}
    assert look(broken, record, memory, LIMITS, 29.0).actions == []
    found = look(broken, record, memory, LIMITS, 31.0)
    assert found.record == replace(record, deleting={"a": LOST})
    assert kinds(found.actions) == marks("a", 1, 2, 3)
    assert reasons(found.actions) == {LOST}


def test_another_pod_with_the_identity_does_not_make_it_whole() -> None:
    pods = a_replica("a")
    newcomer = replace(pods[0], name="new", uid="new")
    found = rechecks(a_group([newcomer, *pods[1:]]), recorded(pods), SOON)
    assert found.record.deleting == {"a": LOST}


def test_a_duplicate_of_a_host_that_lives_is_deleted_alone_and_at_once() -> None:
    pods = a_replica("a")
    for ours in (True, False):
        fifth = replace(pods[0], name="fifth", uid="fifth", ours=ours)
        for held in (
            a_group([fifth, *pods]),
            a_group([fifth, *pods], workers_to_delete=frozenset({"a-1"})),
        ):
            found = rechecks(held, recorded(pods), SOON)
            assert (found.record, found.waiting) == (recorded(pods), {})
            assert [(each.host, each.reason) for each in found.actions if each.kind == DELETE] == [
                (fifth, DUPLICATE)
            ]
            assert len(found.actions) == 1


def test_a_duplicate_neither_completes_nor_spares_a_replica_that_lost_another_host() -> None:
    pods = a_replica("a")
    fifth = replace(pods[0], name="fifth", uid="fifth")
    found = rechecks(a_group([fifth, *pods[:3]]), recorded(pods), SOON)
    assert kinds(found.actions) == ["delete fifth", *marks("a", 0, 1, 2)]


def test_of_two_pods_with_one_identity_none_is_deleted_where_none_is_recorded() -> None:
    pods = a_replica("a")
    fifth = replace(pods[0], name="fifth", uid="fifth")
    found = rechecks(a_group([fifth, *pods]), EMPTY, SOON)
    assert (found.record, found.actions, found.waiting) == (EMPTY, [], {})


def test_a_pod_beyond_the_hosts_of_a_replica_breaks_nothing() -> None:
    pods = a_replica("a")
    further = replace(pods[0], name="further", uid="further", identity=HostIdentity(0, N, "a"))
    found = rechecks(a_group([*pods, further]), recorded(pods), SOON)
    assert (found.record, found.actions, found.waiting) == (recorded(pods), [], {})


def test_a_host_that_failed_or_is_being_deleted_is_lost() -> None:
    pods = a_replica("a")
    for lost in (replace(pods[2], ended=True), replace(pods[2], deleting=True)):
        found = rechecks(a_group([*pods[:2], lost, *pods[3:]]), recorded(pods), SOON)
        assert "mark a-0" in kinds(found.actions)


def test_a_replica_that_goes_as_a_whole_is_left_to_its_deletion() -> None:
    pods = a_replica("a")
    going = [replace(host, deleting=True) for host in pods]
    found = rechecks(a_group(going), recorded(pods), SOON)
    assert (found.actions, found.waiting) == ([], {})


def test_a_replica_that_goes_is_marked_to_the_last_pod_and_then_deleted() -> None:
    pods = a_replica("a")
    record = recorded(pods, deleting={"a": LOST})
    marked = [replace(host, marked=True) for host in pods]
    found = rechecks(a_group([*marked[:2], *pods[2:]]), record)
    assert kinds(found.actions) == marks("a", 2, 3)
    found = rechecks(a_group(marked), record)
    assert kinds(found.actions) == [f"delete a-{host}" for host in range(N)]
    assert (reasons(found.actions), found.record) == ({LOST}, record)


def test_one_replica_of_a_group_goes_at_a_time() -> None:
    one, two = a_replica("a"), a_replica("b", 1)
    record = recorded(one, two)
    found = rechecks(a_group([*one[1:], *two[1:]], desired=2), record, SOON)
    assert (found.record.deleting, found.waiting) == ({"a": LOST}, {"b": DELETING})
    assert kinds(found.actions) == marks("a", 1, 2, 3)
    leaving = [replace(host, marked=True, deleting=True) for host in one[1:]]
    for at in (found.record, replace(record, replaced={"a": DATE})):
        held = rechecks(a_group([*leaving, *two[1:]], desired=2), at, SOON)
        assert (held.actions, held.waiting) == ([], {"b": DELETING})


def test_nothing_is_replaced_while_the_group_is_suspended_or_changes_or_scales() -> None:
    pods = a_replica("a")
    broken, record = a_group(pods[1:]), recorded(pods)
    for held, why in (
        (replace(broken, suspended=True), SUSPENDED),
        (replace(broken, workers_to_delete=frozenset({"a-1"})), SCALING),
        (a_group([*pods[1:], a_replica("b", 1)[0]], workers_to_delete=frozenset({"a-1"})), SCALING),
    ):
        found = rechecks(held, record, SOON)
        assert (found.actions, found.waiting) == ([], dict.fromkeys(found.waiting, why))
        assert "a" in found.waiting
    memory = Memory()
    look(broken, record, memory, LIMITS, 0.0)
    found = look(replace(broken, version="2"), record, memory, LIMITS, LATER)
    assert (found.actions, found.waiting) == ([], {"a": CHANGING})


def test_names_of_pods_that_have_left_hold_nothing() -> None:
    pods = a_replica("a")
    broken = a_group(pods[1:], workers_to_delete=frozenset({"a-0", "former"}))
    assert "mark a-1" in kinds(rechecks(broken, recorded(pods), SOON).actions)


def test_the_siblings_of_a_pod_that_leaves_go_while_there_are_more_hosts_than_wanted() -> None:
    whole, rest = a_replica("a"), a_replica("b", 1)
    leaving = frozenset({"b-0", "b-1"})
    group = a_group([*whole, *rest[1:]], desired=1, workers_to_delete=leaving)
    assert kinds(rechecks(group, recorded(whole, rest), SOON).actions) == marks("b", 1, 2, 3)


def test_the_budget_of_an_hour_is_spent_by_a_replica_whose_pods_are_all_deleted() -> None:
    pods = a_replica("a")
    going = recorded(pods, deleting={"a": LOST})
    rest = [replace(host, marked=True) for host in pods[1:]]
    half = [replace(rest[0], deleting=True), *rest[1:]]
    assert rechecks(a_group(half), going).record == going
    for over in ([replace(host, deleting=True) for host in rest], []):
        found = rechecks(a_group(over), going).record
        assert (found.deleting, found.replaced) == ({}, {"a": DATE})


def test_there_is_a_budget_an_hour_that_outlives_the_process() -> None:
    pods = a_replica("b")
    broken, limits = a_group(pods[1:]), RepairLimits(per_hour=1)
    record = recorded(pods, replaced={"a": DATE + 31.0})
    memory = Memory()
    for now in (40.0, 100.0, 31.0 + 3599.0):
        found = look(broken, record, memory, limits, now)
    assert found.waiting == {"b": SPENT}
    found = look(broken, record, memory, limits, 31.0 + 3600.0)
    assert found.record == recorded(pods, deleting={"b": LOST})


def test_a_clock_that_was_set_back_holds_repair_for_an_hour_at_most() -> None:
    pods = a_replica("b")
    for ahead, held in ((1800.0, True), (86400.0, False)):
        record, memory = recorded(pods, replaced={"a": DATE + ahead}), Memory()
        look(a_group(pods[1:]), record, memory, RepairLimits(per_hour=1), 0.0)
        found = look(a_group(pods[1:]), record, memory, RepairLimits(per_hour=1), 40.0)
        assert found.waiting == ({"b": SPENT} if held else {})


def test_a_replica_that_nobody_will_fill_is_torn_also_when_it_was_never_whole() -> None:
    one, two = a_replica("a")[:2], a_replica("b", 1)[2:]
    found = rechecks(a_group([*one, *two]), times=SOON)
    assert kinds(found.actions) == marks("a", 0, 1)
    assert (found.record, found.waiting) == (Record(deleting={"a": INCOMPLETE}), {"b": DELETING})
    for filled in (
        a_group([*one, *two], desired=2),
        a_group([*one, replace(two[0], ended=True), two[1]]),
        a_group([replace(host, ours=False) for host in (*one, *two)]),
        a_group([*one, *two], repair=False),
        a_group([*a_replica("c"), *(replace(host, ended=True) for host in one)]),
    ):
        found = rechecks(filled, times=SOON)
        assert (found.actions, found.waiting) == ([], {})


def test_a_replica_that_was_whole_goes_before_one_that_others_may_fill() -> None:
    one, two = a_replica("a")[:2], a_replica("b", 1)
    found = rechecks(a_group([*one, *two[2:]]), recorded(two), SOON)
    assert kinds(found.actions) == marks("b", 2, 3)


def test_identities_of_kuberay_are_left_to_it() -> None:
    pods = [replace(host, ours=False) for host in a_replica("a")]
    assert rechecks(a_group(pods[1:]), recorded(pods), SOON).actions == []


def test_a_group_that_does_not_ask_is_recorded_and_no_more() -> None:
    pods = a_replica("a")
    found = rechecks(a_group(pods[1:], repair=False), recorded(pods), SOON)
    assert (found.record, found.actions) == (recorded(pods), [])


def test_a_container_that_restarts_takes_its_replica_with_it_where_that_is_asked_for() -> None:
    for ours in (True, False):
        pods = [replace(host, ours=ours) for host in a_replica("a")]
        group = a_group([*pods[:3], replace(pods[3], restarts=1)], repair=False, restart=True)
        found = rechecks(group, recorded(pods), SOON)
        assert kinds(found.actions) == marks("a", 0, 1, 2, 3)
        assert reasons(found.actions) == {RESTARTED}
        assert rechecks(replace(group, restart=False), recorded(pods), SOON).actions == []


def test_hosts_that_all_restarted_are_not_broken_and_are_recorded_again_once_they_run() -> None:
    replicas = [a_replica(name, index) for index, name in enumerate("abc")]
    record = recorded(*replicas)
    again = [
        [replace(host, restarts=1 + host.identity.host % 2) for host in pods] for pods in replicas
    ]
    group = a_group([host for pods in again for host in pods], desired=3, restart=True)
    coming = replace(group, pods=(replace(group.pods[0], runs=False), *group.pods[1:]))
    found = rechecks(coming, record, SOON)
    assert (found.actions, found.waiting) == ([], {})
    assert found.record == recorded(replicas[0], *again[1:])
    found = rechecks(group, record, SOON)
    assert (found.record, found.actions, found.waiting) == (recorded(*again), [], {})

    host = replace(group.pods[0], restarts=2)
    found = rechecks(replace(group, pods=(host, *group.pods[1:])), found.record, SOON)
    assert found.record.deleting == {"a": RESTARTED}


def test_hosts_that_restart_one_after_the_other_within_the_delay_are_not_broken() -> None:
    pods, memory = a_replica("a"), Memory()
    for count, now in enumerate((0.0, 10.0, 20.0, 29.0), 1):
        changed = [replace(host, restarts=int(host.identity.host < count)) for host in pods]
        group = a_group(changed, restart=True)
        assert look(group, recorded(pods), memory, LIMITS, now).actions == []
    found = look(group, recorded(pods), memory, LIMITS, LATER)
    assert (found.actions, found.record) == ([], recorded(changed))


def test_restarts_before_the_replica_was_whole_do_not_count() -> None:
    pods = [replace(host, restarts=3) for host in a_replica("a")]
    assert rechecks(a_group(pods, restart=True), recorded(pods), SOON).actions == []
