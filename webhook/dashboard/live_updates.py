"""Live updates: examines changed objects and notifies open pages, within a share of a core."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import thread_time, time
from typing import Final, TypeVar

from webhook.cache.cluster_cache import Observing
from webhook.dashboard.rendered import Board
from webhook.dashboard.state_files import Stated
from webhook.diagnostics.examiner import Examiner
from webhook.diagnostics.internal_errors import INSTALLATION, UNEXPECTED, Bugs, named

T = TypeVar("T")

_log: Final = logging.getLogger("webhook.dashboard")

PAUSE: Final = 1.0
"""The period in seconds between two examinations, and between two versions of the page within an
examination: changes in between are combined."""
SHARE: Final = 16.0
"""The pause after an examination, in seconds per second of CPU time: at any rate of changes,
examinations use at most a sixteenth of a core. The first examination is followed by `PAUSE`."""
_SLICE: Final = 0.02
"""Seconds of work before yielding to other tasks."""


Source = Observing | Stated
"""The source of objects."""


class Live:
    """Keeps the rendered RayClusters up to date. `closing` is set at shutdown.

    A RayCluster that causes a bug of ours is shown as failed, without effect on the others.
    """

    def __init__(
        self, source: Source, examiner: Examiner, board: Board, clock: Callable[[], float] = time
    ) -> None:
        self.source = source
        self.examiner = examiner
        self.board = board
        self.clock = clock
        self.closing = False
        self.examinations = 0
        """Number of examinations, for metrics."""
        self.seconds = 0.0
        """Total CPU time of examinations in seconds."""
        self.failures = {UNEXPECTED: 0}
        """Failed examinations of RayClusters by reason, for metrics."""
        self._bugs = Bugs()
        self._unexamined: dict[str, str] = {}
        self._changed = asyncio.Event()
        self._closed = asyncio.Event()

    @property
    def unread(self) -> dict[str, str]:
        """The kinds that are not or could not be read, each with the reason."""
        return self.source.unread | self._unexamined

    async def run(self) -> None:
        while True:
            first, took = not self.examinations, await self.examine_changed()
            await asyncio.sleep(PAUSE if first else max(PAUSE, took * SHARE))

    async def examine_changed(self) -> float:
        """Examine the changed objects, and return the CPU time in seconds."""
        if not self.source.synced:
            return 0.0
        now, took, begun, shown = self.clock(), 0.0, thread_time(), 0.0
        examiner, bugs = self.examiner, self._bugs
        with bugs.alone(INSTALLATION):
            examiner.examine_installation()
        why = bugs.why(INSTALLATION)
        self._unexamined = {"installation": why} if why else {}
        for uid in examiner.due(now):
            with bugs.alone(uid):
                if examiner.examine(uid, now):
                    self.board.put(uid, examiner.clusters.get(uid))
            if (why := bugs.why(uid)) and examiner.fail(uid, why, now):
                self.board.put(uid, examiner.clusters.get(uid))
            if thread_time() - begun > _SLICE:
                took += thread_time() - begun
                if took - shown > PAUSE or not shown:
                    self._publish()
                    shown = took
                await asyncio.sleep(0)
                begun = thread_time()
        self._stumbled()
        self._publish()
        took += thread_time() - begun
        self.examinations += 1
        self.seconds += took
        return took

    def _publish(self) -> None:
        if self.board.publish():
            self.notify()

    def _stumbled(self) -> None:
        """Count our own bugs in an examination, and log new ones."""
        self.failures[UNEXPECTED] += len(self._bugs.found)
        for uid, error in self._bugs.unreported().items():
            what, kind = named(uid, self.examiner.object_cache), type(error).__name__
            text = "page: %s cannot be examined: %s: %s (%s)"
            _log.error(text, what, kind, error, UNEXPECTED, exc_info=error)

    def notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def close(self) -> None:
        self.closing = True
        self._closed.set()
        self.notify()

    async def unless_closed(self, awaited: Awaitable[T]) -> T | None:
        """Return a result, or None if the process ends first."""
        task = asyncio.ensure_future(awaited)
        closed = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait((task, closed), return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            task.cancel()
            closed.cancel()

    @property
    def changed(self) -> asyncio.Event:
        """The event that is set at the next change. Get it before reading the state, or changes
        between reading and waiting are missed.
        """
        return self._changed

    @staticmethod
    async def wait(changed: asyncio.Event, seconds: float) -> None:
        """Wait for a change, at most some seconds."""
        try:
            async with asyncio.timeout(seconds):
                await changed.wait()
        except TimeoutError:
            return
