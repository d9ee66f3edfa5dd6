"""Bugs of ours that looks at RayClusters bring out: each keeps only the RayCluster that did."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from webhook.diagnostics.object_cache import ObjectCache

UNEXPECTED: Final = "unexpected"
"""The reason that a failure which is a bug of ours is counted by."""
INSTALLATION: Final = ""
"""In place of a uid, the installation, and what all RayClusters are compared by."""


class Bugs:
    """Notes the bugs that looks bring out. `found` are those since the last `news`, by the uid of
    the RayCluster.
    """

    def __init__(self) -> None:
        self.found: dict[str, Exception] = {}
        self._looked: set[str] = set()
        self._told: dict[str, str] = {}

    @contextmanager
    def alone(self, uid: str) -> Iterator[None]:
        """Note a bug, and go on: other RayClusters are looked at all the same."""
        self._looked.add(uid)
        try:
            yield
        # Whatever it is: there is no failure here that is not a bug of ours
        except Exception as error:  # noqa: BLE001
            self.found[uid] = error

    def why(self, uid: str) -> str:
        """Return of what type the bug is that a RayCluster brought out; nothing without one."""
        error = self.found.get(uid)
        return "" if error is None else type(error).__name__

    def news(self) -> dict[str, Exception]:
        """Return what was found that was not told of the same RayCluster before, and forget what
        was found: a bug is told once, until its RayCluster was looked at without one.
        """
        kinds = {uid: self.why(uid) for uid in self.found}
        new = {uid: self.found[uid] for uid, kind in kinds.items() if self._told.get(uid) != kind}
        unchanged = {uid: kind for uid, kind in self._told.items() if uid not in self._looked}
        self._told = unchanged | kinds
        self.found, self._looked = {}, set()
        return new


def named(uid: str, world: ObjectCache) -> str:
    """Return how a log names a RayCluster."""
    cluster = world.clusters.get(uid)
    if cluster is None:
        return "the installation" if uid == INSTALLATION else f"RayCluster {uid}"
    return f"RayCluster {cluster.metadata.namespace}/{cluster.metadata.name}"
