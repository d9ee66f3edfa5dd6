"""Leader election: of all processes that share a Lease, one works at a time. The timings are those
of client-go.

https://pkg.go.dev/k8s.io/client-go/tools/leaderelection
"""

import asyncio
import logging
from collections.abc import Sequence
from typing import Final, Protocol

from msgspec import Struct

from webhook.controller.lease import Holding, timestamp
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import Clock

_log: Final = logging.getLogger("webhook.controller")
_REQUEST_SECONDS: Final = 5.0
_RELEASE_SECONDS: Final = 1.0
"""Deadline of a request that gives the Lease back: the process is ending."""


class LeaderTiming(Struct, frozen=True):
    """Times in seconds."""

    lease: float = 15.0
    """Others may take the Lease over when they have seen no renewal for this long."""
    renew: float = 10.0
    """Work ends when no renewal has succeeded for this long: well before another
    process can begin.
    """
    retry: float = 2.0
    """From one renewal to the next."""
    look: float = 0.5
    """From one look of a process that stands by to the next. A Lease that was given back is taken
    within about this.
    """


class Work(Protocol):
    """What only the leader does."""

    async def run(self) -> None:
        """Work until cancelled; it may be run again."""


class Works:
    """Several at once: what one raises ends all."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._works = works

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for work in self._works:
                tasks.create_task(work.run())


class Lock(Protocol):
    """A Lease. Reading and writing raise ApiError, of reason `conflict` when another process was
    faster.
    """

    @property
    def name(self) -> str:
        """Namespace and name."""

    async def read(self, seconds: float) -> tuple[Holding, str]:
        """Return who holds it and its version, which is empty when there is none yet."""

    async def write(self, holding: Holding, version: str, seconds: float) -> None:
        """Write who holds it if it is still of this version, or create it."""


class Leader:
    """Runs `work` while this process holds the Lease, and gives the Lease back when cancelled.

    Time is measured by each process on its own clock, from when it saw the Lease change: clocks
    need not agree.
    """

    def __init__(
        self,
        lease: Lock,
        identity: str,
        work: Work,
        timing: LeaderTiming | None = None,
        world: Clock | None = None,
    ) -> None:
        self.leading = False
        self.answered = False
        """Whether the leader is known from the API server: a condition of readiness."""
        self._lease = lease
        self._identity = identity
        self._work = work
        self._timing = timing or LeaderTiming()
        self._world = world or Clock()
        self._seen = Holding()
        self._seen_at = 0.0
        self._other = ""
        self._trouble = ""

    async def run(self) -> None:
        """Take part until cancelled. Raises what the work raises."""
        try:
            while True:
                while not await self._try():
                    await self._world.sleep(self._timing.look * (1 + 0.2 * self._world.random()))
                await self._lead()
        finally:
            await self._release()

    async def _lead(self) -> None:
        """Work until the Lease is lost."""
        _log.info("leader: this process leads, by Lease %s", self._lease.name)
        self.leading = True
        keeping = asyncio.create_task(self._keep())
        working = asyncio.create_task(self._work.run())
        try:
            await asyncio.wait({keeping, working}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
        finally:
            keeping.cancel()
            working.cancel()
            await asyncio.gather(keeping, working, return_exceptions=True)
            self.leading = False

    async def _keep(self) -> None:
        """Renew the Lease again and again; return when another process has it, or when it cannot be
        renewed in time.
        """
        renewed = self._world.clock()
        while (left := renewed + self._timing.renew - self._world.clock()) > 0:
            await self._world.sleep(min(self._timing.retry, left))
            begun = self._world.clock()
            if await self._try(max(renewed + self._timing.renew - begun, 0.0)):
                renewed = begun
            elif self._other:
                _log.warning(
                    "leader: %s has taken Lease %s over; this process stands by",
                    self._other,
                    self._lease.name,
                )
                return
        _log.warning(
            "leader: Lease %s could not be renewed for %g s; this process stops",
            self._lease.name,
            self._timing.renew,
        )

    async def _try(self, seconds: float = _REQUEST_SECONDS) -> bool:
        """Take or renew the Lease, and return whether this process holds it now."""
        seconds = min(seconds, _REQUEST_SECONDS)
        try:
            holding, version = await self._lease.read(seconds)
            self._see(holding)
            if self._other:
                return False
            await self._lease.write(self._own(holding), version, seconds)
        except ApiError as error:
            self._warn_once(error)
            return False
        self._trouble = ""
        return True

    def _see(self, holding: Holding) -> None:
        """Note what the Lease says, and who else leads by it."""
        self.answered = True
        now = self._world.clock()
        if holding != self._seen:
            self._seen, self._seen_at = holding, now
        holder = holding.holder_identity or ""
        valid = now < self._seen_at + float(holding.lease_duration_seconds or 0)
        other = holder if valid and holder != self._identity else ""
        if other and other != self._other and not self.leading:
            _log.info(
                "leader: %s leads by Lease %s; this process stands by", other, self._lease.name
            )
        self._other = other

    def _own(self, holding: Holding) -> Holding:
        """Return the Lease as this process holds it, after it was held as given."""
        now = timestamp()
        mine = holding.holder_identity == self._identity
        return Holding(
            self._identity,
            int(self._timing.lease),
            holding.acquire_time if mine else now,
            now,
            (holding.lease_transitions or 0) + (not mine and bool(holding.acquire_time)),
        )

    async def _release(self) -> None:
        """Give the Lease back if this process still has it; where that fails, others wait until its
        time is up.
        """
        try:
            holding, version = await self._lease.read(_RELEASE_SECONDS)
            if holding.holder_identity != self._identity:
                return
            now = timestamp()
            free = Holding("", 1, now, now, holding.lease_transitions)
            await self._lease.write(free, version, _RELEASE_SECONDS)
        except ApiError as error:
            _log.warning(
                "leader: Lease %s could not be given back: %s (%s)",
                self._lease.name,
                error,
                error.reason,
            )
        else:
            _log.info("leader: Lease %s was given back", self._lease.name)

    def _warn_once(self, error: ApiError) -> None:
        """Say once why the Lease cannot be had; that another process was faster is no trouble."""
        if error.reason not in {"conflict", self._trouble}:
            self._trouble = error.reason
            _log.warning(
                "leader: Lease %s: %s (%s); trying again", self._lease.name, error, error.reason
            )
