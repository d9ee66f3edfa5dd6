"""An HTTPS listener on loopback with a certificate under rotation, and clients of it."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from time import monotonic, sleep
from typing import Self

from cryptography import x509
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse

from webhook.certs.certificate_watcher import CertificateFiles, CertificateWatcher
from webhook.certs.context import SwappingContext
from webhook.certs.issue import Pair, issue_authority, issue_server
from webhook.httpserver.protocol import PortLimits
from webhook.httpserver.server import HttpServer

POLL_SECONDS = 0.02
REFUSED = (ssl.SSLError, ConnectionError)
REQUEST = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n"


class Listener:
    """Serves `ok` with the pair in `directory`, and verifies clients by an authority if given."""

    def __init__(
        self,
        directory: Path,
        client_ca: Path | None = None,
        client_names: tuple[str, ...] = (),
        context: SwappingContext | None = None,
    ) -> None:
        self.context = context or SwappingContext(verify_clients=client_ca is not None)
        files = CertificateFiles(directory / "tls.crt", directory / "tls.key")
        self.watcher = CertificateWatcher(files, self.context, client_ca, POLL_SECONDS)
        limits = PortLimits(client_names=frozenset(client_names))
        self._server = HttpServer(
            _application(), "127.0.0.1", 0, self.context.listening, limits=limits
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        """Listen, without waiting for a certificate."""
        self.port = self._server.bind()
        self._stop = asyncio.Event()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        tasks = [asyncio.create_task(self._server.run()), asyncio.create_task(self.watcher.run())]
        await self._stop.wait()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextmanager
def listening(
    directory: Path,
    pair: Pair,
    client_ca: Path | None = None,
    client_names: tuple[str, ...] = (),
    context: SwappingContext | None = None,
) -> Iterator[Listener]:
    """Serve with a pair, which is written into the directory and loaded before the block."""
    write(directory, pair)
    with Listener(directory, client_ca, client_names, context) as listener:
        until(lambda: listener.watcher.loads)
        yield listener


def _application() -> FastAPI:
    app = FastAPI()

    @app.get("/")
    async def root() -> PlainTextResponse:
        return PlainTextResponse("ok")

    return app


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


def until(condition: Callable[[], object], seconds: float = 180) -> None:
    end = monotonic() + seconds
    while not condition():
        if monotonic() > end:
            raise TimeoutError("it did not come true")
        sleep(0.01)
