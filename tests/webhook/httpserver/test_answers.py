"""Answers on the wire: in order, complete, and sent before the connection closes."""

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.harness.apiserver import pod_review
from tests.harness.objects import worker
from tests.harness.server import Running

BODY = json.dumps(pod_review(worker("plain"), dry_run=True)).encode()


def post(body: bytes = BODY, *headers: str) -> bytes:
    lines = [
        "POST /mutate HTTP/1.1", "host: x", "content-type: application/json",
        f"content-length: {len(body)}", *headers]  # fmt: skip
    return "\r\n".join([*lines, "", ""]).encode() + body


@contextmanager
def connected(server: Running) -> Iterator[ssl.SSLSocket]:
    url = urlsplit(server.url)
    context = ssl.create_default_context(cafile=str(server.authority))
    with (
        socket.create_connection((str(url.hostname), url.port or 0), timeout=60) as raw,
        context.wrap_socket(raw, server_hostname=url.hostname) as connection,
    ):
        yield connection


def bodies(data: bytes) -> list[Any]:
    found = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 ")
        length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        found.append(json.loads(rest[:length]))
        data = rest[length:]
    return found


def test_requests_that_are_sent_at_once_are_answered_in_order(server: Running) -> None:
    uids = [f"uid-{number}" for number in range(20)]
    reviews = [pod_review(worker("plain"), dry_run=True, uid=uid) for uid in uids]
    with connected(server) as connection:
        connection.sendall(b"".join(post(json.dumps(review).encode()) for review in reviews[:-1]))
        connection.sendall(post(json.dumps(reviews[-1]).encode(), "connection: close"))
        data = b"".join(iter(lambda: connection.recv(65536), b""))
    assert [answer["response"]["uid"] for answer in bodies(data)] == uids


def test_a_client_that_waits_for_100_continue_receives_it(server: Running) -> None:
    request = post(BODY, "expect: 100-continue")
    with connected(server) as connection:
        connection.sendall(request.removesuffix(BODY))
        assert connection.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(BODY)
        data = connection.recv(65536)
        while not data.partition(b"\r\n\r\n")[2]:
            data += connection.recv(65536)
        assert len(bodies(data)) == 1


def test_an_answer_without_a_body_is_sent_too(server: Running) -> None:
    with connected(server) as connection:
        connection.sendall(b"HEAD /mutate HTTP/1.1\r\nhost: x\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 405 ")


@pytest.mark.parametrize(
    ("length", "status"), [(b"0" * 5000 + b"2000000", b"400"), (b"9" * 19, b"413")]
)
def test_a_length_of_many_digits_is_a_length(server: Running, length: bytes, status: bytes) -> None:
    head = post().partition(b"content-length: ")[0]
    with connected(server) as connection:
        connection.sendall(b"%bcontent-length: %b\r\n\r\n" % (head, length))
        connection.sendall(b"x" * 2_000_000)  # in more than one part
        assert connection.recv(65536).startswith(b"HTTP/1.1 %b " % status)
