"""A TCP load balancer such as kube-proxy: each new connection goes to a ready process."""

import itertools
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlsplit

import httpx

POLL_SECONDS = 0.05


class Backend(NamedTuple):
    """A process behind the front."""

    url: str
    admin: str

    @property
    def address(self) -> tuple[str, int]:
        parts = urlsplit(self.url)
        return parts.hostname or "", parts.port or 0

    def ready(self) -> bool:
        try:
            return httpx.get(f"{self.admin}/readyz", timeout=60).is_success
        except httpx.HTTPError:
            return False


class Front:
    """Listens on loopback and passes bytes on. `backends` may be replaced at any time."""

    def __init__(self, backends: Sequence[Backend]) -> None:
        self.backends = tuple(backends)
        self._ready: tuple[Backend, ...] = tuple(backends)
        self._turn = itertools.count()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._open: list[socket.socket] = []

    def __enter__(self) -> Self:
        self._start(self._probe)
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for connection in self._open:
            connection.close()

    def _start(self, target: Callable[..., None], *arguments: socket.socket) -> None:
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _probe(self) -> None:
        while not self._stop.wait(POLL_SECONDS):
            self._ready = tuple(backend for backend in self.backends if backend.ready())

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            ready = self._ready
            try:
                server = socket.create_connection(ready[next(self._turn) % len(ready)].address)
            except (OSError, ZeroDivisionError):
                client.close()
                continue
            self._open += [client, server]
            self._start(self._pipe, client, server)
            self._start(self._pipe, server, client)

    def _pipe(self, source: socket.socket, output: socket.socket) -> None:
        """Pass bytes on until the source ends, and then say so to the sink."""
        with suppress(OSError):
            while data := source.recv(65536):
                output.sendall(data)
        with suppress(OSError):
            output.shutdown(socket.SHUT_WR)
