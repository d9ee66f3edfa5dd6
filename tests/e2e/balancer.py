"""A TCP load balancer on loopback which, as kube-proxy, uses a dead backend for a while."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from time import monotonic

from tests.e2e.waiting import Repeated

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
        self._runner = asyncio.Runner()
        self._ended = asyncio.Event()
        self._looking = Repeated(self._look, LOOK_SECONDS)
        self._serving = Thread(target=self._serve)

    def start(self) -> None:
        self._looking.start()
        self._serving.start()

    def stop(self) -> None:
        self._looking.stop()
        self._runner.get_loop().call_soon_threadsafe(self._ended.set)
        self._serving.join()

    def _look(self) -> None:
        for port, ready in self._backends:
            if ready():
                self._dead_since.pop(port, None)
            else:
                self._dead_since.setdefault(port, monotonic())

    def _serve(self) -> None:
        with self._runner:
            self._runner.run(self._listen())

    async def _listen(self) -> None:
        server = await asyncio.start_server(self._connected, HOST, self._port)
        await self._ended.wait()
        server.close()

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
