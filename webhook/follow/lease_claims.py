"""Seats and shard indices that are claimed in Leases: the ports of admission, where several
processes answer.
"""

from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from webhook.follow.claims import Decision, LeaseClaims
from webhook.groups.membership import Membership
from webhook.groups.memory import IndexMemory, SeatMemory
from webhook.groups.reads import ReadGroup
from webhook.groups.seat import Seat
from webhook.groups.seating import Wanted, choose
from webhook.groups.shards import Full, Holder, ShardIndex, Shards, WantedIndex

T = TypeVar("T")


class LeaseSeats(SeatMemory):
    """Seats: what is claimed is written into a Lease, and all else is as in memory."""

    def __init__(
        self, members: Membership, claims: LeaseClaims, clock: Callable[[], float] = monotonic
    ) -> None:
        super().__init__(members)
        self._claims = claims
        self._clock = clock

    async def claim(self, wanted: Wanted, accept: Callable[[Seat], T], now: float) -> T | ReadGroup:
        """Take a seat, and return what `accept` makes of it. Raises Denied, ClaimsUnavailable and
        ClusterUnreadable.
        """
        del now  # a turn may be later

        def decide() -> Decision:
            self._members.expire(self._clock())
            seat = choose(self._members, wanted)
            return (None, seat) if isinstance(seat, ReadGroup) else (seat, accept(seat))

        answer: T | ReadGroup = await self._claims.claim(wanted.key, decide)
        return answer


class LeaseIndices(IndexMemory):
    """Shard indices: what is claimed is written into a Lease, and all else is as in memory."""

    def __init__(
        self, shards: Shards, claims: LeaseClaims, clock: Callable[[], float] = monotonic
    ) -> None:
        super().__init__(shards)
        self._claims = claims
        self._clock = clock

    async def claim(self, wanted: WantedIndex, now: float) -> int | Holder | Full:
        """Take an index, or return why there is none. Raises ClaimsUnavailable and
        ClusterUnreadable.
        """
        del now  # a turn may be later

        def decide() -> Decision:
            index = self._shards.choose(wanted, self._clock())
            return (
                (ShardIndex(index, wanted.name), index) if isinstance(index, int) else (None, index)
            )

        answer: int | Holder | Full = await self._claims.claim(wanted.key, decide)
        return answer
