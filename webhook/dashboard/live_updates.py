"""Live: looks again at what has changed, draws it, and tells those who wait, within a share of a
core.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from time import thread_time, time
from typing import Final, Protocol, TypeVar

from webhook.dashboard.rendered import Board
from webhook.diagnostics.examiner import Examiner
from webhook.diagnostics.internal_errors import (
    INSTALLATION,
    UNEXPECTED,
    Bugs,
    named,
)

T = TypeVar("T")

_log: Final = logging.getLogger("webhook.dashboard")

PAUSE: Final = 1.0
"""Seconds between two examinations, and within one between two versions of the page: what changes
in between is one change."""
SHARE: Final = 16.0
"""An examination that took a second of a core is followed by a pause of so many: however much
changes, it costs no more than a sixteenth of a core. The first one is followed by no such pause."""
_SLICE: Final = 0.02
"""Seconds of work after which others get their turn."""


class Source(Protocol):
    """Where the world comes from. `unread` says what is not looked at, `trouble` why nothing new
    comes, by a failure's reason.
    """

    @property
    def synced(self) -> bool:
        """Whether RayClusters and pods are known."""

    @property
    def unread(self) -> dict[str, str]:
        """What is not looked at, and why."""

    @property
    def trouble(self) -> str:
        """Why nothing new comes; nothing when all is well."""


class Live:
    """Keeps a board in step with a survey. `closing` says that no one should wait any more.

    A RayCluster that brings out a bug of ours is shown as one that cannot be; all others are shown
    as they are.
    """

    def __init__(
        self,
        source: Source,
        survey: Examiner,
        board: Board,
        clock: Callable[[], float] = time,
    ) -> None:
        self.source = source
        self.survey = survey
        self.board = board
        self.clock = clock
        self.closing = False
        self.looks = 0
        """How often it looked, for metrics."""
        self.seconds = 0.0
        """Seconds of a core that took."""
        self.failures = {UNEXPECTED: 0}
        """How often a RayCluster could not be looked at, by reason, for metrics."""
        self._bugs = Bugs()
        self._unexamined: dict[str, str] = {}
        self._news = asyncio.Event()
        self._closed = asyncio.Event()

    @property
    def unread(self) -> dict[str, str]:
        """What is not looked at, or could not be, and why."""
        return self.source.unread | self._unexamined

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            first, took = not self.looks, await self.look()
            await asyncio.sleep(PAUSE if first else max(PAUSE, took * SHARE))

    async def look(self) -> float:
        """Look at what has changed, and return how many seconds of a core that took."""
        if not self.source.synced:
            return 0.0
        now, took, begun, shown = self.clock(), 0.0, thread_time(), 0.0
        survey, bugs = self.survey, self._bugs
        with bugs.alone(INSTALLATION):
            survey.examine_installation(now)
        why = bugs.why(INSTALLATION)
        self._unexamined = {"installation": why} if why else {}
        for uid in survey.due(now):
            with bugs.alone(uid):
                if survey.examine(uid, now):
                    self.board.put(uid, survey.clusters.get(uid))
            if (why := bugs.why(uid)) and survey.fail(uid, why, now):
                self.board.put(uid, survey.clusters.get(uid))
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
        self.looks += 1
        self.seconds += took
        return took

    def _publish(self) -> None:
        if self.board.publish():
            self.tell()

    def _stumbled(self) -> None:
        """Count the bugs of ours that a look brought out, and log those that are new."""
        self.failures[UNEXPECTED] += len(self._bugs.found)
        for uid, error in self._bugs.news().items():
            what, kind = named(uid, self.survey.world), type(error).__name__
            text = "page: %s cannot be looked at: %s: %s (%s)"
            _log.error(text, what, kind, error, UNEXPECTED, exc_info=error)

    def tell(self) -> None:
        """Wake all that wait."""
        self._news.set()
        self._news = asyncio.Event()

    def close(self) -> None:
        """Let no one wait any more."""
        self.closing = True
        self._closed.set()
        self.tell()

    async def unless_closed(self, awaited: Awaitable[T]) -> T | None:
        """Return a result, or None when the process ends before there is one."""
        task = asyncio.ensure_future(awaited)
        closed = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait((task, closed), return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            task.cancel()
            closed.cancel()

    @property
    def news(self) -> asyncio.Event:
        """What is set when there is something newer than now. Take it before the board is read:
        what comes between the reading and the waiting would not be noticed.
        """
        return self._news

    @staticmethod
    async def wait(news: asyncio.Event, seconds: float) -> None:
        """Wait for news, or for some seconds."""
        try:
            async with asyncio.timeout(seconds):
                await news.wait()
        except TimeoutError:
            return
