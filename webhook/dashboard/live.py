"""Live: looks again at what has changed, draws it, and tells those who wait, within a share of a
core.
"""

import asyncio
from collections.abc import Callable
from time import thread_time, time
from typing import Final, Protocol

from webhook.dashboard.board import Board
from webhook.status.survey import Survey

PAUSE: Final = 1.0
"""Seconds between two looks: what changes in between is one change."""
SHARE: Final = 16.0
"""A look that took a second of a core is followed by a pause of so many: however much changes, it
costs no more than a sixteenth of a core."""
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
    """Keeps a board in step with a survey. `closing` says that nobody should wait any more."""

    def __init__(
        self,
        source: Source,
        survey: Survey,
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
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            took = await self.look()
            await asyncio.sleep(max(PAUSE, took * SHARE))

    async def look(self) -> float:
        """Look at what has changed, and return how many seconds of a core that took."""
        if not self.source.synced:
            return 0.0
        now, took, begun = self.clock(), 0.0, thread_time()
        for uid in self.survey.due(now):
            if self.survey.examine(uid, now):
                self.board.put(uid, self.survey.clusters.get(uid))
            if thread_time() - begun > _SLICE:
                took += thread_time() - begun
                await asyncio.sleep(0)
                begun = thread_time()
        if self.board.publish():
            self.tell()
        took += thread_time() - begun
        self.looks += 1
        self.seconds += took
        return took

    def tell(self) -> None:
        """Wake all that wait."""
        self._news.set()
        self._news = asyncio.Event()

    def close(self) -> None:
        """Let nobody wait any more."""
        self.closing = True
        self.tell()

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
