"""A request above a limit is answered with advice for the client, and the connection ends."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import pytest
from anyio.from_thread import start_blocking_portal
from starlette.types import Receive, Scope, Send

from tests.harness.listener import authority, server_pair, trusting, until
from tests.harness.server import Running
from tests.webhook.httpserver.test_answers import connected, post
from webhook.certs.context import SwappingContext
from webhook.httpserver.one_write import JSON
from webhook.httpserver.protocol import LimitedProtocol, PortLimits
from webhook.httpserver.server import HttpServer

HEAD = b"POST / HTTP/1.1\r\nhost: x\r\n"
EMPTY = HEAD + b"content-length: 0\r\n\r\n"
REVIEW = b"POST /review HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
MANY = 300_000
"""Bytes beyond the limit of a head, and beyond what one read returns."""
FAST: dict[str, float] = {"first_seconds": 1, "request_seconds": 2, "idle_seconds": 4}


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the length of the body, and as much again as the path says."""
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    text = b"%d" % size
    review = scope["path"] == "/review"
    padding = 0 if review else int(scope["path"].strip("/") or 0)
    headers = [(b"content-length", b"%d" % (len(text) + padding)), *([JSON] if review else [])]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text + b" " * padding})


class Served(NamedTuple):
    """A server in a thread, within limits."""

    server: HttpServer
    port: int
    refusals: list[int]
    stop: Callable[[], object]

    @property
    def connections(self) -> int:
        return len(self.server.server_state.connections)

    def age(self, client: socket.socket) -> None:
        """Let a connection be a second old: others may begin or end in the same millisecond."""
        for connection in cast("set[LimitedProtocol]", self.server.server_state.connections):
            if connection.client == client.getsockname():
                connection.born -= 1
                connection.since -= 1

    @contextmanager
    def client(self, address: str = "127.0.0.1") -> Iterator[socket.socket]:
        with socket.create_connection(
            ("127.0.0.1", self.port), timeout=60, source_address=(address, 0)
        ) as connection:
            yield connection

    @contextmanager
    def clients(self, *addresses: str) -> Iterator[Sequence[socket.socket]]:
        with ExitStack() as stack:
            yield [stack.enter_context(self.client(address)) for address in addresses]


@contextmanager
def served(
    limits: Mapping[str, float] = MappingProxyType({}),
    *,
    tls: ssl.SSLContext | None = None,
    app: Callable[..., Any] = application,
) -> Iterator[Served]:
    refusals = list[int]()
    server = HttpServer(
        cast("Any", app),
        "127.0.0.1",
        0,
        tls,
        limits=PortLimits(**cast("dict[str, Any]", limits)),
        refused=lambda status, _reason: refusals.append(status),
    )

    async def start() -> asyncio.Task[None]:
        return asyncio.create_task(server.run())

    port = server.bind()
    with start_blocking_portal(backend_options={"use_uvloop": True}) as portal:
        serving = portal.call(start)
        stop = partial(portal.call, serving.cancel)
        try:
            yield Served(server, port, refusals, stop)
        finally:
            stop()
            portal.call(asyncio.wait, [serving])


def rest(connection: socket.socket) -> bytes:
    data = b""
    with suppress(ConnectionResetError):
        while part := connection.recv(65536):
            data += part
    return data


def answer(connection: socket.socket) -> bytes:
    """Return one answer, or what is sent of it before the connection ends."""
    data = b""
    with suppress(ConnectionResetError):
        while part := connection.recv(65536):
            data += part
            head, found, body = data.partition(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            if found and len(body) >= int(length or 0):
                break
    return data


def asked(connection: socket.socket, request: bytes) -> bytes:
    """Return the answer to a request that may be cut off."""
    with suppress(ConnectionResetError, BrokenPipeError):
        connection.sendall(request)
    return answer(connection)


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)  # noqa: FBT003 - the name is the standard library's
    try:
        return connection.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False
    finally:
        connection.settimeout(60)


TOO_LARGE = {
    "url": b"GET /" + b"x" * MANY,
    "whole url": b"GET /" + b"x" * MANY + b" HTTP/1.1\r\n\r\n",
    "header": HEAD + b"a: " + b"x" * MANY,
    "whole header": HEAD + b"a: " + b"x" * MANY + b"\r\n\r\n",
    "name": HEAD + b"x" * MANY,
    "headers": HEAD + b"a: b\r\n" * 101,
    "whole headers": HEAD + b"a: b\r\n" * 101 + b"\r\n",
    "trailer": CHUNKED + b"a: " + b"x" * MANY,
    "trailers": CHUNKED + b"a: b\r\n" * 101,
    "chunk extension": HEAD + b"transfer-encoding: chunked\r\n\r\n2;" + b"x" * MANY,
    "empty lines": b"\r\n" * MANY,
}


