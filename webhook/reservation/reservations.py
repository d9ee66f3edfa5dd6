"""Reservations: identities in worker groups and indices in shard groups, written to a table before
they are returned.

docs/contributing/reservation.md numbers the steps, like the comments here.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import takewhile
from math import inf
from time import monotonic
from typing import Final, Protocol, TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct, field

from webhook.api.review import FORBIDDEN, Cause, Denied, NotNow
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity import GroupKey, Key
from webhook.groups.identity_index import Membership
from webhook.groups.required_reads import SILENCE_SECONDS, ReadGroup
from webhook.reservation.allocation import (
    RENEW_SECONDS,
    VACANT_SECONDS,
    AnyRequest,
    Found,
    Objects,
    Pods,
    Shards,
    Tables,
    Taken,
    allocate,
    pending,
)
from webhook.reservation.stores import (
    Conflict,
    MemoryStore,
    Stored,
    Table,
    TableKey,
    TableStore,
    UnknownOutcome,
)

T = TypeVar("T")

TRY_SECONDS: Final = 4.0
"""The API server's default timeout for a webhook is 10 s, and it retries a 503 within that time."""

UNSEEN_MAX: Final = 256
"""Entries of a group that were made within 60 s and whose objects do not appear."""

LATE_SECONDS: Final = 10.0
"""An object usually appears within a second after its admission."""

_GROUPS_MAX: Final = 1024
_AT_ONCE: Final = 8
"""Concurrent requests per namespace."""
_PAUSE_SECONDS: Final = 0.2
"""Delay after a request whose outcome is unknown."""


class Lists(Protocol):
    """Lists and watches of groups, with times by the clock of the API server."""

    def now(self) -> float:
        """Return the time as far as it is known (Unix time, or -inf)."""

    def contact(self, key: Key) -> float:
        """Return the time of the last contact with the API server about a group."""

    def listed(self, key: Key) -> float:
        """Return the start time of the newest complete list of a group."""

    async def relist(self, key: Key, cluster: str) -> None:
        """List the objects of a group of a RayCluster live. Raises NotNow."""


Accept = Callable[[Found, int], T]
"""Creates a response from indices, and if their replica is beyond the desired number, from the
number of entries whose objects have not appeared. It has no side effects, and may be called again.
Nothing is reserved for Taken indices, and if it returns a ReadGroup. It may raise Denied.
"""


