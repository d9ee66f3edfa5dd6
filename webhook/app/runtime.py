"""The process: named runnables under one supervisor, ended by a signal or the first failure."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from webhook.httpserver.server import HttpServer
from webhook.logging.log import Log


class Runnable(Protocol):
    """Something that runs until it is cancelled."""

    async def run(self) -> None:
        """Run. Returning or raising before being cancelled ends the process."""


@dataclass(frozen=True)
class Process:
    """Everything that runs, by name; its servers, that of probes last; what a stop does first."""

    runnables: Mapping[str, Runnable]
    servers: tuple[HttpServer, ...]
    drain: Callable[[], Awaitable[None]]
    log: Log
    flush: Callable[[], None] = lambda: None
    """Writes what the log still holds back."""

    def bind(self) -> list[int]:
        """Bind all servers and return their ports. Raises OSError."""
        return [server.bind() for server in self.servers]


class RunnableEndedError(Exception):
    """A part of the service ended by itself, so the process must not go on without it."""


async def supervise(
    runnables: Mapping[str, Runnable], drain: Callable[[], Awaitable[None]]
) -> None:
    """Run all until SIGTERM or SIGINT, then await `drain` and cancel them; a second signal skips
    the drain. One after the other ends, in their order: first what answers requests, then what the
    answers need.

    Raises ExceptionGroup when a runnable fails.
    """
    loop = asyncio.get_running_loop()
    stops = asyncio.Semaphore(0)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stops.release)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_run(name, runnable), name=name)
                for name, runnable in runnables.items()
            ]
            await stops.acquire()
            await _first(drain(), stops.acquire())
            for task in tasks:
                task.cancel()
                await asyncio.wait((task,))
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def _run(name: str, runnable: Runnable) -> None:
    await runnable.run()
    msg = f"{name} ended by itself"
    raise RunnableEndedError(msg)


async def _first(*awaitables: Awaitable[object]) -> None:
    """Wait until one of them is done, and cancel the others."""
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
