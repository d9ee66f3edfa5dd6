"""uvicorn as a runnable: one application on one port, ended by cancellation and never by a signal
of its own.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final, cast

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from webhook.http.bounded import BoundedProtocol, bounded
from webhook.http.bounds import Bounds
from webhook.http.connections import Connections
from webhook.http.listener import Listener
from webhook.http.peers import named_peers

GRACE_SECONDS: Final = 5
"""How long answers that are under way may take once the listener is closed."""


def _unheard(_status: int, _reason: str) -> None:
    """Tell nobody of a refusal."""


class _Server(uvicorn.Server):
    """uvicorn's server with a listener and connections of ours.

    Its hooks are not documented API: `tests.http` has tests for each.
    """

    def __init__(self, config: uvicorn.Config, connections: Connections) -> None:
        super().__init__(config)
        self._connections = connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, where uvicorn would have asyncio accept: it would not tell of a connection before
        the handshake is done.
        """
        await self.lifespan.startup()
        listeners = [
            Listener(each, self.config.ssl, self._connections, self._protocol)
            for each in sockets or ()
        ]
        self.servers = listeners  # type: ignore[assignment]  # of asyncio's servers uvicorn uses what these have too
        for listener in listeners:
            listener.open()
        self.started = True

    def _protocol(self) -> BoundedProtocol:
        made = cast("type[BoundedProtocol]", self.config.http_protocol_class)
        return made(self.config, self.server_state, self.lifespan.state)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals alone: two servers share this process, and `webhook.runtime` hears them for
        both.
        """
        yield


class HttpServer:
    """Serves `app` on a port, over HTTPS when there is a TLS context, and then only to
    `client_names` when there are any.
    """

    def __init__(  # noqa: PLR0913 - what a listener has
        self,
        app: FastAPI,
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
        client_names: Sequence[str] = (),
        *,
        bounds: Bounds = Bounds(),  # noqa: B008 - frozen
        refused: Callable[[int, str], None] = _unheard,
    ) -> None:
        self._address = (host, port)
        self._connections = Connections(bounds, refused)
        protocol = named_peers(client_names) if client_names else HttpToolsProtocol
        self._socket: socket.socket | None = None
        self._server = _Server(
            uvicorn.Config(
                app,
                interface="asgi3",
                http=bounded(protocol, self._connections),
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=GRACE_SECONDS,
                ssl_context_factory=None if tls is None else lambda _config, _default: tls,
            ),
            self._connections,
        )

    def bind(self) -> int:
        """Take the port and return it; port 0 takes any free one. Raises OSError when it cannot be
        had.
        """
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        self._socket = socket.create_server(self._address, family=family, backlog=2048)
        self._socket.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, self._connections.bounds.receive_buffer
        )
        port: int = self._socket.getsockname()[1]
        return port

    async def run(self) -> None:
        """Serve until cancelled, then finish the answers under way."""
        if self._socket is None:
            self.bind()
        watching = asyncio.create_task(self._connections.watch())
        serving = asyncio.create_task(
            self._server.serve(sockets=[self._socket] if self._socket else None)
        )
        try:
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            self._server.should_exit = True
            await serving
            raise
        finally:
            watching.cancel()
