"""Reservations: identities in worker groups and indices in shard groups, written to a table before
they are returned.

docs/contributing/reservation.md numbers the steps, like the comments here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from math import inf
from time import monotonic
from typing import Final, Protocol, TypeVar, cast
from weakref import WeakValueDictionary

from msgspec import Struct

from webhook.api.review import (
    FORBIDDEN,
    Cause,
    Denied,
    NotNow,
)
from webhook.groups.required_reads import ReadGroup
from webhook.groups.shards import Full
from webhook.reservation.allocation import (
    RENEW_SECONDS,
    VACANT_SECONDS,
    Objects,
    Overdue,
    Place,
    Request,
    Table,
    Taken,
    allocate,
    block_of,
    owns,
    vacancy,
)
from webhook.reservation.stores import (
    Conflict,
    Key,
    Store,
    Stored,
    StoreError,
    TableKey,
)

T = TypeVar("T")

TRY_SECONDS: Final = 4.0
"""The API server's default timeout for a webhook is 10 s, and it retries a 503 within that time."""

FRESH_SECONDS: Final = 5.0
"""Objects are listed before a decision if the last contact with the API server is older."""

UNSEEN_MAX: Final = 256
"""Entries of a group that a process makes within 60 s and whose objects do not appear."""

LATE_SECONDS: Final = 10.0
"""An object usually appears within a second after its admission."""

_GROUPS_MAX: Final = 1024
_AT_ONCE: Final = 8
"""Concurrent requests per namespace."""
_PAUSE_SECONDS: Final = 0.2
"""Delay after a request whose outcome is unknown."""


class Lists(Protocol):
    """Times of lists and watches of groups, by the clock of the API server."""

    def contact(self, key: Key) -> float:
        """Return the time of the last contact with the API server about a group."""

    def listed(self, key: Key) -> float:
        """Return the start time of the newest complete list of a group."""

    async def relist(self, key: Key, cluster: str) -> None:
        """List the objects of a group of a RayCluster live. Raises NotNow."""


class ReservationRequest(Struct, frozen=True):
    """A request, its group, and the objects of the group. `cluster` is the name of the RayCluster,
    for readers of the table.
    """

    lists: Lists
    objects: Callable[[], Objects]
    key: Key
    request: Request
    cluster: str = ""


Found = Place | Taken
Accept = Callable[[Found, list[Table]], T]
"""Creates a response from indices and the tables that were searched for them. It has no side
effects, and may be called again. Nothing is reserved for Taken indices, and if it returns a
ReadGroup or Full. It may raise Denied.
"""


class Counters(Struct):
    """Totals since the start, for metrics."""

    reserved: int = 0
    repeated: int = 0
    """Responses from an entry that was written before."""
    denied: int = 0
    unavailable: int = 0
    conflicts: int = 0
    writes: int = 0
    lists: int = 0
    seconds: float = 0.0
    """Sum of the times from request to response."""


class Times(Struct, frozen=True):
    """The time of the API server as far as it is known (Unix time, or -inf), and that of this
    process.
    """

    server: Callable[[], float]
    monotonic: Callable[[], float] = monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep


