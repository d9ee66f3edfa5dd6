"""Leader elections with a clock that tests advance, over a Lease in memory."""

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from webhook.controller.leader import Holding, Leader, Lease
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import Clock

_TURNS = 30
"""Of the event loop, in which everything happens that waits for no time."""


class PassingTime:
    """A clock that stands still but while `pass_by` is awaited."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.time_source = Clock(random=lambda: 0.5, clock=lambda: self.now, sleep=self._sleep)
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    async def pass_by(self, seconds: float) -> None:
        """Let time pass, and everything happen in it that is due."""
        end = self.now + seconds
        await _settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            self.now, _, sleeper = heapq.heappop(self._sleepers)
            if not sleeper.done():
                sleeper.set_result(None)
            await _settle()
        self.now = end

    async def _sleep(self, seconds: float) -> None:
        sleeper = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._numbers), sleeper))
        await sleeper


@dataclass
class LeaseInMemory:
    """The Lease that processes share."""

    holding: Holding = field(default_factory=Holding)
    version: int = 0
    writes: int = 0
    reads: int = 0


class View(Lease):
    """A Lease through the connection of one process, which may break."""

    def __init__(self, lease: LeaseInMemory, time: PassingTime) -> None:
        self.name = "ray-webhook/controller"
        self.reachable, self.refused, self.late = True, True, False
        self._lease, self._time = lease, time

    async def read(self, seconds: float) -> tuple[Holding, str]:
        await self._check(seconds, late=self.late)
        self._lease.reads += 1
        return self._lease.holding, str(self._lease.version) if self._lease.version else ""

    async def write(self, holding: Holding, version: str, seconds: float) -> None:
        """Write the Lease, after others had the time to be faster."""
        await self._check(seconds)
        await asyncio.sleep(0)
        if version != (str(self._lease.version) if self._lease.version else ""):
            raise ApiError("conflict", "another process was faster")
        self._lease.holding = holding
        self._lease.version += 1
        self._lease.writes += 1

    async def _check(self, seconds: float, *, late: bool = False) -> None:
        assert seconds >= 0
        if not self.reachable and not self.refused:
            await self._time.time_source.sleep(seconds)
        if not self.reachable and not late:
            raise ApiError("refused", "no connection to the API server")


class Work:
    """Counts its terms, and the processes that work at the moment."""

    def __init__(self) -> None:
        self.terms = 0
        self.working = False
        self.bug: str | None = None
        """What it raises, or nothing if it returns."""

    async def run(self) -> None:
        self.terms += 1
        self.working = True
        try:
            if self.bug:
                raise RuntimeError(self.bug)
            if self.bug is not None:
                return
            await asyncio.Event().wait()
        finally:
            self.working = False


class Candidate:
    """A process that takes part."""

    def __init__(self, time: PassingTime, lease: LeaseInMemory, identity: str) -> None:
        self.identity = identity
        self.work = Work()
        self.view = View(lease, time)
        self.leader = Leader(self.view, identity, [self.work.run], time_source=time.time_source)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self.leader.run())

    async def stop(self) -> None:
        """End it as SIGTERM does: it may still do something."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def crash(self) -> None:
        """End it as SIGKILL does: nothing that it does reaches the API server any more."""
        self.view.reachable = False
        await self.stop()

    async def ended(self) -> None:
        """Wait until it has ended by itself; raises what ended it."""
        assert self._task is not None
        task, self._task = self._task, None
        await task


@asynccontextmanager
async def candidates(
    number: int,
) -> AsyncIterator[tuple[PassingTime, LeaseInMemory, list[Candidate]]]:
    """Return processes that share a Lease, none of them started; ended with the block."""
    time, lease = PassingTime(), LeaseInMemory()
    found = [Candidate(time, lease, name) for name in "abcdefg"[:number]]
    try:
        yield time, lease, found
    finally:
        for each in found:
            each.view.refused = True
            await each.stop()


async def _settle() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)
