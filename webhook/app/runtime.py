"""The process: named runnables under one supervisor, stopped by a signal or the first failure."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from webhook.config.configuration import Settings
from webhook.httpserver.application import Readiness, admin_application
from webhook.httpserver.server import HttpServer
from webhook.logging.log import Log, Output, follow_logs, form_of
from webhook.metrics.collector import Metrics, PacedScrapes


class Runnable(Protocol):
    """A task that runs until cancelled."""

    async def run(self) -> None:
        """Run until cancelled. Returning or raising earlier ends the process."""


@dataclass(frozen=True)
class Process:
    """The runnables by name, the servers (that of probes last), and the drain at a stop."""

    runnables: Mapping[str, Runnable]
    servers: tuple[HttpServer, ...]
    drain: Callable[[], Awaitable[None]]
    log: Log
    flush: Callable[[], None] = lambda: None
    """Writes buffered log lines."""

    def bind(self) -> list[int]:
        """Bind all servers and return their ports. Raises OSError."""
        return [server.bind() for server in self.servers]


def apply_settings(settings: Settings, output: Output, process: str) -> tuple[Log, Metrics]:
    """Return the log and the metrics of a process."""
    log = Log(output, process, form_of(settings.log.format, output))
    follow_logs(log)
    return log, Metrics(process)


def admin_server(
    settings: Settings,
    gate: Readiness,
    exposition: Callable[[], tuple[bytes, str]],
    refused: Callable[[int, str], None] = lambda _status, _reason: None,
) -> HttpServer:
    """Return the server of probes and metrics; it makes expositions at a limited rate."""
    application, listen = admin_application(gate, PacedScrapes(exposition)), settings.listen
    return HttpServer(application, listen.host, listen.admin_port, refused=refused)


class RunnableEndedError(Exception):
    """A runnable returned before it was cancelled, which ends the process."""


async def supervise(
    runnables: Mapping[str, Runnable], drain: Callable[[], Awaitable[None]]
) -> None:
    """Run all until SIGTERM or SIGINT, then await `drain` and cancel the runnables; a second signal
    skips the drain. Runnables are stopped in their order: first those that answer requests, then
    those that the answers depend on.

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
            # After SIGTERM, API servers still send reviews here until the endpoints are updated.
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
    """Wait until one awaitable is done, and cancel the others."""
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
