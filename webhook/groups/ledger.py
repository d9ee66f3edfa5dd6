"""The ledger: claims that several processes share, page by page, and what one process knows of a
page.

A page holds claims, and for each group a *floor*: no object whose claim is no longer on the page
was created at a version above it. Whoever has been told of the objects of a group up to its floor
knows of all that was ever claimed in it: what is on the page is held, and what is not was seen, or
will never come. `docs/agreement.md` has the argument.
"""

from collections.abc import Mapping
from typing import Final, Protocol

from msgspec import Struct

from webhook.groups.claims import ASSUMED_SECONDS
from webhook.groups.seat import GroupKey, Seat
from webhook.groups.shards import ShardIndex, ShardKey

Key = GroupKey | ShardKey
Value = Seat | ShardIndex

GROUP_CLAIMS_MAX: Final = 256
"""Claims of one group: pods that were admitted and have not been seen, such as those that a quota
refuses.
"""

PAGE_CLAIMS_MAX: Final = 1024
"""Claims of a page. It is written with each claim, so one that is full takes
tens of milliseconds.
"""

FLOORS_MAX: Final = 1024
"""Groups of a page. A group that is forgotten costs a live read when it is asked for again."""

AGE_STEP_SECONDS: Final = 5
"""A claim that waits for its object has its age written this often."""


NEVER: Final = 1 << 62
"""No object has a version above this one: a claim that came `after` it is not confirmed by any."""


class Claim(Struct, frozen=True, gc=False):
    """A value that was handed out by a process that had been told nothing newer than the version
    `after`.

    So an object in this place is the one it was handed out for only when its version is higher.
    """

    value: Value
    after: int


class Account(Struct, frozen=True, gc=False):
    """One group on a page."""

    floor: int
    claims: Mapping[str, Claim]


class Page(Struct, frozen=True):
    """A page: all processes that know its version know the same content.

    `settled` tells that nothing is underway that the page does not know: a new page knows nothing
    of what was admitted before. `dropped` counts how often floors were dropped. `ages` tells of
    claims for how many seconds they have been on the page, at least.
    """

    accounts: Mapping[Key, Account] = {}
    settled: bool = False
    dropped: int = 0
    ages: Mapping[str, int] = {}

    @property
    def size(self) -> int:
        """The number of claims."""
        return sum(len(account.claims) for account in self.accounts.values())


class Table(Protocol):
    """Where the values are that nobody else may get."""

    def hold(self, key: Key, value: Value) -> None:
        """Count one more holder of a value."""

    def free(self, key: Key, value: Value) -> None:
        """Count one holder less."""

    def seen(self, key: Key, value: Value) -> int:
        """Return the version of an object that is known in this place; 0 when there is none."""


class _Known(Struct):
    """A claim of the page: its group, since when it has been there, by our clock and at the latest,
    and at which version its object was seen.
    """

    key: Key
    claim: Claim
    since: float
    confirmed: int = 0
    lost: bool = False


