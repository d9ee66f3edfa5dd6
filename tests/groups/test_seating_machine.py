"""The invariants of seating under any interleaving, as a state machine over a cluster and its
webhook.
"""

from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from webhook.groups.claims import ASSUMED_SECONDS
from webhook.groups.membership import Membership
from webhook.groups.memory import SeatMemory, at_once
from webhook.groups.seat import MAX_REPLICAS, GroupKey, Seat
from webhook.groups.seating import Wanted, next_seat

EXAMPLES = 300
STEPS = 60
ENOUGH = 10_000
"""The steps that the runs must come to, so that the machine did not run dry."""


@dataclass(eq=False)
class Admitted:
    """A pod that the webhook let pass: it may yet be refused by others, be stored, be
    seen, and go.
    """

    uid: str
    key: GroupKey
    seat: Seat
    since: float
    stored: bool = False
    seen: bool = False
    terminating: bool = False
    told: bool = False
    """The watch has delivered that it terminates, or is gone."""
    forgotten: bool = False
    """A restart has lost that its seat was handed out."""


@dataclass
class World:
    """The truth: what the API server stores, in the order in which the watch will tell it."""

    pods: dict[str, Admitted] = field(default_factory=dict)
    events: list[tuple[str, Admitted]] = field(default_factory=list)


