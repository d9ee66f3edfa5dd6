"""Stores: where the tables are, of which each write names the version that it replaces."""

from collections.abc import Coroutine
from itertools import count
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from webhook.groups.identity import GroupKey
from webhook.groups.shards import ShardKey
from webhook.reservation.allocation import Table

Key = GroupKey | ShardKey
T = TypeVar("T")


class TableKey(NamedTuple):
    """One block of a worker group; a shard group has block 0 alone."""

    group: Key
    block: int


class Stored(Struct, frozen=True, gc=False):
    """A table as it is stored: uid and version say which object at which state; without them, it is
    to be created.
    """

    table: Table
    uid: str = ""
    version: str = ""


class Conflict(Exception):  # noqa: N818 - named for what happened
    """The table is not at the version that the write names, or exists already."""


class StoreError(Exception):
    """A request failed. `final` says that it changed nothing, and that a repetition would fail too;
    otherwise the outcome is unknown.
    """

    def __init__(self, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.final = final


class Store(Protocol):
    """Tables by key. Both methods raise StoreError, and `write` raises Conflict."""

    async def get(self, key: TableKey) -> Stored | None:
        """Return a table as it is now, or None."""

    async def write(
        self, key: TableKey, table: Table, cluster: str, known: Stored | None = None
    ) -> Stored:
        """Replace the table that is known, or create one where none with a uid is. `cluster` names
        the RayCluster for those who read it.
        """


class MemoryStore:
    """Tables in the memory of the one process that reserves."""

    def __init__(self) -> None:
        self._tables: dict[TableKey, Stored] = {}
        self._versions: Final = count(1)

    async def get(self, key: TableKey) -> Stored | None:
        """Return a table as it is now, or None."""
        return self._tables.get(key)

    async def write(
        self, key: TableKey, table: Table, cluster: str, known: Stored | None = None
    ) -> Stored:
        """Replace the table that is known, or create one. Raises Conflict."""
        del cluster
        if self._tables.get(key) is not known:
            raise Conflict
        version = str(next(self._versions))
        stored = self._tables[key] = Stored(table, known.uid if known else version, version)
        return stored


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine returns that waits for nothing, as with a MemoryStore: no event loop
    is needed.
    """
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    msg = "this waits for something: run it on an event loop"
    raise RuntimeError(msg)
