"""Claims that several processes share: a seat or an index is written into a Lease by
compare-and-swap before its answer leaves.

`docs/agreement.md` says why each step is there. The steps of a claim are numbered there as in the
comments here.

See docs/decisions/0021-seats-are-claimed-in-leases.md.
"""

import asyncio
import logging
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct

from webhook.admission.errors import ClaimsUnavailable, ClusterUnreadable
from webhook.follow.errors import ApiError
from webhook.follow.leases import Lease, LeasesDiffer, PageUnreadable, lease_name, read_page
from webhook.follow.timing import ClaimTiming, World
from webhook.groups.ledger import NEVER, Claim, Draft, Key, Ledger, Page, Table, Value
from webhook.groups.seat import GroupKey
from webhook.groups.shards import ShardIndex
from webhook.kube.review import FORBIDDEN, Cause, Denied

_log: Final = logging.getLogger("webhook.follow")

Decision = tuple[Value | None, Any]
"""The value that was chosen, if any is to be claimed, and what to answer."""

_TICKETS_MAX: Final = 64
"""Tickets of one turn, so that its decisions take milliseconds at most."""

_MARKS_MAX: Final = 4096


class Store(Protocol):
    """The Leases, by name. All raise ApiError; of reason `missing` or `conflict` where there is
    none, or another one.
    """

    leases: int

    async def read(self, name: str) -> Lease:
        """Return a Lease as it is now."""

    async def create(self, name: str) -> Lease:
        """Create a Lease with a page that is not settled."""

    async def replace(self, name: str, page: Page, known: Lease) -> Lease:
        """Write a page in the place of the Lease that is known."""


class Objects(Table, Protocol):
    """The objects that claims are for. What is told of them is a version, which is only compared
    with other such versions.
    """

    def told(self, key: Key) -> int:
        """Return the version up to which everything of a group is known."""

    def newest(self, key: Key) -> int:
        """Return the highest version of the objects of a group."""

    def latest(self, key: Key) -> int:
        """Return a version that nothing known is newer than."""

    def heard_at(self, key: Key) -> float:
        """Return until when what had happened has been told, in monotonic seconds."""

    async def read(self, key: Key) -> None:
        """Read all objects of a group live. Raises ClusterUnreadable."""


class Counters(Struct):
    """What claiming has done since the start, for metrics."""

    writes: int = 0
    write_seconds: float = 0.0
    conflicts: int = 0
    failures: int = 0
    reads: int = 0
    """Live reads of groups."""


class _Ticket(Struct, eq=False):
    """One claim that waits for its turn."""

    key: Key
    decide: Callable[[], Decision]
    deadline: float
    answer: "asyncio.Future[Any]"


class _Mark(Struct, frozen=True):
    """A live read of a group: under which Lease and which count of dropped floors, and at which
    floor, it began, and when.
    """

    lease: str
    dropped: int
    floor: int
    begun: float


_STALE: Final = object()
"""The answer to a ticket of a group of which not enough is known."""


