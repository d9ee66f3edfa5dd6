"""What goes beyond a bound is answered with what a client may do about it, and ends there."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import pytest
import uvloop
from starlette.types import Receive, Scope, Send

from tests.http.test_answers import connected, post
from tests.http.test_connections import Refusals
from tests.server import Running
from webhook.http.bounds import Bounds, raise_descriptor_limit
from webhook.http.server import HttpServer

HEAD = b"POST / HTTP/1.1\r\nhost: x\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
FAST = {
    "first_byte": 1,
    "head_seconds": 1,
    "request_seconds": 2,
    "linger_seconds": 1,
    "idle_seconds": 5,
}


async def length(_scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the length of the body, and with as much again as the path says."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    text = b"%d" % size
    padding = int(_scope["path"].strip("/") or 0)
    headers = [(b"content-length", b"%d" % (len(text) + padding))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text + b" " * padding})


class Served:
    """A server in a thread, within bounds."""

    def __init__(self, **bounds: int) -> None:
        self.refusals = Refusals()
        self._server = HttpServer(
            cast("Any", length), "127.0.0.1", 0, bounds=Bounds(**bounds), refused=self.refusals
        )
        self.port = self._server.bind()
        self._stop = threading.Event()

    async def run(self) -> None:
        """Serve until it is stopped."""
        serving = asyncio.create_task(self._server.run())
        while not self._stop.is_set():  # noqa: ASYNC110 - it is another thread that stops it
            await asyncio.sleep(0.02)
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving

    def stop(self) -> None:
        """End it."""
        self._stop.set()

    @contextmanager
    def client(self) -> Iterator[socket.socket]:
        """Give a connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            yield connection


@contextmanager
def served(**bounds: int) -> Iterator[Served]:
    """Give a server within bounds."""
    server = Served(**bounds)
    thread = threading.Thread(target=lambda: uvloop.run(server.run()))
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


def answer(connection: socket.socket) -> bytes:
    """Return what is sent until the connection ends, or until an answer is whole."""
    data = b""
    with suppress(ConnectionResetError):
        while part := connection.recv(65536):
            data += part
            if (
                b"\r\n\r\n" in data
                and data.count(b"HTTP/1.1") == 1
                and not data.endswith(b"\r\n\r\n")
            ):
                break
    return data


def asked(connection: socket.socket, request: bytes) -> bytes:
    """Return the answer to a request that may be cut off."""
    with suppress(ConnectionResetError, BrokenPipeError):
        connection.sendall(request)
    return answer(connection)


def ended(connection: socket.socket) -> float:
    """Return how many seconds it takes until the connection ends."""
    started = time.monotonic()
    with suppress(ConnectionResetError):
        while connection.recv(65536):
            pass
    return time.monotonic() - started


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /" + b"x" * 70_000,
        b"GET /" + b"x" * 70_000 + b" HTTP/1.1\r\n\r\n",
        HEAD + b"a: " + b"x" * 70_000,
        HEAD + b"a: " + b"x" * 70_000 + b"\r\n\r\n",
        HEAD + b"x" * 70_000,
        HEAD + b"a: b\r\n" * 101,
        CHUNKED + b"a: " + b"x" * 300_000,
        CHUNKED + b"a: b\r\n" * 101,
        CHUNKED + b"a: b\r\n" * 101 + b"\r\n",
        b"\r\n" * 40_000,
    ],
    ids=[
        "url",
        "whole url",
        "header",
        "whole header",
        "name",
        "headers",
        "trailer",
        "trailers",
        "whole trailers",
        "empty lines",
    ],
)
def test_a_head_that_is_too_large_is_431(request_: bytes) -> None:
    with served() as server, server.client() as connection:
        assert asked(connection, request_).startswith(b"HTTP/1.1 431 ")
        assert server.refusals == [431]


@pytest.mark.parametrize(
    ("request_", "status"),
    [(HEAD + b"a: " + b"x" * 70_000, 431), (HEAD + b"no header\r\n\r\n", 400)],
    ids=["head", "garbage"],
)
def test_a_refusal_is_told_to_a_client_that_has_had_an_answer(request_: bytes, status: int) -> None:
    with served() as server, server.client() as connection:
        assert asked(connection, CHUNKED + b"\r\n").endswith(b"\r\n\r\n2")
        assert asked(connection, request_).startswith(b"HTTP/1.1 %d " % status)
        assert server.refusals == [status]


def test_a_head_that_is_large_is_read_however_it_comes() -> None:
    head = HEAD + b"a: " + b"x" * 60_000 + b"\r\ncontent-length: 300000\r\n\r\n"
    with served() as server, server.client() as connection:
        assert asked(connection, head + b"x" * 300_000).endswith(b"300000")
        for start in range(0, len(head), 10_000):
            connection.sendall(head[start : start + 10_000])
            time.sleep(0.01)
        assert asked(connection, b"x" * 300_000).endswith(b"300000")
        assert server.refusals == []


