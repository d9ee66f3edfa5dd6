"""The store of a list-watch: which objects exist, from any source, and how current that state is.

Lists, watches and live reads arrive out of order, and are ordered by version:

- `reached`: the watch has delivered all events up to this version. An unknown object in a live
  read that is not newer has been deleted since;
- *ahead*: the version of an object from a live read which the watch has not reached. Older
  versions are ignored;
- the *horizon* of a scope (a worker group, or a RayCluster): the version at which a live read
  listed all of it. An event about an unknown object that is not newer is about an object that was
  deleted by then.

For all other objects no version is stored: the watch has reached it. Entries ahead and horizons are
dropped once the watch has reached them; without the lowest of many horizons, an object that was
deleted is stored until the watch delivers its deletion.

See docs/contributing/decisions/0003-list-and-watch.md.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf
from typing import Final, Generic, Protocol, TypeVar

from webhook.kubeclient.wire import Watched

T = TypeVar("T", bound=Watched)
S = TypeVar("S", bound=Hashable)
V = TypeVar("V")

_DIGITS: Final = 20
"""Of a resourceVersion: etcd's revisions have 64 bits."""
_READS_MAX: Final = 4096
"""Scopes of live reads; users name RayClusters that do not exist."""


class Objects(Protocol[V]):
    """The stored values of the current objects of a kind, by uid."""

    def get(self, uid: str) -> V | None:
        """Return an object."""

    def put(self, uid: str, value: V) -> None:
        """Set an object."""

    def remove(self, uid: str) -> None:
        """Remove an object, if it is known."""

    def items(self) -> Iterable[tuple[str, V]]:
        """Return all objects with their uids."""


class _Versions(Generic[S]):
    """Versions that the watch has not reached, by uid or scope. Those that it has reached are
    dropped in the order of versions: a watch may be thousands of events behind as many live reads.
    Of more than `number_max`, the lowest is dropped.
    """

    def __init__(self, number_max: float = inf) -> None:
        self._number_max = number_max
        self._versions: dict[S, int] = {}
        self._order: list[tuple[int, int, S]] = []
        self._number = count()

    def __bool__(self) -> bool:
        return bool(self._versions)

    def get(self, key: S, default: int) -> int:
        return self._versions.get(key, default)

    def set(self, key: S, version: int) -> None:
        self._versions[key] = version
        heappush(self._order, (version, next(self._number), key))
        while len(self._versions) > self._number_max:
            self._drop_lowest()
        # Without events, live reads replace the same versions for as long as the watch is silent.
        if len(self._order) > 2 * len(self._versions):
            self._order = [(at, next(self._number), key) for key, at in self._versions.items()]
            heapify(self._order)

    def remove(self, key: S) -> None:
        self._versions.pop(key, None)
        if not self._versions:
            self._order = []

    def drop(self, version: int) -> None:
        while self._order and self._order[0][0] <= version:
            self._drop_lowest()

    def _drop_lowest(self) -> None:
        """Drop the lowest version, or one that was replaced."""
        at, _, key = heappop(self._order)
        if self._versions.get(key) == at:
            self.remove(key)