class Book:
    """One Lease: what is known of its page, and who waits to write on it. One turn at a time."""

    def __init__(
        self,
        name: str,
        store: Store,
        objects: Objects,
        counters: Counters,
        timing: ClaimTiming,
        world: World,
    ) -> None:
        self.name = name
        self.trouble = ""
        self._warned = ""
        self.ledger = Ledger(objects)
        self._store = store
        self._objects = objects
        self._counters = counters
        self._timing = timing
        self._world = world
        self._prefix = f"{int(world.random() * (1 << 40)):x}"
        self._number = 0
        self._lease: Lease | None = None
        self._uid = ""
        self._since = 0.0
        self._doubted = 0
        self._forestalled = False
        self._written = 0.0
        self._marks: dict[Key, _Mark] = {}
        self._tickets: deque[_Ticket] = deque()
        self._fold = False
        self._work: asyncio.Task[None] | None = None

    @property
    def known(self) -> bool:
        """Tell whether the Lease is there."""
        return self._lease is not None or bool(self.trouble)

    def take(self, lease: Lease, page: Page | None = None) -> None:
        """Take in the Lease, which may be an older one than is known; `page` is its content, where
        that is known already.
        """
        if lease.metadata.uid != self._uid:
            self._replaced(lease)
        if lease.version <= self.ledger.version:
            return
        try:
            page = page or read_page(lease, self._store.leases)
        except PageUnreadable as error:
            if self.trouble != str(error):
                _log.error("claims: %s; until then no seat of its groups is given", error)
            self.trouble = str(error)
            if isinstance(error, LeasesDiffer):
                raise
            return
        self.trouble = ""
        self._lease = lease
        self.ledger.take(page, lease.version, self._world.clock())

    def gone(self, uid: str) -> None:
        """Take in that the Lease of this uid was deleted."""
        if uid == self._uid:
            self._lease = None
            self.trouble = ""

    def set_back(self) -> None:
        """Take in that the API server's store was set back: the next Lease that is seen counts,
        whatever its version.
        """
        self._lease = None
        self.ledger.forget()

    @property
    def uid(self) -> str:
        """The uid of the Lease."""
        return self._uid

    async def catch_up(self, key: Key, deadline: float) -> None:
        """Wait until enough is known of a group. Raises ClaimsUnavailable or ClusterUnreadable."""
        waited = 0
        while self._lease is not None and not self._current(key):
            if self._world.clock() >= deadline:
                raise ClaimsUnavailable(
                    "the watch of the cluster is too far behind for a seat to be claimed"
                )
            account = self.ledger.page.accounts.get(key)
            if account is not None and waited < self._timing.looks and self._hears(key):
                waited += 1
                await self._world.sleep(
                    self._timing.look
                )  # the watch is nearly always a moment behind, not more
                continue
            await self._read(key)

    # Whatever `decide` answers
    async def submit(self, key: Key, decide: Callable[[], Decision], deadline: float) -> Any:  # noqa: ANN401
        """Return the answer that a turn gives, or _STALE. Raises what `decide` raises, and
        ClaimsUnavailable.
        """
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._tickets.append(_Ticket(key, decide, deadline, answer))
        self._start()
        return await answer

    def tidy(self) -> None:
        """Write without a ticket what is worth a write, when nobody writes: claims that can go, or
        are older than the page says, or that the page is settled.
        """
        now = self._world.clock()
        quiet = self._written + self._timing.quiet * (1 + self._world.random()) <= now
        if (
            self._lease is not None
            and not self.trouble
            and quiet
            and (self.ledger.foldable or self.ledger.aged(now) or self._settles())
        ):
            self._fold = True
            self._start()

    async def look(self) -> None:
        """Make sure that the Lease is there, and look for what became of claims that have had their
        time.
        """
        if self._lease is None and not self.trouble:
            await self._refresh()
        for key in self.ledger.overdue(self._world.clock()):
            begun = self._world.clock()
            await self._read(key)
            self.ledger.give_up(key, begun)

    def warn(self, what: str, error: Exception) -> None:
        """Log that something cannot be done, once until that changes or the Lease is written."""
        told = f"{what}: {error.reason if isinstance(error, ApiError) else error}"
        if told != self._warned:
            self._warned = told
            _log.warning("claims: Lease %s %s: %s", self.name, what, error)

    async def close(self) -> None:
        """Give up."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    # What is known

    def _replaced(self, lease: Lease) -> None:
        """Begin with a Lease that was not there before: nothing that was known of the former one
        counts.
        """
        if self._uid:
            _log.warning(
                "claims: Lease %s was made anew: no seat of its groups is given for a while",
                self.name,
            )
        self._uid = lease.metadata.uid
        self._since = self._world.clock()
        self._lease = None
        self._doubted = 0
        self.ledger.forget()

    def _current(self, key: Key) -> bool:
        """Tell whether enough is known of a group to decide: all that is no longer on the page, and
        what came without a claim.
        """
        if not self._hears(key):
            return False
        account, mark = self.ledger.page.accounts.get(key), self._mark(key)
        if account is None:
            return mark is not None
        return account.floor <= max(self._objects.told(key), mark.floor if mark else 0)

    def _hears(self, key: Key) -> bool:
        """Tell whether the objects of a group were told of a moment ago, by the watch or by a live
        read.
        """
        mark = self._mark(key)
        heard = max(self._objects.heard_at(key), mark.begun if mark else 0.0)
        return heard >= self._world.clock() - self._timing.silence

    def _mark(self, key: Key) -> _Mark | None:
        mark = self._marks.get(key)
        return (
            mark
            if mark and (mark.lease, mark.dropped) == (self._uid, self.ledger.page.dropped)
            else None
        )

    async def _read(self, key: Key) -> None:
        page = self.ledger.page
        account = page.accounts.get(key)
        mark = _Mark(self._uid, page.dropped, account.floor if account else 0, self._world.clock())
        self._counters.reads += 1
        await self._objects.read(key)
        if len(self._marks) >= _MARKS_MAX:
            self._marks.clear()
        self._marks[key] = mark

    def _settles(self) -> bool:
        """Tell whether a page that is not settled has been there for as long as anything may be
        underway that it does not know.
        """
        return (
            not self.ledger.page.settled
            and self._world.clock() - self._since >= self._timing.settle
        )

    async def _refresh(self) -> None:
        """Know the Lease as it is now, if that is not known. Raises ApiError."""
        if self._forestalled and self.ledger.version <= self._doubted:
            # What another process has written is nearly always told of sooner than it can be read
            await self._world.sleep(self._timing.look)
        self._forestalled = False
        if self._lease is not None and self.ledger.version > self._doubted:
            return
        first, then = (
            (self._store.create, self._store.read)
            if self._lease is None
            else (self._store.read, self._store.create)
        )
        try:
            lease = await first(self.name)
        except ApiError as error:
            if error.reason not in {"missing", "conflict"}:
                raise
            lease = await then(self.name)
        if self._lease is None:
            self.ledger.forget()
        self.take(lease)
        self._doubted = 0

    # The turns

    def _start(self) -> None:
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._turns(), name=self.name)

    async def _turns(self) -> None:
        while self._tickets or self._fold:
            try:
                await self._refresh()
            except (ApiError, PageUnreadable) as error:
                self._counters.failures += 1
                self.warn("cannot be read", error)
                self._refuse(self._called(), f"Lease {self.name} cannot be read: {error}")
                self._fold = False
                continue
            if self.trouble:
                self._refuse(self._called(), self.trouble)
                self._fold = False
                continue
            await self._turn()

    def _called(self) -> list[_Ticket]:
        """Return the tickets of a turn, whose callers still wait."""
        called: list[_Ticket] = []
        while self._tickets and len(called) < _TICKETS_MAX:
            ticket = self._tickets.popleft()
            if not ticket.answer.done():
                called.append(ticket)
        return called

    async def _turn(self) -> None:
        """Decide, and write. Nothing is awaited between what the decisions look at and the write
        that is conditional on it.
        """
        lease = self._lease
        if lease is None:
            return
        self._fold = False
        draft = self.ledger.draft(self._world.clock())
        if self._settles():
            draft.mark_settled()
        decided: list[tuple[_Ticket, Value, Any]] = []
        tickets = self._called()
        if not draft.settled:
            self._refuse(
                tickets,
                f"Lease {self.name} is new: what was admitted before is not known; wait "
                f"{self._timing.settle:.0f} s",
            )
        else:
            for ticket in tickets:
                self._decide(ticket, draft, decided)
        if not draft.changed:
            return
        page = draft.page()
        try:
            written = await self._write(page, lease, [ticket for ticket, _, _ in decided])
            if written is not None:
                self.take(written, page)
        finally:
            for ticket, value, _ in decided:
                self._objects.free(ticket.key, value)
        if written is not None:
            for ticket, _, outcome in decided:
                _resolve(ticket, outcome)

    def _decide(
        self, ticket: _Ticket, draft: Draft, decided: list[tuple[_Ticket, Value, Any]]
    ) -> None:
        """Answer a ticket that claims nothing, or note in the draft what it claims."""
        key = ticket.key
        if not self._current(key):
            _resolve(ticket, _STALE)
            return
        if draft.full(key):
            _reject(ticket, _full(key))
            return
        try:
            value, outcome = ticket.decide()
        # It is the caller's, and other tickets have their turn too
        except Exception as error:  # noqa: BLE001
            _reject(ticket, error)
            return
        if value is None:
            _resolve(ticket, outcome)
            return
        account = self.ledger.page.accounts.get(key)
        if account is None or account.floor > self._objects.told(key):
            draft.set_floor(key, self._objects.newest(key))
        self._number += 1
        after = NEVER if self._asked_again(draft, key, value) else self._objects.latest(key)
        draft.add(key, f"{self._prefix}-{self._number:x}", Claim(value, after))
        self._objects.hold(key, value)
        decided.append((ticket, value, outcome))

    def _asked_again(self, draft: Draft, key: Key, value: Value) -> bool:
        """Tell whether an index is given once more to the RayCluster that has it, or was told it.

        Two creations of one name may be underway then, of which the API server stores one after
        the other if the first is deleted meanwhile. What is seen of one says nothing of the other,
        so this claim lasts its time.
        """
        return isinstance(value, ShardIndex) and (
            draft.claimed(key, value) or self._objects.seen(key, value) > 0
        )

    async def _write(self, page: Page, lease: Lease, tickets: Sequence[_Ticket]) -> Lease | None:
        """Return the Lease as it was written, or None when it was not, or when nobody knows: then
        its tickets are seen to.
        """
        self._written = self._world.clock()
        self._counters.writes += 1
        try:
            written = await self._store.replace(self.name, page, lease)
        except ApiError as error:
            self._doubted = max(self._doubted, lease.version)
            if error.reason == "missing":
                self.gone(lease.metadata.uid)
            if error.reason == "conflict":
                self._counters.conflicts += 1
                self._forestalled = True
                self._queue_again(tickets)
            else:
                self._counters.failures += 1
                self.warn("cannot be written", error)
                self._refuse(tickets, f"Lease {self.name} cannot be written: {error}")
            return None
        finally:
            self._counters.write_seconds += self._world.clock() - self._written
        if self._warned:
            self._warned = ""
            _log.info("claims: Lease %s is written again", self.name)
        return written

    def _queue_again(self, tickets: Sequence[_Ticket]) -> None:
        """Let those who lost against another process be first in the next turn, while there is
        time.
        """
        now = self._world.clock()
        late = [ticket for ticket in tickets if ticket.deadline <= now]
        self._refuse(late, f"Lease {self.name} is written by other processes all the time")
        self._tickets.extendleft(reversed([ticket for ticket in tickets if ticket.deadline > now]))

    def _refuse(self, tickets: Sequence[_Ticket], reason: str) -> None:
        for ticket in tickets:
            _reject(ticket, ClaimsUnavailable(f"no seat can be claimed: {reason}"))


class LeaseClaims:
    """All Leases: a group belongs to one of them by a hash of its key. Also told of them, as the
    output of a list-watch.
    """

    def __init__(
        self,
        store: Store,
        objects: Objects,
        timing: ClaimTiming | None = None,
        world: World | None = None,
    ) -> None:
        self.counters = Counters()
        self._timing = timing or ClaimTiming()
        self._world = world or World()
        names = [lease_name(number) for number in range(store.leases)]
        self._books = {
            name: Book(name, store, objects, self.counters, self._timing, self._world)
            for name in names
        }
        self._ordered = list(self._books.values())
        self._differ = ""
        self._latest = 0
        self._listed: set[str] = set()
        self.listed = False

    @property
    def known(self) -> bool:
        """Tell whether all Leases are there: a condition of readiness."""
        return self.listed and (bool(self._differ) or all(book.known for book in self._ordered))

    @property
    def unseen(self) -> int:
        """How many claims wait for their object, of all processes."""
        return sum(book.ledger.unseen for book in self._ordered)

    # Whatever `decide` answers
    async def claim(self, key: Key, decide: Callable[[], Decision]) -> Any:  # noqa: ANN401
        """Return what `decide` answers, when the value that it chose has been claimed.

        `decide` has no effect of its own; it may be called again. Raises what it raises,
        ClaimsUnavailable and ClusterUnreadable.
        """
        deadline = self._world.clock() + self._timing.claim
        book = self.book_of(key)
        answer: Any = _STALE
        while answer is _STALE:
            if self._differ:
                raise ClaimsUnavailable(self._differ)
            await book.catch_up(key, deadline)
            answer = await book.submit(key, decide, deadline)
        return answer

    def book_of(self, key: Key) -> Book:
        """Return the Lease of a group: the same in every process."""
        return self._ordered[_digest(key) % len(self._ordered)]

    def saw(self, key: Key, value: Value, version: int) -> None:
        """Take in that an object was seen in a place."""
        self.book_of(key).ledger.saw(key, value, version)

    async def run(self) -> None:
        """Look after all Leases, until cancelled."""
        try:
            while True:
                await self._world.sleep(self._timing.tend)
                if self.listed and not self._differ:
                    for book in self._ordered:
                        await self._tend(book)
        finally:
            for book in self._ordered:
                await book.close()

    async def _tend(self, book: Book) -> None:
        try:
            await book.look()
        except (ApiError, ClusterUnreadable, PageUnreadable) as error:
            if book.trouble != str(error):
                book.warn("cannot be looked after", error)
        book.tidy()

    # The output of a list-watch

    def __len__(self) -> int:
        """Return how many Leases are there."""
        return sum(book.known for book in self._ordered)

    def begin(self, version: int) -> None:
        """Begin a full list; a version below one that was seen means that the API server's store
        was set back.
        """
        self._listed = set()
        self._differ = ""
        if version < self._latest:
            self._latest = 0
            for book in self._ordered:
                book.set_back()

    def item(self, value: Lease) -> None:
        """Take in a Lease of the full list."""
        self._listed.add(value.metadata.uid)
        self.put(value)

    def end(self) -> int:
        """End the full list: a Lease that it did not show is gone."""
        self.listed = True
        gone = [book for book in self._ordered if book.known and book.uid not in self._listed]
        for book in gone:
            book.gone(book.uid)
        return len(gone)

    def put(self, value: Lease) -> None:
        """Take in a Lease that was added or changed."""
        self._latest = max(self._latest, value.version)
        book = self._books.get(value.metadata.name)
        try:
            if book is not None:
                book.take(value)
            else:
                read_page(value, len(self._ordered))
        except PageUnreadable as error:
            self._differ = str(error)

    def remove(self, uid: str) -> None:
        """Take in that a Lease is gone."""
        for book in self._ordered:
            book.gone(uid)

    def reach(self, version: int) -> None:
        """Note up to which version Leases were told of."""
        self._latest = max(self._latest, version)

    def heard(self, now: float) -> None:
        """Do nothing: a write tells whether a Lease is the one that is known."""


def _resolve(ticket: _Ticket, outcome: object) -> None:
    if not ticket.answer.done():
        ticket.answer.set_result(outcome)


def _reject(ticket: _Ticket, error: Exception) -> None:
    if not ticket.answer.done():
        ticket.answer.set_exception(error)


def _digest(key: Key) -> int:
    """Return a number that is the same for a key in every process."""
    fields = (
        (key.namespace, key.cluster_uid, key.group)
        if isinstance(key, GroupKey)
        else (key.namespace, key.group)
    )
    return zlib.crc32("\0".join(fields).encode(errors="surrogatepass"))


def _full(key: Key) -> Denied:
    text = (
        f"too many pods of group {key.group} in {key.namespace} were admitted and have not "
        "appeared: if the API server refused "
        "them (see earlier events: a quota, another webhook), there is room again within a "
        "minute or two, and KubeRay tries again"
    )
    return Denied(Cause(FORBIDDEN, text, ""))