class Ledger:
    """What one process knows of a page. It holds the values of the claims on it until their objects
    are seen.
    """

    def __init__(self, table: Table) -> None:
        self.page = Page()
        self.version = 0
        self._table = table
        self._known: dict[str, _Known] = {}
        self._open: dict[Key, dict[str, _Known]] = {}

    @property
    def unseen(self) -> int:
        """How many claims wait for their object."""
        return sum(map(len, self._open.values()))

    @property
    def foldable(self) -> bool:
        """Tell whether claims are on the page that need not be."""
        return any(known.confirmed or known.lost for known in self._known.values())

    def take(self, page: Page, version: int, now: float) -> None:
        """Take in a page, unless a newer one is known."""
        if version <= self.version:
            return
        self.page, self.version = page, version
        on_page = {
            ident: (key, claim)
            for key, account in page.accounts.items()
            for ident, claim in account.claims.items()
        }
        for ident in [ident for ident in self._known if ident not in on_page]:
            self._close(ident, self._known.pop(ident))
        for ident, (key, claim) in on_page.items():
            since = now - page.ages.get(ident, 0)
            if ident not in self._known:
                self._add(ident, _Known(key, claim, since))
            elif since < self._known[ident].since:
                self._known[ident].since = since

    def forget(self) -> None:
        """Take the next page whatever its version: this one was deleted, or the API server's store
        was set back.
        """
        self.version = 0

    def saw(self, key: Key, value: Value, version: int) -> None:
        """Take in that an object was seen in a place: the object of each claim of it
        that is older.
        """
        known = self._open.get(key)
        if not known:
            return
        place = _place(value)
        for ident, each in [*known.items()]:
            if each.claim.after < version and _place(each.claim.value) == place:
                each.confirmed = version
                self._close(ident, each)

    def overdue(self, now: float) -> list[Key]:
        """Return the groups with a claim whose object has had its time. A live list that begins now
        shows it, if it is there.
        """
        return [
            key
            for key, known in self._open.items()
            if any(each.since + ASSUMED_SECONDS <= now for each in known.values())
        ]

    def give_up(self, key: Key, begun: float) -> None:
        """Give up the claims of a group whose time was up when a live list began, which has been
        taken in. Where an object is in the place of one, nobody may decide without knowing it.
        """
        for ident, each in [*self._open.get(key, {}).items()]:
            if each.since + ASSUMED_SECONDS <= begun:
                each.confirmed = self._table.seen(key, each.claim.value)
                each.lost = not each.confirmed
                self._close(ident, each)

    def aged(self, now: float) -> bool:
        """Tell whether a claim has become older than the page says, by a step. A process that
        starts knows what the page says.
        """
        return any(
            now - each.since >= self.page.ages.get(ident, 0) + AGE_STEP_SECONDS
            for known in self._open.values()
            for ident, each in known.items()
        )

    def draft(self, now: float) -> "Draft":
        """Return the next page, without the claims that need not be there."""
        draft = Draft(self.page)
        for ident, known in self._known.items():
            if known.confirmed or known.lost:
                draft.fold(known.key, ident, known.confirmed)
            elif (age := int(now - known.since)) >= AGE_STEP_SECONDS:
                draft.ages[ident] = age
        draft.changed |= self.aged(now)
        return draft

    def _add(self, ident: str, known: _Known) -> None:
        self._known[ident] = known
        self._open.setdefault(known.key, {})[ident] = known
        self._table.hold(known.key, known.claim.value)
        seen = self._table.seen(known.key, known.claim.value)
        if seen > known.claim.after:
            known.confirmed = seen
            self._close(ident, known)

    def _close(self, ident: str, known: _Known) -> None:
        """Let go of the value of a claim, if that was not done before."""
        known_here = self._open.get(known.key, {})
        if known_here.pop(ident, None) is None:
            return
        if not known_here:
            del self._open[known.key]
        self._table.free(known.key, known.claim.value)


class Draft:
    """The page to come."""

    def __init__(self, page: Page) -> None:
        self.changed = False
        self.settled = page.settled
        self.ages: dict[str, int] = {}
        self._dropped = page.dropped
        self._floors = {key: account.floor for key, account in page.accounts.items()}
        self._claims = {key: dict(account.claims) for key, account in page.accounts.items()}
        self._size = page.size

    def fold(self, key: Key, ident: str, version: int) -> None:
        """Drop a claim whose object was seen at a version, or, with version 0, never will be."""
        if self._claims.get(key, {}).pop(ident, None) is not None:
            self._floors[key] = max(self._floors[key], version)
            self._size -= 1
            self.changed = True

    def full(self, key: Key) -> bool:
        """Tell whether a group or the page has as many claims as it may."""
        return self._size >= PAGE_CLAIMS_MAX or len(self._claims.get(key, ())) >= GROUP_CLAIMS_MAX

    def claimed(self, key: Key, value: Value) -> bool:
        """Tell whether there is a claim for the place of a value."""
        place = _place(value)
        claims = self._claims.get(key, {}).values()
        return any(_place(claim.value) == place for claim in claims)

    def set_floor(self, key: Key, floor: int) -> None:
        """Set the floor of a group that has none, or one that is above all that there is: the store
        was set back.
        """
        self._floors[key] = floor

    def add(self, key: Key, ident: str, claim: Claim) -> None:
        """Add a claim to a group that has a floor."""
        self._claims.setdefault(key, {})[ident] = claim
        self._size += 1
        self.changed = True

    def mark_settled(self) -> None:
        """Note that nothing is underway that the page does not know."""
        self.settled = self.changed = True

    def page(self) -> Page:
        """Return the page. Of too many groups, those go that have no claims."""
        spare = len(self._floors) - FLOORS_MAX
        idle = [key for key in self._floors if not self._claims.get(key)][: max(0, spare)]
        for key in idle:
            del self._floors[key]
        accounts = {
            key: Account(floor, self._claims.get(key, {})) for key, floor in self._floors.items()
        }
        return Page(accounts, self.settled, self._dropped + bool(idle), self.ages)


def _place(value: Value) -> Seat | int:
    """Return what no two objects may have: of a shard index the number, as its name may yet have to
    be generated.
    """
    return value.index if isinstance(value, ShardIndex) else value