class Store(Generic[T, S, V]):
    """Decides which changes are newer than the known state, and applies them to `objects`.

    `keep` returns the value to store for an object, given its previous value; None if the object is
    irrelevant, or no longer relevant. `scope` returns the scope of a value, and `own` whether this
    list-watch lists it.
    """

    def __init__(
        self,
        objects: Objects[V],
        keep: Callable[[T, V | None], V | None],
        scope: Callable[[V], S],
        own: Callable[[V], bool] = lambda _: True,
    ) -> None:
        self.reached = 0
        self.contact_at = -inf
        """The time of the last contact with the API server, by the clock of the API server."""
        self.listed_at = -inf
        """The start time of the newest complete list, by the same clock."""
        self._objects = objects
        self._keep = keep
        self._scope = scope
        self._own = own
        self._ahead: _Versions[str] = _Versions()
        self._horizons: _Versions[S] = _Versions(_READS_MAX)
        self._read_at: dict[S, float] = {}
        self._listing = 0
        self._listed: set[str] = set()

    def __len__(self) -> int:
        return sum(self._own(value) for _, value in self._objects.items())

    def put(self, value: T) -> None:
        """Handle an object that was added or changed."""
        uid = value.metadata.uid or ""
        old = self._objects.get(uid)
        new = self._keep(value, old)
        # Without live reads, events are in order, and their versions need not be parsed.
        if self._ahead or self._horizons:
            version = number(value.metadata.resource_version)
            # A live read was faster than the watch, whose older event must not undo it.
            if old is not None and version < self._ahead.get(uid, 0):
                return
            # A live read at a later version did not contain it: the event is from before its
            # deletion.
            if old is None and new is not None and version <= self._horizon(new):
                return
            self._ahead.remove(uid)
        self._set(uid, old, new)

    def remove(self, uid: str) -> None:
        """Handle the deletion of an object, the last event of its uid."""
        self._ahead.remove(uid)
        self._objects.remove(uid)

    def reach(self, version: int) -> None:
        """Record that the watch has delivered all events up to `version`."""
        if version > self.reached:
            self.reached = version
            self._ahead.drop(version)
            self._horizons.drop(version)

    def begin(self, version: int) -> None:
        """Begin a full list, which contains the state at `version`.

        A version below `reached` means that the API server's store was restored from a backup: all
        known versions are invalid.
        """
        self._listing = version
        self._listed = set()
        if version < self.reached:
            self.reached = 0
            self._ahead, self._horizons = _Versions(), _Versions(_READS_MAX)

    def item(self, value: T) -> None:
        self._listed.add(value.metadata.uid or "")
        self.put(value)

    def keep(self, uid: str) -> None:
        """Handle an item of the full list that cannot be decoded: its previous state is kept."""
        self._listed.add(uid)

    def end(self, begun: float = -inf) -> int:
        """End the full list that began at the server's time `begun`: remove the objects that it did
        not contain. Return their number.
        """
        gone = [
            uid
            for uid, value in self._objects.items()
            if uid not in self._listed
            and self._own(value)
            # The list may be older than a live read that contained the object.
            and self._ahead.get(uid, 0) <= self._listing
        ]
        for uid in gone:
            self.remove(uid)
        self._listed = set()
        # Only now: until its last page, the list does not show what was deleted.
        self.reach(self._listing)
        self.listed_at = begun
        return len(gone)

    def read(
        self, scope: S, values: Iterable[T], version: int, begun: float = -inf
    ) -> Iterator[None]:
        """Handle a live read of all objects of `scope` at `version`, which began at the server's
        time `begun`. Yield after each object, and each removal: other changes may be handled before
        the next one.
        """
        yield from self._compare(scope, values, version)
        self.note_read(scope, begun)

    def _compare(self, scope: S, values: Iterable[T], version: int) -> Iterator[None]:
        listed_uids = set()
        for value in values:
            uid = value.metadata.uid or ""
            old = self._objects.get(uid)
            new = self._keep(value, old)
            # The selector has the name of the RayCluster, which a deleted one may have had, too.
            if new is None or self._scope(new) == scope:
                listed_uids.add(uid)
                self._compare_object(scope, value, old, new)
            yield
        # The watch may still deliver older events about objects that this read did not contain.
        if version > max(self.reached, self._horizons.get(scope, 0)):
            self._horizons.set(scope, version)
        for uid in [uid for uid in self._uids_in(scope) if uid not in listed_uids]:
            # A slow read must not remove an object that the watch delivered after it.
            if self._ahead.get(uid, self._find_reached_version(uid)) <= version:
                self.remove(uid)
            yield

    def _compare_object(self, scope: S, value: T, old: V | None, new: V | None) -> None:
        uid, at = value.metadata.uid or "", number(value.metadata.resource_version)
        # An unknown object that is not newer than the watch was deleted: the API server may have
        # answered this read before the deletion that the watch has delivered.
        reached = max(self._find_reached_version(uid), self._horizons.get(scope, 0))
        if at < self._ahead.get(uid, reached + 1):
            return
        self._ahead.remove(uid)
        if new is not None and at > self.reached:
            self._ahead.set(uid, at)
        self._set(uid, old, new)

    def note_read(self, scope: S, begun: float) -> None:
        """Record a live read of a whole scope, which began at the server's time `begun`. The oldest
        of many is dropped, at the cost of another read.
        """
        self._read_at.pop(scope, None)
        self._read_at[scope] = begun
        if len(self._read_at) > _READS_MAX:
            del self._read_at[next(iter(self._read_at))]

    def contacted(self, server_time: float) -> None:
        """Record a contact with the API server: the watch is current as of `server_time`, except
        for events in transit.
        """
        self.contact_at = server_time

    def contact(self, scope: S) -> float:
        """Return the time of the last contact with the API server about a scope."""
        return max(self.contact_at, self._read_at.get(scope, -inf))

    def listed(self, scope: S) -> float:
        """Return the start time of the newest list that contains a whole scope."""
        return max(self.listed_at, self._read_at.get(scope, -inf))

    def _uids_in(self, scope: S) -> Iterable[str]:
        """Return the uids of all objects of a scope."""
        return [uid for uid, value in self._objects.items() if self._scope(value) == scope]

    def _find_reached_version(self, uid: str) -> int:
        """Return the version up to which an object that is not ahead is known."""
        return max(self.reached, self._listing if uid in self._listed else 0)

    def _horizon(self, value: V) -> int:
        return self._horizons.get(self._scope(value), -1)

    def _set(self, uid: str, old: V | None, new: V | None) -> None:
        if new is not None:
            self._objects.put(uid, new)
        elif old is not None:
            self._objects.remove(uid)


def number(version: str) -> int:
    """Return a resourceVersion as a number, 0 if it is invalid, such as one with more digits than
    64 bits have.

    Versions of a resource are ordered:
    https://github.com/kubernetes/apimachinery/blob/master/pkg/util/resourceversion
    """
    return (
        int(version) if version.isascii() and version.isdigit() and len(version) <= _DIGITS else 0
    )
