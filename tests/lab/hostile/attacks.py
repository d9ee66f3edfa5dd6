"""Attacks, each a separate program: `python -m tests.lab.hostile.attacks NAME URL ADMIN SECONDS`.

An attacker has no certificate, no account, and one core. It reconnects immediately after a
disconnect.
"""

import asyncio
import itertools
import ssl
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from tests.lab.hostile.reviews import requests
from webhook.httpserver.protocol import PortLimits

_LIMITS: Final = PortLimits()
_FULL: Final = b"x" * 65536
_ADDRESSES: Final = itertools.cycle(f"127.0.0.{host}" for host in (2, 3, 4, 5))
"""Those of attackers. Good clients have another one."""

_APART: Final = 0.02
"""Seconds between the first connections: all at once would be a flood of handshakes."""

_POST: Final = b"POST /mutate HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
_GET: Final = b"GET /livez HTTP/1.1\r\nhost: x\r\n"


class Target(NamedTuple):
    """A port, and whether it speaks TLS."""

    host: str
    port: int
    tls: bool

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Yield a new connection, which is aborted at the end. Raises OSError."""
        connecting = asyncio.open_connection(
            self.host,
            self.port,
            ssl=_anyone() if self.tls else None,
            local_addr=(next(_ADDRESSES), 0),
        )
        reader, writer = await asyncio.wait_for(connecting, 10)
        try:
            yield reader, writer
        finally:
            writer.transport.abort()


class Attack(NamedTuple):
    """What one connection does, how many do it at once, and on which port: that of reviews or that
    of probes. `limit` is after how many seconds the server gives one up, `peak` the memory in MiB
    that the server may take.
    """

    run: Callable[[Target], Awaitable[None]]
    connections: int
    port: str
    what: str
    limit: float = 0
    peak: int = 256
    slower: int = 10

    @property
    def seconds(self) -> float:
        """How long it takes until all of them are there, and the first ones have been given up."""
        return self.connections * _APART + self.limit + 3


def _anyone() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def endless(start: bytes, again: bytes) -> Callable[[Target], Awaitable[None]]:
    """Return what sends a start and then the same for ever, and reads nothing."""

    async def run(target: Target) -> None:
        async with target.connected() as (_, writer):
            writer.write(start)
            while not writer.transport.is_closing():
                writer.write(again)
                await writer.drain()

    return run


def held(start: bytes, size: int = 0, again: bytes = b"") -> Callable[[Target], Awaitable[None]]:
    """Return what sends a start, `size` more bytes, and then `again` each second."""

    async def run(target: Target) -> None:
        async with target.connected() as (reader, writer):
            writer.write(start)
            for _ in range(size // len(_FULL)):
                writer.write(_FULL)
                await writer.drain()
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1), 1)
                    return
                writer.write(again)

    return run


def unread(request: bytes, count: int) -> Callable[[Target], Awaitable[None]]:
    """Return what sends many requests at once and takes none of the answers."""

    async def run(target: Target) -> None:
        async with target.connected() as (_, writer):
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # asyncio's transports read as well as they write
            for _ in range(count // 1000):
                writer.write(request * 1000)
                await asyncio.wait_for(writer.drain(), 20)
            await asyncio.sleep(20)

    return run


async def silent(target: Target) -> None:
    """Connect without TLS, say nothing, and wait to be cut off."""
    await held(b"")(target._replace(tls=False))


async def half_a_handshake(target: Target) -> None:
    await held(b"\x16\x03\x01\x02\x00\x01")(target._replace(tls=False))


def posted(name: str) -> Callable[[Target], Awaitable[None]]:
    """Return what posts reviews one after the other, and reads each answer."""

    async def run(target: Target) -> None:
        async with target.connected() as (reader, writer):
            for request in requests(name):
                writer.write(request)
                head = await _answer(reader)
                if head.startswith(b"HTTP/1.1 503"):
                    await asyncio.sleep(1)  # as its Retry-After says
                elif head.startswith(b"HTTP/1.1 5"):
                    raise RuntimeError(head.decode())

    return run


async def asking(target: Target) -> None:
    """Ask once a second for what is no review, on a connection that is kept as long as it lasts."""
    async with target.connected() as (reader, writer):
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                writer.write(b"GET /x HTTP/1.1\r\nhost: x\r\n\r\n")
                await _answer(reader)
                await asyncio.sleep(1)
        await asyncio.sleep(1)


async def followed(target: Target) -> None:
    """Send reviews, each followed in one flight by what is not HTTP. Raises RuntimeError when one
    does not get its answer.
    """
    async with target.connected() as (reader, writer):
        writer.write(next(requests("one-uid")) + b"this is not HTTP\r\n\r\n")
        head, refusal = await _answer(reader), await reader.readuntil(b"\r\n\r\n")
        if not (head.startswith(b"HTTP/1.1 200 ") and refusal.startswith(b"HTTP/1.1 400 ")):
            raise RuntimeError((head + refusal).decode())


async def _answer(reader: asyncio.StreamReader) -> bytes:
    """Read an answer, and return its head."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    await reader.readexactly(int(length))
    return head


