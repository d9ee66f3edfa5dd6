"""The outbox: what is written in one round leaves as one, in order, and nothing is left behind."""

import asyncio
import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from tests.apiserver import pod_review
from tests.server import Running
from tests.serving.pods import worker
from webhook.http.coalescing import CoalescedWrites, CoalescingTransport

BODY = json.dumps(pod_review(worker("plain"), dry_run=True)).encode()


def post(body: bytes = BODY, *headers: str) -> bytes:
    """Return the bytes of a request."""
    lines = ["POST /mutate HTTP/1.1", "host: x", "content-type: application/json", f"content-length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


@contextmanager
def connected(server: Running) -> Iterator[ssl.SSLSocket]:
    """Give a connection to a server."""
    url = urlsplit(server.url)
    context = ssl.create_default_context(cafile=str(server.authority))
    with (
        socket.create_connection((str(url.hostname), url.port or 0), timeout=5) as raw,
        context.wrap_socket(raw, server_hostname=url.hostname) as connection,
    ):
        yield connection


def bodies(data: bytes) -> list[Any]:
    """Return the documents of answers that follow one another."""
    found = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        found.append(json.loads(rest[:length]))
        data = rest[length:]
    return found


def test_head_and_body_of_an_answer_come_in_one_tls_record(server: Running) -> None:
    with connected(server) as connection:
        for _ in range(3):
            connection.sendall(post())
            assert len(bodies(connection.recv(65536))) == 1  # a read of a TLS connection ends where a record ends


def test_requests_that_are_sent_at_once_are_answered_in_order(server: Running) -> None:
    reviews = [pod_review(worker("plain"), dry_run=True, uid=f"uid-{number}") for number in range(20)]
    with connected(server) as connection:
        connection.sendall(b"".join(post(json.dumps(review).encode()) for review in reviews[:-1]))
        connection.sendall(post(json.dumps(reviews[-1]).encode(), "connection: close"))
        data = b"".join(iter(lambda: connection.recv(65536), b""))
    assert [answer["response"]["uid"] for answer in bodies(data)] == [f"uid-{number}" for number in range(20)]


def test_a_client_that_waits_to_be_told_to_go_on_is_told_so(server: Running) -> None:
    request = post(BODY, "expect: 100-continue")
    with connected(server) as connection:
        connection.sendall(request.removesuffix(BODY))
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(BODY)
        assert len(bodies(connection.recv(65536))) == 1


def test_an_answer_without_a_body_is_sent_too(server: Running) -> None:
    with connected(server) as connection:
        connection.sendall(b"HEAD /mutate HTTP/1.1\r\nhost: x\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 405 ")


def test_an_answer_that_ends_the_connection_is_sent_before_it_ends(server: Running) -> None:
    with connected(server) as connection:
        connection.sendall(b"this is not HTTP\r\n\r\n")
        assert b"".join(iter(lambda: connection.recv(65536), b"")).startswith(b"HTTP/1.1 400 ")


class Wire(asyncio.Transport):
    """A transport that remembers what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[bytes | str] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Note what is sent."""
        self.told.append(bytes(data))

    def close(self) -> None:
        """Note the end."""
        self.told.append("closed")

    def abort(self) -> None:
        """Note the end."""
        self.told.append("aborted")

    def is_closing(self) -> bool:
        """Tell whether it was ended."""
        return "closed" in self.told

    def pause_reading(self) -> None:
        """Do nothing."""

    def resume_reading(self) -> None:
        """Do nothing."""


def held(writes: CoalescedWrites) -> tuple[CoalescingTransport, Wire]:
    """Return a transport of an outbox, and what is behind it."""
    wire = Wire()
    return CoalescingTransport(cast("asyncio.Transport", wire), writes), wire


def test_writes_of_one_round_are_one_and_wait_for_its_end() -> None:
    async def rounds() -> None:
        writes = CoalescedWrites()
        (one, first), (other, second) = held(writes), held(writes)
        one.write(b"head ")
        other.write(b"hello")
        one.write(b"body")
        assert first.told == second.told == []
        await asyncio.sleep(0)
        assert (first.told, second.told) == ([b"head body"], [b"hello"])
        one.write(b"more")
        await asyncio.sleep(0)
        assert first.told == [b"head body", b"more"]

    asyncio.run(rounds())


@pytest.mark.parametrize(("how", "told"), [("close", [b"last", "closed"]), ("abort", ["aborted"])])
def test_closing_sends_what_is_held_and_aborting_drops_it(how: str, told: list[bytes | str]) -> None:
    async def rounds() -> list[bytes | str]:
        transport, wire = held(CoalescedWrites())
        transport.write(b"last")
        getattr(transport, how)()
        await asyncio.sleep(0)
        return wire.told

    assert asyncio.run(rounds()) == told
