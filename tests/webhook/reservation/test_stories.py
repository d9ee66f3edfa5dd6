"""No two live pods have the same identity, for any events; stories find rules that are left out."""
# ruff: noqa: SLF001 - a rule that is left out is private to its module

import asyncio
import logging
from collections.abc import Iterator
from math import inf
from typing import Any, Final
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from tests.webhook.reservation.server import EPOCH, Server
from tests.webhook.reservation.stories import scaling, story
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


def _dated_by_the_node(self: ServerTime) -> float:
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


MUTANTS: Final[dict[str, tuple[int, object, str, object]]] = {
    "a write is not conditional": (0, Server, "conditional", False),
    "the answer does not wait for the write": (0, Reservations, "_write", _does_not_wait),
    "entries are vacant after 60 s without a list": (46, LiveReader, "listed", _listed_now),
    "entries are vacant after 5 s": (5, allocation, "VACANT_SECONDS", 5.0),
    "a silent watch is believed": (170, reservations, "SILENCE_SECONDS", inf),
    "a pod without labels is unknown": (0, Membership, "holders", lambda *_: ()),
    "the first list is dated by the clock of the node": (1, ServerTime, "now", _dated_by_the_node),
    "tables are deleted by age": (86, LeaseStore, "clean_up", _sweep_by_age),
    "entries hold no place": (0, allocation, "without_vacant", lambda *_: (Reserved(), 0)),
    "pods hold no place": (16, Occupancy, "occupied", property(lambda _: Indices())),
    "an index entry is returned as it is": (106, reservations, "allocate", _index_not_renewed),
    "an index is free when its RayCluster is gone": (0, allocation.Shards, "gone", lambda *_: True),
    "a name is not taken from entries": (0, Reserved, "name", property(lambda _: "")),
}
"""Rules that exactness rests on, left out, and a story that is soon wrong then. A change of the
product may move it: then another one is wrong, which takes longer until it is entered here.
"""
SHARE = 40
"""Stories of the fixed share, of 800 steps each. `make fuzz` plays others."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Leave out the log of what goes wrong by intention."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", range(SHARE))
def test_no_story_of_the_fixed_share_ends_with_two_pods_of_one_identity(seed: int) -> None:
    assert story(seed) == ""


@pytest.mark.parametrize("seed", range(SHARE // 2))
def test_no_replica_is_opened_while_another_stays_incomplete(seed: int) -> None:
    assert scaling(seed) == ""


@pytest.mark.parametrize(("first", "owner", "name", "other"), MUTANTS.values(), ids=MUTANTS)
def test_a_rule_that_is_left_out_is_found(
    first: int, owner: object, name: str, other: object
) -> None:
    with patch.object(owner, name, other):
        assert any(story(seed) for seed in (first, *range(SEEDS)))
