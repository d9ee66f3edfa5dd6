"""A TCP load balancer on loopback which, as kube-proxy, uses a dead backend for a while."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic

HOST = "127.0.0.1"
LOOK_SECONDS = 0.1


class Balancer:
    """Passes connections on to backends in turns, but those not ready for `lag` seconds."""

    def __init__(
        self, port: int, backends: Sequence[tuple[int, Callable[[], bool]]], lag: float
    ) -> None:
        self._port = port
        self._backends = list(backends)
        self._lag = lag
        self._dead_since: dict[int, float] = {}
        self._next = 0
        self._loop = asyncio.new_event_loop()
        self._stopped = threading.Event()
        self._ended = asyncio.Event()
        self._threads = [
            threading.Thread(target=self._serve, daemon=True),
            threading.Thread(target=self._look, daemon=True),
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._loop.call_soon_threadsafe(self._ended.set)
        for thread in self._threads:
            thread.join(10)

    def _look(self) -> None:
        while not self._stopped.wait(LOOK_SECONDS):
            for port, ready in self._backends:
                if ready():
                    self._dead_since.pop(port, None)
                else:
                    self._dead_since.setdefault(port, monotonic())

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._listen())
        finally:
            self._loop.close()

    async def _listen(self) -> None:
        server = await asyncio.start_server(self._connected, HOST, self._port)
        await self._ended.wait()
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # until transports that were aborted have closed their sockets

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(HOST, self._choose())
        except OSError:
            writer.transport.abort()
            return
        try:
            with suppress(asyncio.CancelledError):  # it is stopped
                await asyncio.gather(_pipe(reader, far_writer), _pipe(far_reader, writer))
        finally:
            writer.transport.abort()
            far_writer.transport.abort()

    def _choose(self) -> int:
        now = monotonic()
        used = [
            port for port, _ in self._backends if self._dead_since.get(port, now) + self._lag >= now
        ]
        self._next += 1
        ports = used or [port for port, _ in self._backends]
        return ports[self._next % len(ports)]


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
