"""Reservations with one rule left out: `python -m tests.webhook.reservation.mutants [STORIES]`
prints which check detected each.
"""
# ruff: noqa: SLF001 - a rule that is left out is private to its module

import asyncio
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import inf
from typing import Any, Final
from unittest.mock import patch

from msgspec.structs import replace

from tests.webhook.reservation.server import EPOCH, Server
from tests.webhook.reservation.stories import story
from webhook.cache.live import LiveReader, Stores
from webhook.groups.identity_index import Membership, Occupancy
from webhook.groups.indices import Indices
from webhook.groups.naming import replica_name
from webhook.kubeclient import reservation_leases
from webhook.kubeclient.reservation_leases import LeaseStore
from webhook.kubeclient.timeouts import ServerTime
from webhook.reservation import allocation, reservations
from webhook.reservation.allocation import AnyRequest, Choice, Tables
from webhook.reservation.reservations import Reservations
from webhook.reservation.stores import Reserved

SEEDS: Final = 300

Mutation = Callable[[], Any]


def _patched(owner: Any, name: str, new: Any) -> Mutation:  # noqa: ANN401 - any part of the product
    return lambda: patch.object(owner, name, new)


async def _does_not_wait(self: Reservations, *arguments: Any) -> bool:  # noqa: ANN401
    writing = _WRITE(self, *arguments)
    _left.append(asyncio.get_running_loop().create_task(writing))
    return True


def _listed_now(self: LiveReader, key: Any) -> float:  # noqa: ANN401
    del key
    return self.now()


async def _read_dated_late(self: LiveReader, name: str, key: Any, stores: Stores) -> None:  # noqa: ANN401
    await _PODS(self, name, key, stores)
    stores.pods._read_at[key] = self.now()


def _before_the_first_response(self: ServerTime) -> float:
    found = _NOW(self)
    return EPOCH + self._clock() % 1000.0 + 100.0 if found == -inf else found


async def _sweep_by_age(self: LeaseStore) -> None:
    now = self._api.server_time.now()
    async for page in self._pages("admission.ray.io/reservations"):
        for meta in page:
            content = reservation_leases._content(meta)
            if content and all(entry.made + 60 <= now for entry in content.entries.values()):
                await self._delete(meta)


def _lease_without_uid(self: LeaseStore, name: str, meta: Any) -> Any:  # noqa: ANN401
    return _LEASE(self, name, {key: value for key, value in meta.items() if key != "uid"})


_left: list[Any] = []
_WRITE: Final = Reservations._write
_PODS: Final = LiveReader._pods
_NOW: Final = ServerTime.now
_LEASE: Final = LeaseStore._lease
_OWN: Final = allocation.own_entry
_ALLOCATE: Final = allocation.allocate


def _index_not_renewed(tables: Tables, objects: Any, request: AnyRequest, now: float) -> Choice:  # noqa: ANN401
    choice = _ALLOCATE(tables, objects, request, now)
    own = _OWN(tables.table(0), request, 0)
    if own and request.index and isinstance(choice.found, allocation.Allocation):
        return replace(choice, found=replace(choice.found, table=None))
    return choice


MUTANTS: Final[dict[str, Mutation]] = {
    "a write is not conditional": _patched(Server, "conditional", new=False),
    "the answer does not wait for the write": _patched(Reservations, "_write", _does_not_wait),
    "entries are vacant after 60 s without a list": _patched(LiveReader, "listed", _listed_now),
    "entries are vacant after 5 s": _patched(allocation, "VACANT_SECONDS", 5.0),
    "an old entry is returned as it is": _patched(allocation, "RENEW_SECONDS", inf),
    "the time after the write does not count": _patched(reservations, "RENEW_SECONDS", inf),
    "a silent watch is believed": _patched(reservations, "SILENCE_SECONDS", inf),
    "a new name does not depend on the block": _patched(
        allocation,
        "replica_name",
        lambda group, uid, attempt=0: replica_name(group, uid.partition("/")[0], attempt),
    ),
    "a pod without labels is unknown": _patched(Membership, "holders", lambda *_: ()),
    "the first list is dated by the clock of the node": _patched(
        ServerTime, "now", _before_the_first_response
    ),
    "a list is dated when it ended": _patched(LiveReader, "_pods", _read_dated_late),
    "tables are deleted by age": _patched(LeaseStore, "clean_up", _sweep_by_age),
    "a write names no uid": _patched(LeaseStore, "_lease", _lease_without_uid),
    "entries hold no place": _patched(allocation, "without_vacant", lambda *_: (Reserved(), 0)),
    "pods hold no place": _patched(Occupancy, "occupied", property(lambda _: Indices())),
    "an index entry is returned as it is": _patched(reservations, "allocate", _index_not_renewed),
    "an index is free when its RayCluster is gone": _patched(
        allocation.Shards, "gone", lambda *_: True
    ),
    "another pod in the place of an entry is ignored": _patched(
        allocation.Pods, "other", lambda *_: ""
    ),
    "a name is not taken from entries": _patched(Reserved, "name", property(lambda _: "")),
}
"""Each rule that exactness rests on, as it would be without it."""

CAUGHT_BY: Final = {
    "a write is not conditional": 0, "the answer does not wait for the write": 0,
    "entries are vacant after 60 s without a list": 46,
    "entries are vacant after 5 s": 5, "a silent watch is believed": 170,
    "a pod without labels is unknown": 0,
    "the first list is dated by the clock of the node": 1,
    "tables are deleted by age": 86, "entries hold no place": 0, "pods hold no place": 16,
    "an index entry is returned as it is": 106,
    "an index is free when its RayCluster is gone": 0,
    "a name is not taken from entries": 0,
}  # fmt: skip
"""A story that is soon wrong without a rule. A change of the product may move it: then another must
be wrong, which takes longer until it is entered here.
"""


@contextmanager
def mutated(name: str) -> Iterator[None]:
    """Leave out a rule, until the end of the block."""
    with MUTANTS[name]():
        yield


def catch(name: str, seeds: Iterable[int] = range(SEEDS)) -> tuple[int, str]:
    """Return the first seed whose story is wrong without a rule, or -1, and what is wrong."""
    with mutated(name):
        for seed in seeds:
            if problem := story(seed):
                return seed, problem
    return -1, ""


def main() -> int:
    """Print what caught each mutant; 1 when one was not caught."""
    logging.disable(logging.CRITICAL)
    missed = 0
    stories = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS
    for name in MUTANTS:
        seed, problem = catch(name, range(stories))
        missed += seed < 0
        sys.stdout.write(f"{name}: {f'story {seed}: {problem}' if seed >= 0 else 'NOT CAUGHT'}\n")
        sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
