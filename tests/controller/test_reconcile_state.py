"""The state of a RayCluster's scheduling groups: when a reconciliation is needed."""

import msgspec

from tests.controller.publishing import a_cluster
from webhook.api.objects import RayCluster
from webhook.controller.podgroups.reconcile_state import ReconcileState, new_state
from webhook.groups.annotations import WORKER_GROUP
from webhook.groups.group_config import RayClusterConfig, facts_of
from webhook.kubeclient.timeouts import Clock, PublishingTiming

EMPTY = (frozenset[str](),)
TAKEN = (frozenset({"tpu-bcdfg"}),)
PACE = PublishingTiming(first_delay=1.0, first_look=4.0, longest_delay=16.0)


def facts(granularity: str = WORKER_GROUP) -> RayClusterConfig:
    """Return the facts of a RayCluster that asks for a gang, or for none."""
    return facts_of(msgspec.convert(a_cluster(granularity), RayCluster))


def state() -> ReconcileState:
    """Return a state whose delays are not left to chance."""
    return new_state(PACE, Clock(random=lambda: 1.0))


def reached(what: RayClusterConfig, *, waits: bool = False) -> ReconcileState:
    """Return the state of a RayCluster that has, at 100 s, what can be had."""
    made = state()
    made.record((what, EMPTY), 100.0, waits=waits)
    return made


def test_something_is_due_at_first_and_when_facts_or_seats_change() -> None:
    known = facts()
    assert state().due(known, EMPTY, 100.0)
    assert not reached(known).due(known, EMPTY, 1e6)
    assert reached(known).due(known, TAKEN, 100.0)
    assert reached(known).due(facts(), EMPTY, 100.0)


def test_nothing_is_due_while_it_is_being_done() -> None:
    made = state()
    made.running = True
    assert not made.due(facts(), EMPTY, 100.0)


def test_after_a_failure_nothing_is_tried_for_a_time_that_grows() -> None:
    known, made = facts(), reached(facts())
    made.failed(100.0, 0.0)
    assert not made.due(known, TAKEN, 100.9)
    assert made.due(known, EMPTY, 101.0)
    made.failed(101.0, 0.0)
    assert not made.due(known, EMPTY, 102.9)
    made.failed(103.0, at_least=9.0)
    assert not made.due(known, EMPTY, 111.9)
    assert made.due(known, EMPTY, 112.0)


def test_a_refusal_holds_back_only_what_was_refused() -> None:
    known, made = facts(), reached(facts())
    for now in (100.0, 101.0, 103.0):
        made.failed(now, 0.0, known)
    assert not made.due(known, TAKEN, 106.9)
    mended = facts()
    assert made.due(mended, EMPTY, 103.0)
    made.failed(103.0, 0.0, mended)
    assert not made.due(mended, EMPTY, 103.9)
    assert made.due(mended, EMPTY, 104.0)


def test_while_the_api_server_is_in_trouble_a_change_is_no_reason_to_ask() -> None:
    made = state()
    made.failed(100.0, 0.0, facts())
    made.failed(101.0, 0.0)
    assert not made.due(facts(), TAKEN, 102.9)


def test_what_only_time_can_change_is_looked_at_again_and_then_more_rarely() -> None:
    known = facts()
    made = reached(known, waits=True)
    assert not made.due(known, EMPTY, 103.9)
    assert made.due(known, EMPTY, 104.0)
    made.record((known, EMPTY), 104.0, waits=True)
    assert not made.due(known, EMPTY, 111.9)
    assert made.due(known, EMPTY, 112.0)
    made.record((known, TAKEN), 112.0, waits=True)
    assert made.due(known, TAKEN, 116.0)


def test_it_is_over_when_nothing_is_wanted_and_nothing_is_left() -> None:
    out = facts("")
    assert reached(out).over(out)
    assert not reached(out, waits=True).over(out)
    assert not reached(facts()).over(out)
    assert not state().over(out)
