"""uvicorn as a runnable: one application on one port, ended by cancellation and never by a signal of its own."""

import asyncio
import socket
import ssl
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from webhook.http.coalescing import coalescing
from webhook.http.peers import named_peers

KEEP_ALIVE_SECONDS: Final = 120
"""Above the 90 s for which kube-apiserver keeps an idle connection: it does not retry a POST that meets a closing one."""

GRACE_SECONDS: Final = 5
"""How long answers that are under way may take once the listener is closed."""


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals alone: two servers share this process, and `webhook.runtime` hears them for both.

        This hook is not documented API; a test runs two servers and a signal.
        """
        yield


class HttpServer:
    """Serves `app` on a port, over HTTPS when there is a TLS context, and then only to `client_names` when there are any."""

    def __init__(
        self, app: FastAPI, host: str, port: int, tls: ssl.SSLContext | None = None, client_names: Sequence[str] = ()
    ) -> None:
        self._address = (host, port)
        self._socket: socket.socket | None = None
        self._server = _Server(
            uvicorn.Config(
                app,
                http=coalescing(named_peers(client_names) if client_names else HttpToolsProtocol),
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=GRACE_SECONDS,
                ssl_context_factory=None if tls is None else lambda _config, _default: tls,
            )
        )

    def bind(self) -> int:
        """Take the port and return it; port 0 takes any free one. Raises OSError when it cannot be had."""
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        self._socket = socket.create_server(self._address, family=family, backlog=2048)
        port: int = self._socket.getsockname()[1]
        return port

    async def run(self) -> None:
        """Serve until cancelled, then finish the answers under way."""
        if self._socket is None:
            self.bind()
        serving = asyncio.create_task(self._server.serve(sockets=[self._socket] if self._socket else None))
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            self._server.should_exit = True
            await serving
            raise
