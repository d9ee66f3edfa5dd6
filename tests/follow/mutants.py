"""The algorithm of claims with one step left out at a time: `python -m tests.follow.mutants` tells
what caught each.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from msgspec.structs import replace

from tests.follow import agreement
from tests.follow.agreement import Model
from webhook.follow import claims
from webhook.follow.claims import Book
from webhook.follow.rayclusters import RayClusterFeed
from webhook.follow.timing import ClaimTiming
from webhook.groups import ledger
from webhook.groups.ledger import Draft, Ledger

STEPS: Final = 1500
SEEDS: Final = 60

Mutation = Callable[[], Any]


def _patched(owner: Any, name: str, new: Any) -> Mutation:  # noqa: ANN401 - any part of the product
    return lambda: patch.object(owner, name, new)


def _fold_without_floor(self: Draft, key: ledger.Key, ident: str, version: int) -> None:
    del version
    _FOLD(self, key, ident, 0)


_FOLD: Final = Draft.fold
_SAW: Final = Ledger.saw
_TAKE: Final = Book.take


def _saw_any(self: Ledger, key: ledger.Key, value: ledger.Value, version: int) -> None:
    del version
    _SAW(self, key, value, 1 << 60)


# Private to the ledger
def _take_without_holding(self: Ledger, ident: str, known: Any) -> None:  # noqa: ANN401
    self._known[ident] = known


def _take_adding_ages(self: Ledger, page: ledger.Page, version: int, now: float) -> None:
    known = self._known  # private to the ledger
    before = {ident: each.since for ident, each in known.items()}
    _LEDGER_TAKE(self, page, version, now)
    for ident in before.keys() & known.keys() & page.ages.keys():
        known[ident].since = before[ident] - page.ages[ident]


_LEDGER_TAKE: Final = Ledger.take


def _overdue_by_the_clock(self: Ledger, now: float) -> list[ledger.Key]:
    for key in _OVERDUE(self, now):
        self.give_up(key, now)
    return []


_OVERDUE: Final = Ledger.overdue


async def _unconditional(self: agreement.Store, name: str, page: ledger.Page, known: Any) -> Any:  # noqa: ANN401
    process = self._process
    return await process.ask(
        lambda: process.model.server.write(name, page, known.metadata.uid), 2.0
    )


async def _write_and_hope(self: Book, page: ledger.Page, lease: Any, tickets: Any) -> Any:  # noqa: ANN401
    written = await _WRITE(self, page, lease, [])
    if written is None:
        for ticket in tickets:
            ticket.deadline = -1.0
        return lease
    return written


_WRITE: Final = Book._write  # noqa: SLF001 - a mutant


def _always(self: Book, key: ledger.Key) -> bool:  # noqa: ARG001 - a mutant
    return True


def _floor_only_when_there(self: Book, key: ledger.Key) -> bool:
    if key not in self.ledger.page.accounts:
        return True
    return _CURRENT(self, key)


_CURRENT: Final = Book._current  # noqa: SLF001 - a mutant
_MARK: Final = Book._mark  # noqa: SLF001 - a mutant


def _mark_of_any_time(self: Book, key: ledger.Key) -> Any:  # noqa: ANN401 - private to the book
    return self._marks.get(key)


def _hears_always(self: Book, key: ledger.Key) -> bool:  # noqa: ARG001 - a mutant
    return True


def _never_again(self: Book, draft: Draft, key: object, value: object) -> bool:  # noqa: ARG001
    return False


def _forgets_how_new(self: RayClusterFeed, namespace: str, clusters: Any, version: int) -> None:  # noqa: ANN401
    latest = self._tracker.latest
    _READ_ALL(self, namespace, clusters, version)
    self._tracker.latest = max(latest, self.newest(namespace))


_READ_ALL: Final = RayClusterFeed.read_all


def _after_zero(self: agreement.Objects, key: object) -> int:  # noqa: ARG001 - a mutant
    return 0


def _timing(**changed: float) -> Mutation:
    times = replace(ClaimTiming(), **changed)
    return lambda: patch.object(claims, "ClaimTiming", lambda: times)


MUTANTS: Final[dict[str, Mutation]] = {
    "a write is not conditional on the version that is known": _patched(
        agreement.Store, "replace", _unconditional
    ),
    "the answer does not wait for the write to succeed": _patched(Book, "_write", _write_and_hope),
    "claims of other processes do not hold their seats": _patched(
        Ledger, "_add", _take_without_holding
    ),
    "a claim is folded without raising the floor": _patched(Draft, "fold", _fold_without_floor),
    "a decision does not look at the floor": _patched(Book, "_current", _always),
    "a group without a floor is not read live": _patched(Book, "_current", _floor_only_when_there),
    "a live read counts although floors were dropped since": _patched(
        Book, "_mark", _mark_of_any_time
    ),
    "a claim is confirmed by an older pod in its seat": _patched(Ledger, "saw", _saw_any),
    "a claim does not say what its claimer knew": _patched(
        agreement.Objects, "latest", _after_zero
    ),
    "a claim is given up by the clock, without a live list": _patched(
        Ledger, "overdue", _overdue_by_the_clock
    ),
    "a claim is given up while its pod may yet be stored": _patched(ledger, "ASSUMED_SECONDS", 5.0),
    "the age of a claim that another process wrote is added to one's own": _patched(
        Ledger, "take", _take_adding_ages
    ),
    "a new Lease is written at once": _timing(settle=0.0),
    "a silent watch is believed": _patched(Book, "_hears", _hears_always),
    "an index that is given again is confirmed by what is seen": _patched(
        Book, "_asked_again", _never_again
    ),
    "a live list without RayClusters does not say how new it is": _patched(
        RayClusterFeed, "read_all", _forgets_how_new
    ),
}
"""Each step that exactness rests on, as it would be without it."""


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Leave out a step, until the end of the block."""
    few = patch.object(ledger, "FLOORS_MAX", 1)  # so that floors are dropped in short stories
    with few, MUTANTS[name]():
        yield


def story(seed: int, steps: int = STEPS) -> str:
    """Return what is wrong at the end of a story; nothing when nothing is."""
    model = Model(seed, 2 + seed % 3)
    try:
        for _ in range(steps):
            model.step()
    except AssertionError as error:
        return str(error)
    finally:
        model.close()
    return ""


def catch(name: str, seeds: range = range(SEEDS)) -> tuple[int, str]:
    """Return the first seed whose story is wrong without a step, and what is wrong; -1 when there
    is none.
    """
    with mutated(name):
        for seed in seeds:
            if problem := story(seed):
                return seed, problem
    return -1, ""


def main() -> int:
    """Print what caught each mutant; 1 when one was not caught."""
    logging.disable(logging.CRITICAL)
    missed = 0
    for name in MUTANTS:
        seed, problem = catch(name)
        missed += seed < 0
        sys.stdout.write(f"{name}: {f'story {seed}: {problem}' if seed >= 0 else 'NOT CAUGHT'}\n")
        sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
