"""The store of a list-watch: which objects exist, however the knowledge arrives, and how fresh that
knowledge is.

Knowledge comes from lists, watches and live reads, out of order. Versions keep them apart:

- `reached`: the watch has delivered everything up to this version. A live read that shows an
  unknown object which is not newer shows one that was deleted since;
- *ahead*: the version of an object that a live read showed and the watch has not reached. What is
  older is ignored;
- the *horizon* of a scope (a worker group, or one RayCluster): the version at which a live read
  listed all of it. An event about an unknown object that is not newer is about one that was deleted
  by then.

Of all other objects no version is kept: the watch has reached it. Entries ahead and horizons are
dropped once the watch has reached them.

See docs/contributing/decisions/0004-versions-decide-what-is-news.md.
"""

from collections.abc import Callable, Hashable, Iterable
from math import inf
from typing import Final, Generic, Protocol, TypeVar

from webhook.kubeclient.wire import Watched, number

T = TypeVar("T", bound=Watched)
S = TypeVar("S", bound=Hashable)
V = TypeVar("V")

_READS_MAX: Final = 4096
_READ_SECONDS: Final = 5.0
"""A live read that is older is forgotten when there are many: it costs another one."""


class Objects(Protocol[V]):
    """The current objects of a kind by uid, as they are kept."""

    def get(self, uid: str) -> V | None:
        """Return an object."""

    def put(self, uid: str, value: V) -> None:
        """Set an object."""

    def remove(self, uid: str) -> None:
        """Remove an object; nothing happens when it is unknown."""

    def items(self) -> Iterable[tuple[str, V]]:
        """Return all objects with their uids."""


class Store(Generic[T, S, V]):
    """Decides what is news, and puts it into `objects`.

    `keep` returns what is kept of an object, given what was kept of it before; None where it means
    nothing, or no longer. `scope` returns the scope of what is kept, and `own` whether this
    list-watch is the one that lists it.
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
        """The time at which the newest complete list began, by the same clock."""
        self._objects = objects
        self._keep = keep
        self._scope = scope
        self._own = own
        self._ahead: dict[str, int] = {}
        self._horizons: dict[S, int] = {}
        self._read_at: dict[S, float] = {}
        self._listing = 0
        self._listed: set[str] = set()

    def __len__(self) -> int:
        """Return the number of objects."""
        return sum(self._own(value) for _, value in self._objects.items())

    def put(self, value: T) -> None:
        """Handle an object that was added or changed."""
        uid = value.metadata.uid or ""
        old = self._objects.get(uid)
        new = self._keep(value, old)
        if self._ahead or self._horizons:
            version = number(value.metadata.resource_version)
            if old is not None and version < self._ahead.get(uid, 0):
                return
            if old is None and new is not None and version <= self._horizon(new):
                return
            self._ahead.pop(uid, None)
        self._set(uid, old, new)

    def remove(self, uid: str) -> None:
        """Handle the deletion of an object, the last event there ever is about a uid."""
        self._ahead.pop(uid, None)
        self._objects.remove(uid)

    def reach(self, version: int) -> None:
        """Note that the watch has delivered everything up to `version`."""
        if version <= self.reached:
            return
        self.reached = version
        if self._ahead:
            self._ahead = {uid: at for uid, at in self._ahead.items() if at > version}
        if self._horizons:
            self._horizons = {scope: at for scope, at in self._horizons.items() if at > version}

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
            self._ahead = {}

    def item(self, value: T) -> None:
        """Handle one item of the full list."""
        self._listed.add(value.metadata.uid or "")
        self.put(value)

    def keep(self, uid: str) -> None:
        """Note that the full list contains an object that cannot be read: it stays as it was."""
        self._listed.add(uid)

    def end(self, begun: float = -inf) -> int:
        """End the full list that began at the server's time `begun`: the objects that it did not
        contain are gone. Return how many were.
        """
        gone = [
            uid
            for uid, value in self._objects.items()
            if uid not in self._listed
            and self._own(value)
            and self._ahead.get(uid, 0) <= self._listing
        ]
        for uid in gone:
            self.remove(uid)
        self._listed = set()
        self.reach(self._listing)
        self.listed_at = begun
        return len(gone)

    def read(self, scope: S, values: Iterable[T], version: int, begun: float = -inf) -> None:
        """Handle a live read that shows all objects of `scope` at `version`, and that began at the
        server's time `begun`.
        """
        shown = set()
        horizon = max(self.reached, self._horizons.get(scope, 0))
        for value in values:
            uid = value.metadata.uid or ""
            old = self._objects.get(uid)
            new = self._keep(value, old)
            if new is not None and self._scope(new) != scope:
                continue
            shown.add(uid)
            at = number(value.metadata.resource_version)
            news = self._ahead.get(uid, max(horizon, self._reached_of(uid)) + 1)
            if at < news:
                continue
            self._ahead.pop(uid, None)
            if new is not None and at > self.reached:
                self._ahead[uid] = at
            self._set(uid, old, new)
        missing = [
            uid
            for uid, value in self._objects.items()
            if self._scope(value) == scope and uid not in shown
        ]
        for uid in missing:
            if self._ahead.get(uid, self._reached_of(uid)) <= version:
                self.remove(uid)
        if version > horizon:
            self._horizons[scope] = version
        self.note_read(scope, begun)

    def note_read(self, scope: S, begun: float) -> None:
        """Note that a live read of all of a scope began at the server's time `begun`."""
        if len(self._read_at) >= _READS_MAX:
            oldest = begun - _READ_SECONDS
            self._read_at = {each: at for each, at in self._read_at.items() if at > oldest}
        self._read_at[scope] = begun

    def heard(self, server_time: float) -> None:
        """Note a contact with the API server: what had happened by then has been delivered, but for
        what is on its way.
        """
        self.contact_at = server_time

    def contact(self, scope: S) -> float:
        """Return the time of the last contact with the API server about a scope."""
        return max(self.contact_at, self._read_at.get(scope, -inf))

    def listed(self, scope: S) -> float:
        """Return the time at which the newest list began that contains all of a scope."""
        return max(self.listed_at, self._read_at.get(scope, -inf))

    def _reached_of(self, uid: str) -> int:
        """Return the version up to which everything about an object that is not ahead is known."""
        return max(self.reached, self._listing if uid in self._listed else 0)

    def _horizon(self, value: V) -> int:
        return self._horizons.get(self._scope(value), -1)

    def _set(self, uid: str, old: V | None, new: V | None) -> None:
        if new is not None:
            self._objects.put(uid, new)
        elif old is not None:
            self._objects.remove(uid)
