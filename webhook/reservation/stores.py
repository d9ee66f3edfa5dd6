"""Reservation tables and their stores. Each write contains the version that it replaces."""

from collections.abc import Coroutine
from itertools import count
from typing import Annotated, Any, Final, NamedTuple, Protocol, TypeVar

from msgspec import Meta, Struct

from webhook.groups.identity import MAX_HOSTS, Key

T = TypeVar("T")


class Reserved(Struct, gc=False):
    """The entries of a replica index: its name, the time of the newest entry (Unix time of the API
    server), and the holder of each host. For a shard index, the name is that of its RayCluster, and
    there is 1 host.
    """

    name: str = ""
    made: float = 0.0
    hosts: dict[Annotated[int, Meta(ge=0, lt=MAX_HOSTS)], str] = {}


Table = dict[Annotated[int, Meta(ge=0)], Reserved]
"""Entries by replica index, or by shard index. Tables are replaced, never modified."""


class TableKey(NamedTuple):
    """A block of a worker group; a shard group has only block 0."""

    group: Key
    block: int


class Stored(Struct, gc=False):
    """A stored table: uid and version identify the object and its state; they are empty for a table
    that has to be created.
    """

    table: Table
    uid: str = ""
    version: str = ""


class Conflict(Exception):  # noqa: N818 - named for what happened
    """The table does not have the version in the write, or exists already."""


class UnknownOutcome(Exception):  # noqa: N818 - named for what happened
    """A request without a response, or one that may succeed when it is retried."""


class TableStore(Protocol):
    """Tables by key. All methods raise UnknownOutcome, and NotNow for a failure that a retry does
    not end; `write` raises Conflict.
    """

    async def get(self, key: TableKey) -> Stored | None:
        """Return a table as it is now, or None."""

    async def write(
        self, key: TableKey, table: Table, cluster: str, known: Stored | None = None
    ) -> Stored:
        """Replace the known table, or create one if it has no uid. `cluster` is the name of the
        RayCluster, for readers of the table.
        """


class MemoryStore:
    """Tables in memory, for a single process."""

    def __init__(self) -> None:
        self._tables: dict[TableKey, Stored] = {}
        self._versions: Final = count(1)

    async def get(self, key: TableKey) -> Stored | None:
        return self._tables.get(key)

    async def write(
        self, key: TableKey, table: Table, cluster: str, known: Stored | None = None
    ) -> Stored:
        del cluster
        if self._tables.get(key) is not known:
            raise Conflict
        version = str(next(self._versions))
        stored = self._tables[key] = Stored(table, known.uid if known else version, version)
        return stored


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never suspends, as with a MemoryStore, without an event
    loop.
    """
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    msg = "this waits for something: run it on an event loop"
    raise RuntimeError(msg)