_CHUNKED: Final = b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"

ATTACKS: Final = {
    "endless-header": Attack(
        endless(_POST + b"a: ", _FULL), 3, "reviews", "a header value that never ends"
    ),
    "endless-headers": Attack(
        endless(_POST, b"a: b\r\n" * 10_000), 3, "reviews", "headers that never end"
    ),
    "endless-url": Attack(endless(b"GET /", _FULL), 3, "reviews", "a path that never ends"),
    "endless-trailer": Attack(
        endless(_POST + _CHUNKED + b"a: ", _FULL), 3, "reviews", "a trailer that never ends"
    ),
    "endless-trailers": Attack(
        endless(_POST + _CHUNKED, b"a: b\r\n" * 10_000), 3, "reviews", "trailers that never end"
    ),
    "endless-lines": Attack(
        endless(b"", b"\r\n" * 30_000), 3, "reviews", "empty lines before a request"
    ),
    "probes-endless-header": Attack(
        endless(_GET + b"a: ", _FULL), 3, "probes", "a header value that never ends"
    ),
    "probes-endless-headers": Attack(
        endless(_GET, b"a: b\r\n" * 10_000), 3, "probes", "headers that never end"
    ),
    "many-headers": Attack(
        held(_POST + b"a: b\r\n" * 97, 0, b""),
        400,
        "reviews",
        "heads with 100 headers and no end",
        _LIMITS.request_seconds,
    ),
    "unfinished-bodies": Attack(
        held(_POST + b"content-length: 7000000\r\n\r\n", 6_900_000),
        100,
        "reviews",
        "bodies of 6.9 MB without their last bytes",
        slower=50,  # 690 MB to decrypt, as fast as they can be sent
    ),
    "probes-unfinished-bodies": Attack(
        held(_GET + b"content-length: 7000000\r\n\r\n", 6_900_000),
        100,
        "probes",
        "bodies of 6.9 MB without their last bytes",
    ),
    "many-bodies": Attack(
        held(_POST + b"content-length: 70000\r\n\r\n", len(_FULL)),
        900,
        "reviews",
        "bodies of 70 KB without their last bytes",
        _LIMITS.request_seconds,
        peak=320,  # bodies within their bound, on TLS connections with twice as much in buffers
    ),
    "pipelined": Attack(
        unread(_POST + b"content-length: 2\r\n\r\n{}", 200_000),
        8,
        "reviews",
        "200,000 requests, no answer taken",
    ),
    "probes-unread": Attack(
        unread(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n", 20_000),
        8,
        "probes",
        "20,000 requests for metrics, no answer taken",
    ),
    "silent": Attack(silent, 1100, "reviews", "connections without a byte", _LIMITS.first_seconds),
    "half-handshakes": Attack(
        half_a_handshake, 1100, "reviews", "handshakes that never finish", _LIMITS.first_seconds
    ),
    "no-request": Attack(
        held(b""), 400, "reviews", "handshakes without a request", _LIMITS.first_seconds
    ),
    "slow-heads": Attack(
        held(_POST, 0, b"x"), 400, "reviews", "heads of a byte a second", _LIMITS.request_seconds
    ),
    "slow-bodies": Attack(
        held(_POST + b"content-length: 9999\r\n\r\n", 0, b"x"),
        400,
        "reviews",
        "bodies of a byte a second",
        _LIMITS.request_seconds,
    ),
    "asking": Attack(
        asking,
        1100,
        "reviews",
        "requests once a second for what is no review",
        _LIMITS.first_seconds,
    ),
    "followed": Attack(followed, 8, "reviews", "reviews that garbage follows in one flight"),
    "probes-silent": Attack(
        silent, 1100, "probes", "connections without a byte", _LIMITS.first_seconds
    ),
    "large-answers": Attack(
        posted("large-answers"), 4, "reviews", "pods to which up to 490 MB would be added"
    ),
    "long-digits": Attack(posted("long-digits"), 4, "reviews", "numbers of thousands of digits"),
    "ray-objects": Attack(posted("ray-objects"), 8, "reviews", "Ray objects of 57 KB"),
    "large-ray-objects": Attack(
        posted("large-ray-objects"), 8, "reviews", "RayClusters of 310 KiB and 1.3 MB"
    ),
    "one-uid": Attack(
        posted("one-uid"), 4, "reviews", "one review for an identity, again and again"
    ),
}


async def attack(name: str, reviews: str, probes: str, seconds: float) -> None:
    chosen = ATTACKS[name]
    url = urlsplit(reviews if chosen.port == "reviews" else probes)
    target = Target(str(url.hostname), url.port or 0, url.scheme == "https")
    until = time.monotonic() + seconds

    async def again(number: int) -> None:
        await asyncio.sleep(number * _APART)
        while time.monotonic() < until:  # wait_for may swallow a cancellation
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                await chosen.run(target)
            await asyncio.sleep(0.05)

    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.gather(*(again(number) for number in range(chosen.connections)))


if __name__ == "__main__":
    asyncio.run(attack(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])))