class Reservations:
    """Reserves indices, in one coroutine at a time per group."""

    def __init__(self, store: Store, times: Times, unseen_max: float = UNSEEN_MAX) -> None:
        self.counters = Counters()
        self._store = store
        self._times = times
        self._unseen_max = unseen_max
        self._unseen: dict[Key, tuple[ReservationRequest, dict[tuple[int, str, str], float]]] = {}
        """By group: the entries of this process, and when they were made."""
        self._contended: set[Key] = set()
        """Groups with other writers: their tables are read before they are written."""
        self._tables: dict[Key, _Copies] = {}
        """Copies of the tables by group; the group of the latest write is last."""
        self._turns: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()
        self._rooms: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @property
    def unseen(self) -> int:
        """Return the number of entries of this process that are 10 to 60 s old and whose object has
        not appeared.
        """
        late = self._times.server() - LATE_SECONDS
        return sum(made <= late for key in [*self._unseen] for made in self._purged(key).values())

    async def reserve(self, wanted: ReservationRequest, accept: Accept[T]) -> T:
        """Return the response for reserved indices. Raises Denied and NotNow."""
        begun = self._times.monotonic()
        turn = self._turns.setdefault(wanted.key, asyncio.Lock())
        room = self._rooms.setdefault(wanted.key.namespace, asyncio.Semaphore(_AT_ONCE))
        try:
            async with turn, room:
                return await self._reserve(wanted, accept, begun + TRY_SECONDS)
        except Denied:
            self.counters.denied += 1
            raise
        except NotNow:
            self.counters.unavailable += 1
            raise
        finally:
            self.counters.seconds += self._times.monotonic() - begun

    def preview(self, wanted: ReservationRequest, accept: Accept[T]) -> T:
        """Return the response for the indices that `reserve` would probably reserve. Raises
        Denied.
        """
        found, _, searched = self._search(wanted, -inf, ())
        # No entry is overdue at -inf.
        return accept(cast("Found", found), searched)

    async def _reserve(self, wanted: ReservationRequest, accept: Accept[T], deadline: float) -> T:
        key = wanted.key
        tried: tuple[int, ...] = ()
        while self._times.monotonic() < deadline:
            now = self._times.server()
            if now == -inf or wanted.lists.contact(key) < now - FRESH_SECONDS:
                await self._list(wanted)
                continue
            found, block, searched = self._search(wanted, now, tried)
            if isinstance(found, Overdue):
                await self._list(wanted)
                continue
            if isinstance(found, Taken) and found.own:
                msg = f"replica {found.index} host {found.host} of this request is {found.holder}'s"
                raise NotNow(msg)
            answer = accept(found, searched)
            if isinstance(found, Taken) or isinstance(answer, ReadGroup | Full):
                return answer
            if found.table is None:
                self.counters.repeated += 1
                return answer
            self._check_unseen(key)
            read_first = key in self._contended and block not in tried
            tried = (*tried, block) if block not in tried else tried
            if read_first:
                await self._read(TableKey(key, block))
            elif await self._write(wanted, block, found.table):
                self._note(wanted, found, now)
                if self._times.server() - now <= RENEW_SECONDS:
                    return answer  # step 6
                continue  # this process was suspended
        msg = (
            f"no identity can be reserved in group {key.group}: the API server did not answer in "
            f"time, or other processes wrote its table each time within {TRY_SECONDS:g} s"
        )
        raise NotNow(msg)

    def _search(
        self, wanted: ReservationRequest, now: float, tried: tuple[int, ...]
    ) -> tuple[Found | Overdue, int, list[Table]]:
        """Return the indices, their block, and the tables of all blocks that were searched (steps 1
        to 4). `tried` are blocks that may have an entry of this request.
        """
        request, objects = wanted.request, wanted.objects()
        tables = self._tables.get(wanted.key) or _Copies()
        mine = (block for block in tried if owns(tables.table(block), request, block))
        block = next(mine, -1)
        if block < 0:
            block = _start(objects, request, tables)
        searched = []
        while True:
            searched.append(tables.table(block))
            found = allocate(searched[-1], objects, request, block, now)
            if found is not None:
                return found, block, searched
            block += 1

    async def _write(self, wanted: ReservationRequest, block: int, table: Table) -> bool:
        """Write a table, and return whether that is certain (step 5). Otherwise read it. Raises
        NotNow.
        """
        key = TableKey(wanted.key, block)
        known = self._copy(key)
        self._keep(key, None)  # a cancelled review leaves no copy
        self.counters.writes += 1
        try:
            stored = await self._store.write(key, table, wanted.cluster, known)
        except Conflict:
            self.counters.conflicts += 1
            self._contended.add(key.group)
        except StoreError as error:
            await self._failed(error)
        else:
            self._keep(key, stored)
            return True
        await self._read(key, known)
        return False

    async def _read(self, key: TableKey, known: Stored | None = None) -> None:
        """Read a table again. Raises NotNow."""
        copy = self._copy(key)
        try:
            found = await self._store.get(key)
        except StoreError as error:
            await self._failed(error)
            return
        if found is None or (copy and copy.version == found.version):
            self._contended.discard(key.group)
        # If the table was deleted by hand, the known entries are kept.
        known = copy or known
        self._keep(key, found or (known and Stored(known.table)))

    async def _failed(self, error: StoreError) -> None:
        if error.final:
            raise NotNow(str(error)) from error
        await self._times.sleep(_PAUSE_SECONDS)

    async def _list(self, wanted: ReservationRequest) -> None:
        self.counters.lists += 1
        await wanted.lists.relist(wanted.key, wanted.cluster)

    def _copy(self, key: TableKey) -> Stored | None:
        copies = self._tables.get(key.group)
        return copies.stored.get(key.block) if copies else None

    def _keep(self, key: TableKey, stored: Stored | None) -> None:
        copies = self._tables.pop(key.group, None) or _Copies()
        copies.put(key.block, stored)
        if copies.stored:
            self._tables[key.group] = copies
        if len(self._tables) > _GROUPS_MAX:
            oldest = next(iter(self._tables))
            self._contended.discard(oldest)
            del self._tables[oldest]

    def _note(self, wanted: ReservationRequest, place: Place, made: float) -> None:
        self.counters.reserved += 1
        if self._unseen_max < inf:
            _, entries = self._unseen.setdefault(wanted.key, (wanted, {}))
            entries[place.index, place.name, place.holder] = made
        if len(self._unseen) > _GROUPS_MAX:
            self._purged(next(iter(self._unseen)))

    def _purged(self, key: Key) -> Mapping[tuple[int, str, str], float]:
        """Return the entries of a group that have no object and are younger than 60 s."""
        wanted, entries = self._unseen.pop(key)
        now, objects = self._times.server(), wanted.objects()
        entries = {
            entry: made
            for entry, made in entries.items()
            if now - made < VACANT_SECONDS
            and not (objects.exists(*entry) or objects.gone(entry[2]))
        }
        if entries:
            self._unseen[key] = wanted, entries
        return entries

    def _check_unseen(self, key: Key) -> None:
        """Raise Denied for a group with too many entries whose objects do not appear."""
        if key not in self._unseen or len(self._unseen[key][1]) < self._unseen_max:
            return
        entries = self._purged(key)
        if len(entries) < self._unseen_max:
            return
        since = self._times.server() - min(entries.values())
        text = (
            f"{len(entries)} pods of group {key.group} in namespace {key.namespace} were admitted "
            f"within the last {since:.0f} s and have not appeared: see earlier events for what "
            "refused them, such as a quota or another webhook. KubeRay tries again"
        )
        raise Denied(Cause(FORBIDDEN, text, ""))


