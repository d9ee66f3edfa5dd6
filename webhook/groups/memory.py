"""Claims in the memory of this process alone: where no other process gives seats or indices."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from webhook.groups.clusters import ClusterFacts
from webhook.groups.membership import Membership
from webhook.groups.reads import ReadGroup
from webhook.groups.seat import GroupKey, Seat
from webhook.groups.seating import Wanted, choose, next_seat
from webhook.groups.shards import Full, Holder, ShardKey, Shards, WantedIndex

T = TypeVar("T")


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns that waits for nothing, as claims in memory do: no event loop
    is needed.
    """
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    msg = "this waits for something: run it on an event loop"
    raise RuntimeError(msg)


class SeatMemory:
    """Seats beside a watch: a claimed seat is assumed until the watch shows its pod; deletions are
    the watch's to tell.
    """

    def __init__(self, members: Membership) -> None:
        self._members = members

    async def claim(self, wanted: Wanted, accept: Callable[[Seat], T], now: float) -> T | ReadGroup:
        """Take a seat, and return what `accept` makes of it. Raises Denied, also when `accept`
        does: then no seat is taken.
        """
        seat = self._choose(wanted, now)
        if isinstance(seat, ReadGroup):
            return seat
        accepted = accept(seat)
        self._members.assume(wanted.key, seat, now)
        return accepted

    def preview(self, wanted: Wanted, accept: Callable[[Seat], T], now: float) -> T | ReadGroup:
        """Return what `claim` would, and take no seat. Raises Denied."""
        seat = self._choose(wanted, now)
        return seat if isinstance(seat, ReadGroup) else accept(seat)

    def carried(self, key: GroupKey, seat: Seat, request_uid: str, now: float) -> None:
        """Assume the seat that a pod came with."""
        del request_uid  # the watch confirms by seat
        self._members.expire(now)
        self._members.assume(key, seat, now)

    def deleted(self, key: GroupKey, seat: Seat) -> None:
        """Do nothing: the API server may still refuse the deletion."""

    def _choose(self, wanted: Wanted, now: float) -> Seat | ReadGroup:
        self._members.expire(now)
        return choose(self._members, wanted)


class SeatRegister:
    """Seats without a watch: a pod that was admitted, or read from a file, counts as created until
    it is deleted.
    """

    def __init__(self, members: Membership) -> None:
        self._members = members
        self._pods: dict[tuple[GroupKey, Seat], str] = {}

    async def claim(self, wanted: Wanted, accept: Callable[[Seat], T], now: float) -> T:
        """Take a seat, and return what `accept` makes of it. Raises Denied when `accept` does: then
        no seat is taken.
        """
        seat = self._choose(wanted)
        accepted = accept(seat)
        self.carried(wanted.key, seat, wanted.request_uid, now)
        return accepted

    def preview(self, wanted: Wanted, accept: Callable[[Seat], T], now: float) -> T:
        """Return what `claim` would, and take no seat. Raises Denied when `accept` does."""
        del now  # nothing expires
        return accept(self._choose(wanted))

    def carried(self, key: GroupKey, seat: Seat, request_uid: str, now: float) -> None:
        """Record the pod in a seat; of one seat only the first, as a reinvocation repeats it."""
        del now  # a pod that counts as created does not expire
        if self._pods.setdefault((key, seat), request_uid) is request_uid:
            self._members.put(request_uid, key, seat)

    def deleted(self, key: GroupKey, seat: Seat) -> None:
        """Forget the pod in a seat."""
        pod = self._pods.pop((key, seat), None)
        if pod is not None:
            self._members.remove(pod)

    def _choose(self, wanted: Wanted) -> Seat:
        """Return the next seat, or the one that was claimed by this request before."""
        held = self._members.held(wanted.request_uid, wanted.key)
        return held or next_seat(self._members, wanted.key, wanted.hosts, wanted.request_uid)


class IndexMemory:
    """Indices of shard groups: a claimed index is assumed until its RayCluster is known."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    async def claim(self, wanted: WantedIndex, now: float) -> int | Holder | Full:
        """Take an index, or return why there is none."""
        index = self._shards.choose(wanted, now)
        if isinstance(index, int):
            self._shards.assume(wanted, index, now)
        return index

    def preview(self, wanted: WantedIndex, now: float) -> int | Holder | Full:
        """Return what `claim` would, and take no index."""
        return self._shards.choose(wanted, now)

    def others(self, key: ShardKey, name: str) -> list[ClusterFacts]:
        """Return the RayClusters of a group that are known, but the one of that name."""
        return self._shards.others(key, name)
