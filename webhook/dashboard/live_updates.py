"""Live updates: examines changed objects and notifies open pages, within a share of a core."""

import asyncio
import logging
from collections.abc import Callable
from time import thread_time, time
from typing import Final

from webhook.api.failures import UNEXPECTED
from webhook.cache.cluster_cache import Observing
from webhook.cache.state_files import Stated
from webhook.dashboard.rendered import Board
from webhook.diagnostics.examiner import INSTALLATION, Examiner

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


class LiveRenderer:
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
        self._changed = asyncio.Event()

    @property
    def unread(self) -> dict[str, str]:
        """The kinds that are not or could not be read, each with the reason."""
        why = self.examiner.failed.get(INSTALLATION)
        return self.source.unread | ({"installation": why} if why else {})

    async def run(self) -> None:
        while True:
            first, took = not self.examinations, await self.examine_changed()
            await asyncio.sleep(PAUSE if first else max(PAUSE, took * SHARE))

    async def examine_changed(self) -> float:
        """Examine the changed objects, and return the CPU time in seconds."""
        if not self.source.synced:
            return 0.0
        took, begun, last_publish = 0.0, thread_time(), 0.0
        for _ in self.examiner.steps(self.clock(), self._put):
            if thread_time() - begun > _SLICE:
                took += thread_time() - begun
                if took - last_publish > PAUSE or not last_publish:
                    self._publish()
                    last_publish = took
                await asyncio.sleep(0)
                begun = thread_time()
        self._log_failures()
        self._publish()
        took += thread_time() - begun
        self.examinations += 1
        return took

    def _put(self, uid: str) -> None:
        self.board.put(uid, self.examiner.clusters.get(uid))

    def _publish(self) -> None:
        if self.board.publish():
            self.notify()

    def _log_failures(self) -> None:
        """Log new bugs of ours in an examination."""
        for name, error, new in self.examiner.take_failures():
            if new:
                message, kind = "page: %s cannot be examined: %s: %s (%s)", type(error).__name__
                _log.error(message, name, kind, error, UNEXPECTED, exc_info=error)

    def notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def close(self) -> None:
        self.closing = True
        self.notify()

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
