"""A large body is decoded and checked beside other reviews, and a shutdown completes it."""

import array
import fcntl
import json
import signal
import socket
import ssl
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests import ROOT
from tests.harness.apiserver import ApiServer, object_review, pod_review
from tests.harness.listener import until
from tests.harness.objects import worker
from tests.harness.ray_objects import a_cluster
from tests.harness.server import SECONDS, Running, serving
from tests.webhook.httpserver.test_answers import connected
from tests.webhook.httpserver.test_limits import answer

GROUPS = 1000
SIDECARS = 5


@cache
def large_review() -> bytes:
    """Return the review of a RayCluster of many groups, the last of which is wrong."""
    cluster = a_cluster("large").meta(namespace="default")
    for number in range(GROUPS):
        cluster.group(f"tpu-{number}", hosts=2 + (number == GROUPS - 1)).tpu("2x4", 4)
        for sidecar in range(SIDECARS):
            cluster.sidecar(f"sidecar-{sidecar}")
    return json.dumps(object_review(cluster.build())).encode()


@contextmanager
def in_review(server: Running, api: ApiServer) -> Iterator[ssl.SSLSocket]:
    """Give the connection of a client whose large body has been received."""
    body = large_review()
    head = b"POST /validate HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with connected(server) as client:
        client.sendall(head + b"content-length: %d\r\n\r\n" % len(body) + body[:-1])
        until(lambda: unacknowledged(client) == 0)
        small(api)
        client.sendall(body[-1:])
        until(lambda: unacknowledged(client) == 0)
        yield client


def unacknowledged(client: socket.socket) -> int:
    """Return the bytes that the server's kernel does not have."""
    count = array.array("i", [0])
    fcntl.ioctl(client.fileno(), termios.TIOCOUTQ, count)
    return count[0]


def small(api: ApiServer) -> None:
    assert api.review(pod_review(worker("plain"), dry_run=True))["allowed"]


def is_answered(client: ssl.SSLSocket) -> bool:
    """Return whether the beginning of an answer has come, which is read."""
    client.settimeout(0)
    try:
        return client.recv(1) == b"H"
    except ssl.SSLWantReadError:
        return False
    finally:
        client.settimeout(60)


def test_small_reviews_are_answered_beside_a_large_one(server: Running, api: ApiServer) -> None:
    small(api)
    with in_review(server, api) as client:
        answered = 0
        while not is_answered(client):
            small(api)
            answered += 1
        assert b"tpu-topology-mismatch" in answer(client)
    assert answered > 1  # one that waits for the large one is the only one


def test_a_process_that_stops_answers_the_large_review_that_it_has_begun(tmp_path: Path) -> None:
    state = [ROOT / "tests" / "state.yaml"]
    with (
        serving(tmp_path, state, "--serving.drain-seconds", "0") as server,
        ApiServer(server.url, server.authority) as api,
        in_review(server, api) as client,
    ):
        small(api)
        server.process.send_signal(signal.SIGTERM)
        assert answer(client).startswith(b"HTTP/1.1 200 ")
        assert server.process.wait(SECONDS) == 0