class Reservations:
    """Reserves indices, in one coroutine at a time per group."""

    def __init__(
        self,
        store: TableStore,
        lists: Lists,
        members: Membership,
        clusters: ClusterIndex,
        unseen_max: float = UNSEEN_MAX,
    ) -> None:
        self.clock: Callable[[], float] = monotonic
        self.sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
        self.counts: Counter[str] = Counter()
        """Totals since the start: writes, conflicts, live lists, and reservations by outcome:
        reserved, repeated (from an entry that was written before), denied, unavailable.
        """
        self.seconds = 0.0
        """Sum of the times from request to response."""
        self._store = store
        self._lists = lists
        self._members = members
        self._clusters = clusters
        self._unseen_max = unseen_max
        self._groups: dict[Key, _GroupTables] = {}
        """The group of the latest write is last."""
        self._turns: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()
        self._limits: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @property
    def unseen(self) -> int:
        """Return the number of known entries that are 10 to 60 s old and whose object has not
        appeared.
        """
        now = self._lists.now()
        recent = takewhile(
            lambda item: item[1].at > now - VACANT_SECONDS, reversed(self._groups.items())
        )
        return sum(
            reserved_at <= now - LATE_SECONDS
            for key, group in recent
            for reserved_at in self._unseen(self._objects(key), group.tables)
        )

    async def reserve(self, request: AnyRequest, accept: Accept[T]) -> T:
        """Return the response for reserved indices. Raises Denied and NotNow."""
        begun, key = self.clock(), request.key
        turn = self._turns.setdefault(key, asyncio.Lock())
        limit = self._limits.setdefault(key.namespace, asyncio.Semaphore(_AT_ONCE))
        try:
            # The order matters: a request that waits for its group must not use up one of the
            # namespace.
            async with turn, limit:
                return await self._reserve(request, accept, begun + TRY_SECONDS)
        except (Denied, NotNow) as error:
            self.counts["denied" if isinstance(error, Denied) else "unavailable"] += 1
            raise
        finally:
            self.seconds += self.clock() - begun

    def preview(self, request: AnyRequest, accept: Accept[T]) -> T:
        """Return the response for the indices that `reserve` would probably reserve. Raises Denied
        and NotNow.
        """
        objects = self._objects(request.key, request.cluster)
        # A preview writes nothing, so it needs no time: no entry is renewed or overdue.
        choice = allocate(self._tables(request.key), objects, request, -inf)
        return accept(choice.found, choice.waiting)

    async def _reserve(self, request: AnyRequest, accept: Accept[T], deadline: float) -> T:
        key = request.key
        tried: tuple[int, ...] = ()
        while self.clock() < deadline:
            now = self._lists.now()
            # Step 1. A watch whose connection is half-open delivers nothing and reports no error.
            if now == -inf or self._lists.contact(key) < now - SILENCE_SECONDS:
                await self._list(request)
                continue
            objects = self._objects(key, request.cluster)
            choice = allocate(self._tables(key), objects, request, now)
            place, block = choice.found, choice.block
            # Step 3. Only a list that begins 60 s after an entry was made proves that its pod was
            # not stored.
            if choice.overdue:
                await self._list(request)
                continue
            # Before the write: a denied pod must not use an index for 60 s.
            answer = accept(place, choice.waiting)
            # Step 4. The caller reads the group live and reserves again: cached pods may be older
            # than those by which KubeRay decided that a pod is lacking.
            if isinstance(place, Taken) or isinstance(answer, ReadGroup):
                return answer
            # Step 2. The entry of a write whose response was lost, or of a review that is repeated.
            if place.table is None:
                self.counts["repeated"] += 1
                return answer
            group = self._latest(key)
            self._check_unseen(key, group, objects)
            # Step 5. Where two processes alternate, a read and a write take less than a rejected
            # write, a read and a second write; only once, because the copy is current after it.
            read_first = group.contended and block not in tried
            tried = (*tried, block)
            if read_first:
                await self._read(TableKey(key, block), group)
            # Step 6 follows the write: until it is stored, another process may write the same
            # identity.
            elif await self._write(TableKey(key, block), group, place.table, request.cluster):
                self.counts["reserved"] += 1
                group.made += 1
                # Another process may drop this entry 60 s after `made`. A process that was
                # suspended for that long would answer with an identity that another pod has by
                # then.
                if self._lists.now() - now <= RENEW_SECONDS:
                    return answer  # step 6; otherwise this process was suspended
        msg = (
            f"no identity can be reserved in group {key.group}: the API server did not answer in "
            f"time, or other processes wrote its table each time within {TRY_SECONDS:g} s"
        )
        raise NotNow(msg)

    async def _write(
        self, key: TableKey, group: "_GroupTables", table: Table, cluster: str
    ) -> bool:
        """Write a table, and return whether that is certain (step 5). Otherwise read it. Raises
        NotNow.
        """
        copy = group.tables.pop(key.block)  # a cancelled review leaves no copy
        self.counts["writes"] += 1
        try:
            stored = await self._store.write(key, table, cluster, copy)
        except Conflict:
            self.counts["conflicts"] += 1
            group.contended = True
        except UnknownOutcome:
            # A refused connection fails at once: without a pause, the loop would send requests
            # until its deadline.
            await self.sleep(_PAUSE_SECONDS)
        else:
            group.tables.put(key.block, stored)
            return True
        await self._read(key, group, copy)
        return False

    async def _read(
        self, key: TableKey, group: "_GroupTables", known: Stored | None = None
    ) -> None:
        """Read a table again. Raises NotNow."""
        copy = group.tables.stored.get(key.block)
        try:
            stored = await self._store.get(key)
        except UnknownOutcome:
            await self.sleep(_PAUSE_SECONDS)
            return
        # No other process has written since, so the read before each write only costs a request.
        if stored is None or (copy and copy.version == stored.version):
            group.contended = False
        if stored is not None:
            group.tables.put(key.block, stored)
        elif known := copy or known:  # deleted by hand: the known entries are kept
            group.tables.put(key.block, Stored(known.table))

    async def _list(self, request: AnyRequest) -> None:
        self.counts["lists"] += 1
        await self._lists.relist(request.key, request.cluster)

    def _objects(self, key: Key, cluster: str = "") -> Objects:
        listed = self._lists.listed(key)
        # Shard indices belong to RayClusters: their pods do not exist yet when the index is
        # assigned.
        if isinstance(key, GroupKey):
            return Pods(self._members, key, listed)
        return Shards(self._clusters, key, cluster, listed)

    def _tables(self, key: Key) -> Tables:
        group = self._groups.get(key)
        return group.tables if group else Tables()

    def _latest(self, key: Key) -> "_GroupTables":
        group = self._groups[key] = self._groups.pop(key) if key in self._groups else _GroupTables()
        group.at = self._lists.now()
        # A dropped copy costs one read: the next write of its group is a conflict.
        if len(self._groups) > _GROUPS_MAX:
            del self._groups[next(iter(self._groups))]
        return group

    def _unseen(self, objects: Objects, tables: Tables) -> list[float]:
        """Return the times of the entries that are less than 60 s old and whose objects have not
        appeared.
        """
        since = self._lists.now() - VACANT_SECONDS
        return [
            entry.made
            for stored in tables.stored.values()
            for index, entry in stored.table.items()
            if entry.made > since
            for _ in pending(objects, index, entry)
        ]

    def _check_unseen(self, key: Key, group: "_GroupTables", objects: Objects) -> None:
        """Raise Denied for a group with too many entries whose objects do not appear."""
        if group.made >= self._unseen_max:
            # `made` only counts upward, so most reservations need no walk of the tables.
            entries = self._unseen(objects, group.tables)
            group.made = len(entries)
            if group.made >= self._unseen_max:
                raise _too_many_unseen(key, len(entries), self._lists.now() - min(entries))


