"""Internal errors during examinations, each isolated to the RayCluster that raised it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from webhook.diagnostics.object_cache import ObjectCache

UNEXPECTED: Final = "unexpected"
"""The label by which metrics count internal errors."""
INSTALLATION: Final = ""
"""Stands in for the uid in errors of the installation and of lookups shared by all RayClusters."""


class Bugs:
    """Collects internal errors. `found`: those since the last `unreported`, by RayCluster uid."""

    def __init__(self) -> None:
        self.found: dict[str, Exception] = {}
        self._examined: set[str] = set()
        self._reported: dict[str, str] = {}

    @contextmanager
    def alone(self, uid: str) -> Iterator[None]:
        """Record an exception and continue with other RayClusters."""
        self._examined.add(uid)
        try:
            yield
        # Examinations do no I/O: every exception is a bug
        except Exception as error:  # noqa: BLE001
            self.found[uid] = error

    def why(self, uid: str) -> str:
        """Return the type of the exception that a RayCluster raised; empty if none."""
        error = self.found.get(uid)
        return "" if error is None else type(error).__name__

    def unreported(self) -> dict[str, Exception]:
        """Return the errors that were not yet reported for their RayCluster, and clear `found`.

        An error is reported again only after an examination of its RayCluster without errors.
        """
        kinds = {uid: self.why(uid) for uid in self.found}
        new = {
            uid: self.found[uid] for uid, kind in kinds.items() if self._reported.get(uid) != kind
        }
        unchanged = {uid: kind for uid, kind in self._reported.items() if uid not in self._examined}
        self._reported = unchanged | kinds
        self.found, self._examined = {}, set()
        return new


def named(uid: str, object_cache: ObjectCache) -> str:
    """Return the name of a RayCluster for the log."""
    cluster = object_cache.clusters.get(uid)
    if cluster is None:
        return "the installation" if uid == INSTALLATION else f"RayCluster {uid}"
    return f"RayCluster {cluster.metadata.namespace}/{cluster.metadata.name}"