@pytest.mark.parametrize("request_", TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_head_that_is_too_large_is_431(request_: bytes) -> None:
    with served() as server, server.client() as connection:
        assert asked(connection, request_).startswith(b"HTTP/1.1 431 ")
        assert server.refusals == [431]


@pytest.mark.parametrize(("request_", "status"), [
    (HEAD + b"a: " + b"x" * MANY, 431), (HEAD + b"no header\r\n\r\n", 400),
], ids=["head", "garbage"])  # fmt: skip
def test_a_client_with_an_answer_is_refused_with_one_too(request_: bytes, status: int) -> None:
    with served() as server, server.client() as connection:
        assert asked(connection, CHUNKED + b"\r\n").endswith(b"\r\n\r\n2")
        assert asked(connection, request_).startswith(b"HTTP/1.1 %d " % status)
        assert server.refusals == [status]


@pytest.mark.parametrize("garbage", [
    b"this is not HTTP\r\n\r\n", HEAD + b"no header\r\n\r\n",
    HEAD + b"transfer-encoding: chunked\r\n\r\nno length",
], ids=["line", "header", "chunk"])  # fmt: skip
@pytest.mark.parametrize("good", [1, 3])
def test_requests_before_garbage_in_one_flight_get_their_answers(garbage: bytes, good: int) -> None:
    with served() as server, server.client() as connection:
        connection.sendall(REVIEW * good + garbage)
        answers = rest(connection).split(b"HTTP/1.1 ")[1:]
        assert [each.split(b" ")[0] for each in answers] == [b"200"] * good + [b"400"]
        assert server.refusals == [400]


AMBIGUOUS = {
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nhost: x\r\nHost: y\r\n\r\n",
    "two types": HEAD + b"content-type: a\r\nContent-Type: b\r\ncontent-length: 0\r\n\r\n",
    "two lengths": HEAD + b"content-length: 1\r\ncontent-length: 2\r\n\r\n",
    "length and chunks": HEAD + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
}


@pytest.mark.parametrize("head", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_a_request_that_can_be_read_in_two_ways_is_400(head: bytes) -> None:
    with served() as server, server.client() as connection:
        assert asked(connection, head).startswith(b"HTTP/1.1 400 ")
        assert server.refusals == [400]


def test_a_request_of_http_1_0_needs_no_host() -> None:
    with served() as server, server.client() as connection:
        assert asked(connection, b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 ")


def test_a_head_that_is_large_is_read_however_it_comes() -> None:
    head = HEAD + b"a: " + b"x" * 60_000 + b"\r\ncontent-length: 300000\r\n\r\n"
    with served() as server, server.client() as connection:
        assert asked(connection, head + b"x" * 300_000).endswith(b"300000")
        for start in range(0, len(head), 10_000):
            connection.sendall(head[start : start + 10_000])
        assert asked(connection, b"x" * 300_000).endswith(b"300000")
        assert server.refusals == []


def test_the_port_of_reviews_refuses_such_a_head_too(server: Running) -> None:
    with connected(server) as connection:
        request = post().replace(b"host: x", b"host: " + b"x" * MANY)
        assert asked(connection, request).startswith(b"HTTP/1.1 431 ")


def test_of_too_many_requests_at_once_the_first_are_answered_and_the_next_is_503() -> None:
    with served({"queue": 8}) as server, server.client() as connection:
        connection.sendall(EMPTY * 30)
        data = rest(connection)
        assert data.count(b"HTTP/1.1 200 ") == 9
        assert data.count(b"HTTP/1.1 503 ") == 1
        assert server.refusals == [503]


def test_requests_within_the_queue_are_answered_in_turn_however_many_follow() -> None:
    with served({"queue": 8}) as server, server.client() as connection:
        for _ in range(20):
            connection.sendall(EMPTY * 4)
            data = b""
            while data.count(b"\r\n\r\n0") < 4:
                data += connection.recv(65536)
        assert server.refusals == []


def test_a_client_that_takes_no_answer_is_cut_off() -> None:
    with served(FAST) as server, server.client() as connection:
        connection.sendall(b"GET /40000000 HTTP/1.1\r\nhost: x\r\n\r\n")
        until(lambda: server.connections == 1)
        until(lambda: server.connections == 0)
        assert len(rest(connection)) < 40_000_000


def test_of_answers_that_are_too_much_together_the_largest_is_cut_off() -> None:
    with (
        served({"unsent": 50_000_000}) as server,
        server.client() as large,
        server.client() as small,
    ):
        large.sendall(b"GET /40000000 HTTP/1.1\r\nhost: x\r\n\r\n")
        until(lambda: large.recv(1, socket.MSG_PEEK) == b"H")
        small.sendall(b"GET /30000000 HTTP/1.1\r\nhost: x\r\n\r\n")
        until(lambda: server.connections == 1)
        assert len(answer(small)) > 30_000_000
        assert len(rest(large)) < 40_000_000


@pytest.mark.parametrize("sent", [
    b"", b"\r\n", HEAD, HEAD + b"content-length: 9\r\n\r\nx",
], ids=["nothing", "an empty line", "half a head", "half a body"])  # fmt: skip
def test_a_client_that_is_too_slow_is_cut_off_before_one_that_is_idle(sent: bytes) -> None:
    with served(FAST | {"idle_seconds": 60}) as server, server.client() as idle:
        assert asked(idle, EMPTY).endswith(b"0")
        with server.client() as slow:
            slow.sendall(sent)
            assert rest(slow) == b""
        assert asked(idle, EMPTY).endswith(b"0")


@pytest.mark.parametrize("sent", [HEAD + b"a: ", HEAD + b"content-length: 99999\r\n\r\n"])
def test_a_trickle_does_not_buy_more_time(sent: bytes) -> None:
    with served(FAST) as server, server.client() as connection:
        connection.sendall(sent)
        with suppress(ConnectionResetError, BrokenPipeError):
            while True:
                connection.settimeout(0.05)
                connection.sendall(b"x")
                with suppress(TimeoutError):
                    if not connection.recv(65536):
                        break
        until(lambda: server.connections == 0)


def test_an_idle_connection_is_closed_in_good_order() -> None:
    with served(FAST) as server, server.client() as connection:
        assert asked(connection, EMPTY).endswith(b"0")
        assert connection.recv(65536) == b""


def test_of_too_many_connections_those_without_a_review_end_first() -> None:
    addresses = [f"127.0.0.{host}" for host in (1, 2, 3, 4)] * 8
    with (
        served({"connections": 20}) as server,
        server.clients("127.0.0.1", "127.0.0.1") as (good, other),
    ):
        assert asked(good, REVIEW).endswith(b"0")
        assert asked(other, EMPTY).endswith(b"0")
        server.age(other)
        with server.clients(*addresses) as crowd:
            for connection in crowd:
                asked(connection, EMPTY)  # which is no review
            assert not is_open(other)
            assert asked(good, REVIEW).endswith(b"0")
            assert asked(crowd[-1], REVIEW).endswith(b"0")
            assert server.connections <= 20


def test_one_address_has_half_of_the_connections() -> None:
    with served({"connections": 20}) as server, server.client() as good:
        assert asked(good, EMPTY).endswith(b"0")
        with server.clients(*["127.0.0.2"] * 16) as crowd:
            until(lambda: 503 in server.refusals)
            assert asked(good, EMPTY).endswith(b"0")
            assert asked(crowd[-1], REVIEW).endswith(b"0")
            assert server.connections <= 11


def test_of_connections_with_reviews_the_one_that_is_idle_longest_ends() -> None:
    with served({"connections": 4}) as server, server.clients(*["127.0.0.1"] * 2) as (old, other):
        for connection in (old, other):
            assert asked(connection, REVIEW).endswith(b"0")
        server.age(old)
        with server.client() as new:
            assert asked(new, REVIEW).endswith(b"0")
            assert (is_open(old), is_open(other)) == (False, True)


def test_a_connection_that_waits_for_its_answer_is_not_ended_to_make_room() -> None:
    gate = threading.Event()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.to_thread(gate.wait)
        await application(scope, receive, send)

    with served({"connections": 4}, app=slow) as server, server.client() as good:
        good.sendall(REVIEW)
        with server.clients(*["127.0.0.2"] * 6):
            until(lambda: 503 in server.refusals)
            gate.set()
            assert answer(good).endswith(b"0")


def test_a_request_to_speak_another_protocol_is_answered_in_this_one() -> None:
    with served() as server, server.client() as connection:
        upgrade = b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
        connection.sendall(upgrade + b"frames")
        data = rest(connection)
        assert data.startswith(b"HTTP/1.1 200 ")
        assert data.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x02\x00\x01"], ids=["nothing", "a part"])
def test_a_slow_handshake_is_cut_off_and_others_are_made_beside_it(sent: bytes) -> None:
    signer = authority()
    tls = SwappingContext()
    tls.load(server_pair(signer))
    with (
        served({"first_seconds": 2}, tls=tls.listening) as server,
        server.clients(*["127.0.0.1"] * 50) as stalled,
    ):
        for connection in stalled:
            connection.sendall(sent)
        with (
            server.client() as raw,
            trusting(signer).wrap_socket(raw, server_hostname="localhost") as good,
        ):
            assert asked(good, REVIEW).endswith(b"0")
        assert [rest(connection) for connection in stalled] == [b""] * 50