class _GroupTables(Struct):
    """The tables of a group. `contended`: other processes write, so a table is read before it is
    written. `made` is at least the number of entries of this process whose objects have not
    appeared. `at` is the time of the latest write.
    """

    tables: Tables = field(default_factory=Tables)
    contended: bool = False
    made: int = 0
    at: float = -inf


def _too_many_unseen(key: Key, entries: int, seconds: float) -> Denied:
    message = (
        f"{entries} pods of group {key.group} in namespace {key.namespace} were admitted within "
        f"the last {seconds:.0f} s and have not appeared: see earlier events for what refused "
        "them, such as a quota or another webhook. KubeRay tries again"
    )
    return Denied(Cause(FORBIDDEN, message, ""))


class _Alone:
    """Lists for a process that is the only source of objects: an admitted object exists, and no
    list proves that one does not.
    """

    def now(self) -> float:
        return 0.0

    def contact(self, _key: Key) -> float:
        return inf

    def listed(self, _key: Key) -> float:
        return -inf

    async def relist(self, _key: Key, _cluster: str) -> None:
        """Do nothing."""


def standalone(members: Membership, clusters: ClusterIndex) -> Reservations:
    """Return reservations in memory, for a process that is the only one."""
    return Reservations(MemoryStore(), _Alone(), members=members, clusters=clusters, unseen_max=inf)
