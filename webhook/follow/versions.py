"""The version tracker of one resource: which objects are known at which version, however the
knowledge arrives.

Knowledge comes from lists, watches and live reads, out of order. Three numbers keep them apart:

- the version of each known object: what is older is ignored;
- `reached`, the version up to which the watch has told everything: a live read that shows an object
  which is unknown, and not newer than this, shows one that was deleted since;
- the *horizon* of a scope (a worker group, or one RayCluster), the version at which a live read
  listed all of it: an event about an object which is unknown, and not newer than this, is about one
  that was gone by then. A horizon is dropped once the watch has reached it.

See docs/decisions/0004-versions-decide-what-is-news.md.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, Protocol, TypeVar

from msgspec import Struct

S = TypeVar("S", bound=Hashable)
V = TypeVar("V")
S_contra = TypeVar("S_contra", contravariant=True)
V_contra = TypeVar("V_contra", contravariant=True)


class Record(Struct, Generic[S, V], frozen=True, gc=False):
    """What an object says at a version. No value: the object is there, but means nothing to us, or
    no longer.
    """

    uid: str
    version: int
    scope: S
    value: V | None


class Target(Protocol[S_contra, V_contra]):
    """Where the current values live."""

    def put(self, uid: str, scope: S_contra, value: V_contra, version: int) -> None:
        """Set the value of an object, as it is at a version."""

    def remove(self, uid: str, scope: S_contra) -> None:
        """Forget an object."""


class VersionTracker(Generic[S, V]):
    """Decides what is news, and passes it on to a target."""

    def __init__(self, target: Target[S, V]) -> None:
        self._target = target
        self._scopes: dict[str, S] = {}
        self._versions: dict[S, dict[str, int]] = {}
        self._horizons: dict[S, int] = {}
        self.reached = 0
        self._listing = 0
        self._listed: set[str] = set()

    def __len__(self) -> int:
        """Return how many objects have a value."""
        return len(self._scopes)

    def see(self, record: Record[S, V]) -> None:
        """Take in an event of the watch, or an item of the list."""
        known = self._version(record.uid)
        if known is None:
            known = self._horizons.get(record.scope, -1) + 1
        if record.version >= known:
            self._take(record)

    def lose(self, uid: str) -> None:
        """Take in that an object is gone: the last event there ever is about a uid."""
        scope = self._scopes.pop(uid, None)
        if scope is None:
            return
        versions = self._versions[scope]
        del versions[uid]
        if not versions:
            del self._versions[scope]
        self._target.remove(uid, scope)

    def reach(self, version: int) -> None:
        """Note that the watch has told everything up to `version`."""
        if version <= self.reached:
            return
        self.reached = version
        if self._horizons:
            self._horizons = {
                scope: horizon for scope, horizon in self._horizons.items() if horizon > version
            }

    def begin(self, version: int) -> None:
        """Begin a full list, which shows the state at `version`.

        A version below what was reached means that the API server's store was set back: no version
        known here counts any more.
        """
        self._listing = version
        self._listed = set()
        if version < self.reached:
            self.reached = 0
            self._horizons = {}
            self._versions = {
                scope: dict.fromkeys(versions, 0) for scope, versions in self._versions.items()
            }

    def item(self, record: Record[S, V]) -> None:
        """Take in one item of the full list."""
        self._listed.add(record.uid)
        self.see(record)

    def keep(self, uid: str) -> None:
        """Note that the full list contains an object that cannot be read: it stays as it was."""
        self._listed.add(uid)

    def end(self) -> int:
        """End the full list, and return how many objects had gone without our being told."""
        missing = [uid for uid in self._scopes if uid not in self._listed]
        gone = [uid for uid in missing if self._versions[self._scopes[uid]][uid] <= self._listing]
        for uid in gone:
            self.lose(uid)
        self._listed = set()
        self.reach(self._listing)
        return len(gone)

    def read(self, scope: S, records: Iterable[Record[S, V]], version: int) -> None:
        """Take in a live read that shows all objects of `scope` at `version`."""
        current = {record.uid: record for record in records if record.scope == scope}
        told = max(self.reached, self._horizons.get(scope, 0))
        for uid, record in current.items():
            known = self._version(uid)
            if known is None:
                known = max(told, self._listing if uid in self._listed else 0) + 1
            if record.version >= known:
                self._take(record)
        for uid, known in [*self._versions.get(scope, {}).items()]:
            if uid not in current and known <= version:
                self.lose(uid)
        if version > told:
            self._horizons[scope] = version

    def _version(self, uid: str) -> int | None:
        scope = self._scopes.get(uid)
        return None if scope is None else self._versions[scope][uid]

    def _take(self, record: Record[S, V]) -> None:
        uid, scope, value = record.uid, record.scope, record.value
        if value is None:
            self.lose(uid)
            return
        old = self._scopes.get(uid)
        if old is not None and old != scope:
            self.lose(uid)
        self._scopes[uid] = scope
        versions = self._versions.get(scope)
        if versions is None:
            versions = self._versions[scope] = {}
        versions[uid] = record.version
        self._target.put(uid, scope, value, record.version)
