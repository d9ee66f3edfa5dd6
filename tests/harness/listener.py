"""An HTTPS listener on loopback with a certificate under rotation, and clients of servers, which
call once or, as kube-apiserver does, all the time.
"""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from time import monotonic, sleep
from typing import NamedTuple, Self, cast

import httpx
from anyio.from_thread import start_blocking_portal
from cryptography import x509
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

from tests.harness.following import beside
from webhook.certs.certificate_watcher import CertificateFiles, CertificateWatcher
from webhook.certs.context import SwappingContext
from webhook.certs.issue import Pair, issue_authority, issue_server
from webhook.httpserver.protocol import PortLimits
from webhook.httpserver.server import HttpServer

POLL_SECONDS = 0.02
REFUSED = (ssl.SSLError, ConnectionError)
REQUEST = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Listener(NamedTuple):
    """Serves `ok`, and verifies clients by an authority if given."""

    port: int
    context: SwappingContext
    watcher: CertificateWatcher


@contextmanager
def listening(
    directory: Path,
    pair: Pair | None = None,
    client_ca: Path | None = None,
    client_names: tuple[str, ...] = (),
    context: SwappingContext | None = None,
) -> Iterator[Listener]:
    """Serve with the pair in a directory. One that is given is written into it, and loaded before
    the block.
    """
    context = context or SwappingContext(verify_clients=client_ca is not None)
    files = CertificateFiles(directory / "tls.crt", directory / "tls.key")
    watcher = CertificateWatcher(files, context, client_ca, POLL_SECONDS)
    limits = PortLimits(client_names=frozenset(client_names))
    application = cast("FastAPI", PlainTextResponse("ok"))
    server = HttpServer(application, "127.0.0.1", 0, context.listening, limits=limits)
    if pair is not None:
        write(directory, pair)
    listener = Listener(server.bind(), context, watcher)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(beside(server.run())),
        portal.wrap_async_context_manager(beside(watcher.run())),
    ):
        until(lambda: pair is None or watcher.loads)
        yield listener


def authority() -> Pair:
    return issue_authority("test authority", 10)


def server_pair(signer: Pair, now: datetime | None = None) -> Pair:
    return issue_server(signer, ["localhost", "127.0.0.1"], 1, now)


def write(directory: Path, pair: Pair) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "tls.crt").write_bytes(pair.certificate)
    (directory / "tls.key").write_bytes(pair.key)


def serial(pair: Pair) -> int:
    return x509.load_pem_x509_certificate(pair.certificate).serial_number


def trusting(signer: Pair, version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=signer.certificate.decode())
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context


def ask(port: int, context: ssl.SSLContext, *, name: str | None = "localhost") -> tuple[int, bytes]:
    """Return serial number and answer on a new connection, for `name` if any. Raises OSError."""
    context.check_hostname = name is not None
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as raw,
        context.wrap_socket(raw, server_hostname=name) as connection,
    ):
        connection.sendall(REQUEST)
        answer = connection.recv(4096)
        if not answer:
            raise ConnectionResetError("closed without an answer")
        found = x509.load_der_x509_certificate(connection.getpeercert(binary_form=True) or b"")
        return found.serial_number, answer


def until(condition: Callable[[], object]) -> None:
    end = monotonic() + 180
    while not condition():
        if monotonic() > end:
            raise TimeoutError("it did not come true")
        sleep(0.01)


class Callers:
    """Two clients that call during the block: on a kept connection, and on new ones."""

    def __init__(
        self, trust: ssl.SSLContext, call: Callable[[httpx.Client], httpx.Response]
    ) -> None:
        self.answers: list[int] = []  # two threads count: they must not overwrite each other
        self.lost: list[str] = []
        self._trust, self._call = trust, call
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=[kept]) for kept in (0, 1)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def wait_for_more(self) -> None:
        """Wait until some more requests are answered."""
        wanted = len(self.answers) + 20
        until(lambda: len(self.answers) >= wanted or self.lost != [])

    def _run(self, kept: int) -> None:
        limits = httpx.Limits(max_keepalive_connections=kept)
        with httpx.Client(verify=self._trust, limits=limits, timeout=60) as client:
            while not self._stop.wait(0.005):
                try:
                    self.answers.append(self._call(client).raise_for_status().status_code)
                except httpx.HTTPError as error:
                    self.lost.append(repr(error))