def test_the_port_of_reviews_refuses_such_a_head_too(server: Running) -> None:
    with connected(server) as connection:
        connection.sendall(post().replace(b"host: x", b"host: " + b"x" * 70_000))
        assert connection.recv(65536).startswith(b"HTTP/1.1 431 ")


def test_bodies_beyond_what_may_be_in_flight_are_503_the_largest_first_and_small_ones_pass() -> (
    None
):
    with (
        served(in_flight=400_000) as server,
        server.client() as large,
        server.client() as small,
        server.client() as good,
    ):
        large.sendall(HEAD + b"content-length: 300000\r\n\r\n" + b"x" * 250_000)
        small.sendall(HEAD + b"content-length: 200000\r\n\r\n" + b"x" * 120_000)
        time.sleep(0.3)
        small.sendall(b"x" * 79_999)
        refused = answer(large)
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"\r\nretry-after: 1\r\n" in refused
        assert asked(good, HEAD + b"content-length: 9\r\n\r\n" + b"x" * 9).endswith(b"9")
        assert asked(small, b"x").endswith(b"200000")
        assert server.refusals == [503]


def test_a_body_that_is_alone_too_large_is_503() -> None:
    with served(in_flight=400_000) as server, server.client() as connection:
        assert b"retry-after: 1" in asked(
            connection, HEAD + b"content-length: 500000\r\n\r\n" + b"x" * 500_000
        )
        assert server.refusals == [503]


def test_what_was_answered_is_in_flight_no_more() -> None:
    with served(in_flight=400_000) as server, server.client() as connection:
        for _ in range(5):
            assert asked(
                connection, HEAD + b"content-length: 300000\r\n\r\n" + b"x" * 300_000
            ).endswith(b"300000")
        assert server.refusals == []


def test_of_too_many_requests_at_once_the_first_are_answered_and_the_next_is_503() -> None:
    with served(queue=8, **FAST) as server, server.client() as connection:
        connection.sendall((HEAD + b"content-length: 0\r\n\r\n") * 30)
        data = b"".join(iter(lambda: connection.recv(65536), b""))
        assert data.count(b"HTTP/1.1 200 ") == 9
        assert data.count(b"HTTP/1.1 503 ") == 1
        assert b"retry-after: 1" in data[data.index(b" 503 ") :]
        assert server.refusals == [503]


def test_a_client_that_takes_no_answer_is_cut_off() -> None:
    with served(**FAST) as server, server.client() as connection:
        connection.sendall(b"GET /40000000 HTTP/1.1\r\n\r\n")
        time.sleep(4)
        with suppress(ConnectionResetError):
            assert len(b"".join(iter(lambda: connection.recv(65536), b""))) < 40_000_000


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [(b"", 1), (b"\r\n", 1), (HEAD, 1), (HEAD + b"content-length: 9\r\n\r\nx", 2)],
    ids=["nothing", "an empty line", "half a head", "half a body"],
)
def test_a_client_that_is_too_slow_is_cut_off(sent: bytes, seconds: int) -> None:
    with served(**FAST) as server, server.client() as connection:
        connection.sendall(sent)
        assert seconds - 1 < ended(connection) < seconds + 4


def test_a_trickle_does_not_buy_more_time() -> None:
    with served(**FAST) as server, server.client() as connection:
        started = time.monotonic()
        connection.sendall(b"GET / HTTP/1.1\r\na: ")
        with suppress(ConnectionResetError, BrokenPipeError):
            while time.monotonic() - started < 9:
                connection.sendall(b"x")
                time.sleep(0.05)
        assert time.monotonic() - started < 6


def test_an_idle_connection_is_closed_later_than_one_that_never_asked() -> None:
    with served(**FAST) as server, server.client() as connection:
        assert asked(connection, HEAD + b"content-length: 0\r\n\r\n").endswith(b"0")
        assert 3 < ended(connection) < 9


def test_when_there_are_too_many_connections_those_that_never_asked_go_first() -> None:
    with served(connections=20) as server, server.client() as good:
        assert asked(good, HEAD + b"content-length: 0\r\n\r\n").endswith(b"0")
        idle = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(40)]
        assert asked(good, HEAD + b"content-length: 3\r\n\r\nabc").endswith(b"3")
        assert ended(idle[0]) < 1
        assert asked(idle[-1], HEAD + b"content-length: 4\r\n\r\nabcd").endswith(b"4")
        for connection in idle:
            connection.close()


def test_a_request_to_speak_another_protocol_is_answered_in_this_one() -> None:
    with served() as server, server.client() as connection:
        upgrade = b"GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
        assert asked(connection, upgrade).startswith(b"HTTP/1.1 200 ")


def test_descriptors_are_enough_for_the_connections_that_there_may_be() -> None:
    assert raise_descriptor_limit() >= 2 * Bounds().connections
