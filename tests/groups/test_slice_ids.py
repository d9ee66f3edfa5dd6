"""The ids of the slices of one job are the indices of their replicas: when they are 0 to n-1, and
how to restore this.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from webhook.groups.identity import GroupKey, HostIdentity
from webhook.groups.identity_index import Membership
from webhook.reservation.allocation import Request
from webhook.reservation.identities import StandaloneIdentities
from webhook.reservation.stores import at_once

KEY = GroupKey("team", "uid", "slices")


class SliceIds(RuleBasedStateMachine):
    """KubeRay fills a group of slices, scales it, and replaces what fails, while the webhook gives
    the seats.
    """

    holes = 0
    """How often ids were not 0 to n-1 in a group that had all its replicas."""

    @initialize(hosts=st.integers(1, 3), desired=st.integers(1, 5))
    def begin(self, hosts: int, desired: int) -> None:
        self.hosts, self.desired = hosts, desired
        self.seats = StandaloneIdentities(Membership())
        self.replicas: dict[int, list[HostIdentity]] = {}
        self.requests = 0
        self.fill()

    @rule()
    def fill(self) -> None:
        """KubeRay creates the pods of the replicas that are missing."""
        while len(self.replicas) < self.desired:
            seats = [self._seat() for _ in range(self.hosts)]
            assert len({seat.replica for seat in seats}) == 1
            self.replicas[seats[0].replica] = seats

    def _seat(self) -> HostIdentity:
        self.requests += 1
        wanted = Request("ray", KEY, self.hosts, self.desired, f"request-{self.requests}")
        seat = at_once(self.seats.reserve(wanted, lambda seat, _: seat))
        assert isinstance(seat, HostIdentity)
        return seat

    @rule(desired=st.integers(1, 5))
    def scale(self, desired: int) -> None:
        """The user wants another number of slices; more are created later."""
        self.desired = desired

    @precondition(lambda self: len(self.replicas) > self.desired)
    @rule(data=st.data())
    def scale_down(self, data: st.DataObject) -> None:
        """KubeRay deletes replicas, any of them, until there are as many as are wanted."""
        while len(self.replicas) > self.desired:
            self._delete(data.draw(st.sampled_from(sorted(self.replicas))))

    @precondition(lambda self: self.replicas)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        self._delete(data.draw(st.sampled_from(sorted(self.replicas))))

    @rule()
    def follow_the_advice(self) -> None:
        """The user deletes the replicas whose ids are too high, and KubeRay creates what is
        missing.
        """
        for index in [index for index in self.replicas if index >= self.desired]:
            self._delete(index)
        self.fill()
        assert len(self.replicas) >= self.desired
        assert sorted(self.replicas) == list(range(self.desired))

    def _delete(self, index: int) -> None:
        for seat in self.replicas.pop(index):
            self.seats.deleted(KEY, seat)

    @invariant()
    def ids_are_below_the_number_exactly_when_none_is_above_it(self) -> None:
        """A full group without an index at or above the desired count has the ids 0 to n-1; with
        one it has a hole.
        """
        if len(self.replicas) != self.desired:
            return
        high = [index for index in self.replicas if index >= self.desired]
        assert (sorted(self.replicas) == list(range(self.desired))) == (not high)
        type(self).holes += bool(high)


def test_ids_are_0_to_n_minus_1_once_those_that_are_too_high_are_gone() -> None:
    SliceIds.holes = 0
    run_state_machine_as_test(SliceIds, settings=settings(max_examples=100, stateful_step_count=30))
    assert SliceIds.holes  # scaling down did leave holes