class Seating(RuleBasedStateMachine):
    """Creations, confirmations, deletions, failures, dry runs, reinvocations, restarts and watch
    delay, in any order.
    """

    steps = 0
    passed = Bundle("passed")
    stored = Bundle("stored")

    @initialize(hosts=st.lists(st.integers(1, 5), min_size=1, max_size=3))
    def begin(self, hosts: list[int]) -> None:
        """Start with a few groups of several sizes."""
        self.now = 0.0
        self.requests = 0
        self.world = World()
        self.groups = {GroupKey("ns", "uid", f"group-{i}"): count for i, count in enumerate(hosts)}
        self.pending: list[Admitted] = []
        self.admitted: list[Admitted] = []
        self._start()

    def _start(self) -> None:
        self.members = Membership()
        self.claims = SeatMemory(self.members)

    def _wanted(self, key: GroupKey) -> tuple[str, Wanted]:
        """Return the uid of a review, and the seat that it wants, in a group that is never full."""
        self.requests += 1
        uid = f"request-{self.requests}"
        return uid, Wanted("ray", key, self.groups[key], MAX_REPLICAS, uid)

    def _accept(self, key: GroupKey, seat: Seat) -> Seat:
        """Take a seat before it is recorded."""
        self._check_order(key, seat)
        return seat

    def _preview(self, key: GroupKey) -> Seat:
        seat = self.claims.preview(self._wanted(key)[1], partial(self._accept, key), self.now)
        assert isinstance(seat, Seat)
        return seat

    @rule(target=passed, number=st.integers(0, 2))
    def create(self, number: int) -> Admitted:
        """KubeRay creates a pod, and the webhook seats it."""
        key = list(self.groups)[number % len(self.groups)]
        uid, wanted = self._wanted(key)
        seat = at_once(self.claims.claim(wanted, partial(self._accept, key), self.now))
        assert isinstance(seat, Seat)
        pod = Admitted(uid, key, seat, self.now)
        self.pending.append(pod)
        self.admitted.append(pod)
        return pod

    @rule(number=st.integers(0, 2))
    def dry_run(self, number: int) -> None:
        """A dry run takes nothing: asked again, the same seat comes."""
        key = list(self.groups)[number % len(self.groups)]
        first, second = self._preview(key), self._preview(key)
        assert (first.replica, first.host) == (second.replica, second.host)

    @rule(pod=passed)
    def reinvoke(self, pod: Admitted) -> None:
        """The same pod comes again, with the seat that it was given: it stays one holder."""
        if pod in self.pending and self.now < pod.since + ASSUMED_SECONDS:
            self.members.expire(self.now)
            before = self.members.assumed
            self.claims.carried(pod.key, pod.seat, "again", self.now)
            assert self.members.assumed == before

    @rule(target=stored, pod=consumes(passed))
    def store(self, pod: Admitted) -> Admitted:
        """The API server stores the pod, unless its admission took longer than the API server
        allows.
        """
        if pod in self.pending:
            self.pending.remove(pod)
            if self.now < pod.since + ASSUMED_SECONDS:
                pod.stored = True
                self.world.pods[pod.uid] = pod
                self.world.events.append(("put", pod))
        return pod

    @rule(pod=consumes(passed))
    def refuse(self, pod: Admitted) -> None:
        """A later webhook or the quota refuses the pod; nobody tells us."""
        if pod in self.pending:
            self.pending.remove(pod)

    @rule(pod=stored)
    def terminate(self, pod: Admitted) -> None:
        """The pod is deleted gracefully."""
        if pod.stored and not pod.terminating:
            pod.terminating = True
            self.world.events.append(("gone", pod))

    @rule(pod=consumes(stored))
    def delete(self, pod: Admitted) -> None:
        """The pod vanishes."""
        if pod.stored:
            pod.terminating = True
            self.world.pods.pop(pod.uid, None)
            self.world.events.append(("gone", pod))

    @rule(count=st.integers(1, 10))
    def watch(self, count: int) -> None:
        """The watch delivers some of what happened."""
        due, self.world.events = self.world.events[:count], self.world.events[count:]
        for event, pod in due:
            self._tell(event, pod)

    def _tell(self, event: str, pod: Admitted) -> None:
        if event == "put":
            pod.seen = True
            self.members.put(pod.uid, pod.key, pod.seat)
        else:
            pod.told = True
            self.members.remove(pod.uid)

    @rule(seconds=st.sampled_from([0.1, 5.0, 40.0, 61.0]))
    def wait(self, seconds: float) -> None:
        """Time passes; the watch is never behind for as long as a seat is assumed."""
        if seconds >= 40:
            self.watch(len(self.world.events))
        self.now += seconds

    @precondition(lambda self: not self.pending)
    @rule()
    def restart(self) -> None:
        """The process dies while no admission is under way, and reads the surviving pods when it
        comes back.
        """
        self.world.events.clear()
        self._start()
        for pod in self.admitted:
            pod.seen = pod.told = False
            pod.forgotten = True
        for pod in self.world.pods.values():
            if not pod.terminating:
                self._tell("put", pod)

    def _check_order(self, key: GroupKey, seat: Seat) -> None:
        """A replica is filled before another is opened, and the lowest free index is opened."""
        held = self._held(key)
        replicas = {taken.replica for taken in held}
        hosts = self.groups[key]
        lacking = [
            i for i in replicas if len({taken.host for taken in held if taken.replica == i}) < hosts
        ]
        if seat.replica in replicas:
            assert seat.replica == min(lacking)
            assert seat.name in {taken.name for taken in held if taken.replica == seat.replica}
            taken_hosts = {taken.host for taken in held if taken.replica == seat.replica}
            assert seat.host == min(set(range(hosts)) - taken_hosts)
        else:
            assert not lacking
            assert seat.replica == min(set(range(len(replicas) + 1)) - replicas)
            assert seat.host == 0
            assert seat.name not in {taken.name for taken in held} or hosts == 1

    def _held(self, key: GroupKey) -> set[Seat]:
        """Return the seats that the webhook must take for held: seen and not told gone, or assumed
        and in time.
        """
        return {pod.seat for pod in self.admitted if pod.key == key and self._holds(pod)}

    def _holds(self, pod: Admitted) -> bool:
        if pod.seen:
            return not pod.told
        return not pod.forgotten and self.now < pod.since + ASSUMED_SECONDS

    @invariant()
    def no_seat_is_held_twice(self) -> None:
        """No two live pods hold one seat, whatever the watch has delivered."""
        Seating.steps += 1
        live = [
            (pod.key, pod.seat.replica, pod.seat.host)
            for pod in self.world.pods.values()
            if not pod.terminating
        ]
        assert len(live) == len(set(live))

    @invariant()
    def members_are_what_the_watch_told(self) -> None:
        """Nothing is lost and nothing is kept: as many members as pods seen and not told gone."""
        assert len(self.members) == sum(pod.seen and not pod.told for pod in self.admitted)


@pytest.mark.hypothesis
def test_the_invariants_hold_under_any_interleaving() -> None:
    Seating.steps = 0
    run_state_machine_as_test(
        Seating,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
    assert Seating.steps >= ENOUGH, f"only {Seating.steps} steps were made"


def test_the_middle_of_three_replicas_of_four_hosts_comes_back_as_index_1() -> None:
    members, key = Membership(), GroupKey("ns", "uid", "tpu")
    for number in range(12):
        members.put(f"pod-{number}", key, next_seat(members, key, 4, f"request-{number}"))
    for number in range(4, 8):
        members.remove(f"pod-{number}")
    fresh = []
    for number in range(12, 16):
        seat = next_seat(members, key, 4, f"request-{number}")
        members.assume(key, seat, 0.0)
        fresh.append(seat)
    assert [(seat.replica, seat.host) for seat in fresh] == [(1, 0), (1, 1), (1, 2), (1, 3)]
    assert len({seat.name for seat in fresh}) == 1
    assert (
        next_seat(members, key, 4, "beyond").replica,
        next_seat(members, key, 4, "beyond").host,
    ) == (3, 0)