class _Copies:
    """Copies of the tables of a group by block, and the blocks whose entries leave a host of a
    replica free.
    """

    def __init__(self) -> None:
        self.stored: dict[int, Stored] = {}
        self._hosts = 0
        self._begun: set[int] = set()

    def table(self, block: int) -> Table:
        found = self.stored.get(block)
        return found.table if found else {}

    def put(self, block: int, stored: Stored | None) -> None:
        self.stored.pop(block, None)
        self._begun.discard(block)
        if stored is not None:
            self.stored[block] = stored
            if _begins(stored.table, self._hosts):
                self._begun.add(block)

    def begun(self, hosts: int) -> set[int]:
        """Return these blocks, for replicas of a number of hosts."""
        if hosts != self._hosts:
            self._hosts = hosts
            self._begun = {
                block for block, each in self.stored.items() if _begins(each.table, hosts)
            }
        return self._begun


def _start(objects: Objects, request: Request, tables: _Copies) -> int:
    """Return the lowest block with an incomplete replica, otherwise the block of the lowest vacant
    index (step 1).
    """
    if request.index:
        return 0
    if request.given is not None:
        return block_of(request.given[0])
    if request.hosts > 1:
        lacking = objects.lacking(request.hosts)
        # In all other blocks, entries fill each replica that they begin
        begun = tables.begun(request.hosts)
        for block in sorted(begun if lacking is None else begun | {block_of(lacking)}):
            if vacancy(tables.table(block), objects, request, block, open_new=False):
                return block
    return block_of(objects.first(request.hosts))


def _begins(table: Table, hosts: int) -> bool:
    """Return whether entries leave a host of a replica free."""
    return any(sum(host < hosts for host in entry.hosts) < hosts for entry in table.values())
