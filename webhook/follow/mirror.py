"""A mirror: the objects of one resource as they were read, kept in step by a list-watch."""

from collections.abc import Callable
from typing import Generic, TypeVar

from webhook.follow.wire import Watched

T = TypeVar("T", bound=Watched)


class Mirror(Generic[T]):
    """Passes on each object that comes, changes or goes, by its uid; a full list may find some
    gone, and ends with a call of `listed`.
    """

    def __init__(
        self,
        put: Callable[[T], None],
        remove: Callable[[str], None],
        listed: Callable[[], None],
    ) -> None:
        self._put = put
        self._remove = remove
        self._told = listed
        self._known: set[str] = set()
        self._listed: set[str] = set()

    def __len__(self) -> int:
        """Return how many objects there are."""
        return len(self._known)

    def begin(self, version: int) -> None:
        """Begin a full list."""
        del version
        self._listed = set()

    def item(self, value: T) -> None:
        """Take in an item of the full list."""
        self._listed.add(value.metadata.uid or "")
        self.put(value)

    def keep(self, uid: str) -> None:
        """Note that the full list contains an object that cannot be read: it stays as it was."""
        self._listed.add(uid)

    def end(self, begun: float = 0.0) -> int:
        """End the full list: what it did not show is gone. Returns how many were."""
        del begun
        gone = self._known - self._listed
        for uid in gone:
            self.remove(uid)
        self._told()
        return len(gone)

    def put(self, value: T) -> None:
        """Take in that an object was added or changed."""
        self._known.add(value.metadata.uid or "")
        self._put(value)

    def remove(self, uid: str) -> None:
        """Take in that an object is gone."""
        if uid in self._known:
            self._known.discard(uid)
            self._remove(uid)

    def reach(self, version: int) -> None:
        """Do nothing: one watch alone tells of these objects, in order."""

    def heard(self, now: float, server_time: float) -> None:
        """Do nothing: nothing here expires."""
