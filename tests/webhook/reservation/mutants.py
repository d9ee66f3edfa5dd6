"""Reservations with one rule left out."""
# ruff: noqa: SLF001 - a rule that is left out is private to its module

import asyncio
from math import inf
from typing import Any, Final
from unittest.mock import patch

from msgspec.structs import replace

from tests.webhook.reservation.server import EPOCH, Server
from tests.webhook.reservation.stories import story
from webhook.cache.live import LiveReader
from webhook.groups.identity_index import Membership, Occupancy
from webhook.groups.indices import Indices
from webhook.kubeclient import reservation_leases
from webhook.kubeclient.reservation_leases import LeaseStore
from webhook.kubeclient.timeouts import ServerTime
from webhook.reservation import allocation, reservations
from webhook.reservation.allocation import AnyRequest, Choice, Tables
from webhook.reservation.reservations import Reservations
from webhook.reservation.stores import Reserved

SEEDS: Final = 300


async def _does_not_wait(self: Reservations, *arguments: Any) -> bool:  # noqa: ANN401
    writing = _WRITE(self, *arguments)
    _left.append(asyncio.get_running_loop().create_task(writing))
    return True


def _listed_now(self: LiveReader, key: Any) -> float:  # noqa: ANN401
    del key
    return self.now()


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


_left: list[Any] = []
_WRITE: Final = Reservations._write
_NOW: Final = ServerTime.now
_OWN: Final = allocation.own_entry
_ALLOCATE: Final = allocation.allocate


def _index_not_renewed(tables: Tables, objects: Any, request: AnyRequest, now: float) -> Choice:  # noqa: ANN401
    choice = _ALLOCATE(tables, objects, request, now)
    own = _OWN(tables.table(0), request, 0)
    if own and request.index and isinstance(choice.found, allocation.Allocation):
        return replace(choice, found=replace(choice.found, table=None))
    return choice


MUTANTS: Final[dict[str, tuple[int, Any]]] = {
    "a write is not conditional": (0, patch.object(Server, "conditional", new=False)),
    "the answer does not wait for the write": (
        0,
        patch.object(Reservations, "_write", _does_not_wait),
    ),
    "entries are vacant after 60 s without a list": (
        46,
        patch.object(LiveReader, "listed", _listed_now),
    ),
    "entries are vacant after 5 s": (5, patch.object(allocation, "VACANT_SECONDS", 5.0)),
    "a silent watch is believed": (170, patch.object(reservations, "SILENCE_SECONDS", inf)),
    "a pod without labels is unknown": (0, patch.object(Membership, "holders", lambda *_: ())),
    "the first list is dated by the clock of the node": (
        1,
        patch.object(ServerTime, "now", _before_the_first_response),
    ),
    "tables are deleted by age": (86, patch.object(LeaseStore, "clean_up", _sweep_by_age)),
    "entries hold no place": (
        0,
        patch.object(allocation, "without_vacant", lambda *_: (Reserved(), 0)),
    ),
    "pods hold no place": (16, patch.object(Occupancy, "occupied", property(lambda _: Indices()))),
    "an index entry is returned as it is": (
        106,
        patch.object(reservations, "allocate", _index_not_renewed),
    ),
    "an index is free when its RayCluster is gone": (
        0,
        patch.object(allocation.Shards, "gone", lambda *_: True),
    ),
    "a name is not taken from entries": (0, patch.object(Reserved, "name", property(lambda _: ""))),
}
"""Rules that exactness rests on, left out, and a story that is soon wrong then. A change of the
product may move it: then another one is wrong, which takes longer until it is entered here.
"""


def find_story(name: str) -> int:
    """Return the seed of a story that is wrong without a rule. Raises StopIteration if none is."""
    first, mutation = MUTANTS[name]
    seeds: list[int] = [first, *range(SEEDS)]
    with mutation:
        return next(seed for seed in seeds if story(seed))
