"""Shard indices: each RayCluster of a shard group has one, the lowest that is free at its
creation.
"""

from collections.abc import Callable
from math import inf

from webhook.groups.annotations import read_index
from webhook.groups.group_config import ClusterIndex, RayClusterConfig
from webhook.groups.shards import (
    COMING,
    Full,
    Holder,
    ShardKey,
    WantedIndex,
)
from webhook.reservation.allocation import Request, Table, Taken
from webhook.reservation.identities import Alone
from webhook.reservation.reservations import (
    Found,
    Lists,
    ReservationRequest,
    Reservations,
    Times,
)
from webhook.reservation.stores import MemoryStore


class _Shards:
    """The RayClusters of a shard group."""

    def __init__(self, clusters: ClusterIndex, key: ShardKey, listed: float) -> None:
        self.listed = listed
        self._holders: dict[int, list[str]] = {}
        for facts in clusters:
            if (facts.namespace, facts.shard_group) == key and (
                index := read_index(facts.shard_index)
            ) is not None:
                self._holders.setdefault(index, []).append(facts.name)

    def first(self, hosts: int) -> int:
        del hosts
        return 0

    def lacking(self, hosts: int) -> None:
        del hosts

    def taken(self, index: int, request: Request) -> int:
        return int(bool(self.other(index, 0, request, "")))

    def name(self, index: int) -> str:
        del index
        return ""

    def has_name(self, name: str) -> bool:
        del name
        return False

    def exists(self, index: int, name: str, holder: str) -> bool:
        del holder  # RayClusters are identified by name
        holders = self._holders.get(index, ())
        return name in holders if name else bool(holders)

    def gone(self, holder: str) -> bool:
        del holder  # of two creations with the same name, the API server may still store the second
        return False

    def other(self, index: int, host: int, request: Request, holder: str) -> str:
        del host, holder
        return next((each for each in self._holders.get(index, ()) if each != request.cluster), "")


class Indices:
    """Assigns the indices of shard groups."""

    def __init__(self, clusters: ClusterIndex, lists: Lists, reservations: Reservations) -> None:
        self._clusters = clusters
        self._lists = lists
        self._reservations = reservations

    async def reserve(self, wanted: WantedIndex) -> int | Holder | Full:
        """Return a reserved index, or why there is none. Raises Denied, NotNow."""
        return await self._reservations.reserve(*self._asked(wanted))

    def preview(self, wanted: WantedIndex) -> int | Holder | Full:
        """Return the likely result of `reserve`, without a reservation."""
        return self._reservations.preview(*self._asked(wanted))

    def others(self, key: ShardKey, name: str) -> list[RayClusterConfig]:
        """Return the known RayClusters of a group, except the one of that name."""
        return [
            facts
            for facts in self._clusters
            if (facts.namespace, facts.shard_group) == key and facts.name != name
        ]

    def _asked(
        self, wanted: WantedIndex
    ) -> tuple[ReservationRequest, Callable[[Found, list[Table]], int | Holder | Full]]:
        given = None if wanted.given is None else (wanted.given, 0)
        request = Request(
            wanted.request_uid,
            wanted.key.group,
            cluster=wanted.name,
            generated=not wanted.name,
            given=given,
        )

        def objects() -> _Shards:
            return _Shards(self._clusters, wanted.key, self._lists.listed(wanted.key))

        def answer(found: Found, searched: list[Table]) -> int | Holder | Full:
            del searched
            if wanted.count is not None and found.index >= wanted.count:
                return Full(found.index, wanted.count)
            if isinstance(found, Taken):
                return Holder(found.holder or COMING)
            return found.index

        return ReservationRequest(self._lists, objects, wanted.key, request, wanted.name), answer


def standalone_indices(clusters: ClusterIndex) -> Indices:
    """Return the indices for a process that is the only one to assign them."""
    times = Times(server=lambda: 0.0)
    return Indices(clusters, Alone(), Reservations(MemoryStore(), times, inf))
