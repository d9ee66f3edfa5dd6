"""A load generator: HTTPS connections that post reviews, in a closed loop or at a rate."""

import asyncio
import resource
import ssl
from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import Any, NamedTuple

import uvloop

from tests.harness.server import Running


class Result(NamedTuple):
    """Sorted latencies in microseconds; seconds in all; the share of its core that was used."""

    latencies: list[float]
    seconds: float
    busy: float

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        """Return the latency in microseconds below which `share` of the answers are."""
        return self.latencies[min(int(len(self.latencies) * share), len(self.latencies) - 1)]


class Connection(asyncio.Protocol):
    """One connection: a request at a time. `ended` is called with the latency of each answer."""

    def __init__(self) -> None:
        self._buffer = b""
        self._left = -1
        self._answer: asyncio.Future[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport  # uvloop's transports are not asyncio's

    def data_received(self, data: bytes) -> None:
        if self._left < 0:
            self._buffer += data
            head, found, body = self._buffer.partition(b"\r\n\r\n")
            if not found:
                return
            if not head.startswith(b"HTTP/1.1 200") or b'"allowed":false' in body:
                raise RuntimeError(self._buffer[:500].decode(errors="replace"))
            start = head.find(b"content-length: ") + 16
            self._left = int(head[start:].split(b"\r\n", 1)[0])
            self._buffer = b""
            data = body
        self._left -= len(data)
        if self._left == 0 and self._answer is not None:
            self._left = -1
            self._answer.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError("closed by the server"))

    async def post(self, request: bytes) -> None:
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        await self._answer


def posts(bodies: Iterable[bytes], path: str) -> Iterator[bytes]:
    head = (
        f"POST {path}?timeout=10s HTTP/1.1\r\nHost: ray-webhook.ray-webhook.svc\r\nUser-Agent: "
        "kube-apiserver-admission\r\n"
        f"Content-Length: %d\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n"
        f"Accept-Encoding: gzip\r\n\r\n%b"
    ).encode()
    for body in bodies:
        yield head % (len(body), body)


async def _drive(
    server: Running, requests: Iterator[bytes], connections: int, seconds: float, rate: float
) -> Result:
    context = ssl.create_default_context(cafile=str(server.authority))
    loop = asyncio.get_running_loop()
    pool = [
        (await loop.create_connection(Connection, "127.0.0.1", server.port, ssl=context))[1]
        for _ in range(connections)
    ]
    latencies: list[float] = []
    began = perf_counter()
    used = _cpu()

    async def work(connection: Connection, number: int) -> None:
        due = began + number / rate if rate else 0.0
        while (now := perf_counter()) < began + seconds:
            if rate:
                if due > now:
                    await asyncio.sleep(due - now)
                started = max(due, now) if due > now else due  # what waited in our queue counts too
                due += connections / rate
            else:
                started = now
            await connection.post(next(requests))
            latencies.append((perf_counter() - started) * 1e6)

    await asyncio.gather(*(work(connection, number) for number, connection in enumerate(pool)))
    took = perf_counter() - began
    for connection in pool:
        connection.transport.close()
    return Result(sorted(latencies), took, (_cpu() - used) / took)


def drive(
    server: Running, requests: Iterator[bytes], *, connections: int, seconds: float, rate: float = 0
) -> Result:
    """Post for some seconds over some connections; at `rate` a second when it is not 0, else as
    fast as answers come.
    """
    return uvloop.run(_drive(server, requests, connections, seconds, rate))


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
