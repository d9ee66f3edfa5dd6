"""uvicorn as a task: an application on a port, stopped by cancellation and not by signals."""

import asyncio
import resource
import socket
import ssl
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Final, cast

import uvicorn
from fastapi import FastAPI

from webhook.httpserver.one_write import OneWrite
from webhook.httpserver.protocol import LimitedProtocol, PortLimits

GRACE_SECONDS: Final = 5
"""Seconds for responses in progress after the listener is closed."""


class HttpServer(uvicorn.Server):
    """Serve `app` on a port within limits, over HTTPS if there is a TLS context.

    The hooks of uvicorn's server are not documented API: `tests/webhook/httpserver` tests each.
    """

    def __init__(
        self,
        app: FastAPI,
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
        *,
        limits: PortLimits = PortLimits(),  # noqa: B008 - frozen
        refused: Callable[[int, str], None] = lambda _status, _reason: None,
    ) -> None:
        super().__init__(
            uvicorn.Config(
                OneWrite(app),
                interface="asgi3",
                http=LimitedProtocol,
                # Only reviews and probes are served: each further feature of uvicorn is code that a
                # client reaches.
                ws="none",
                lifespan="off",
                access_log=False,
                log_config=None,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=GRACE_SECONDS,
                ssl_context_factory=None if tls is None else lambda _config, _default: tls,
            )
        )
        self._address, self._limits = (host, port), limits
        self._protocol = partial(LimitedProtocol, limits, refused)
        self._socket: socket.socket | None = None

    def bind(self) -> int:
        """Open the port and return it; port 0 selects any free port, and an empty host all
        addresses. Raises OSError.
        """
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        # The usual soft limit of 1024 is about the number of connections of one port.
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        host = self._address[0]
        both = not host and socket.has_dualstack_ipv6()
        self._socket = socket.create_server(
            self._address,
            family=socket.AF_INET6 if both or ":" in host else socket.AF_INET,
            backlog=2048,
            dualstack_ipv6=both,
        )
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._limits.receive_buffer)
        port: int = self._socket.getsockname()[1]
        return port

    async def run(self) -> None:  # type: ignore[override]
        """Serve until cancelled, then finish the responses in progress."""
        if self._socket is None:
            self.bind()
        serving = asyncio.create_task(self.serve([self._socket] if self._socket else None))
        try:
            # Cancelling uvicorn's task would cut off the responses in progress.
            await asyncio.shield(serving)
        except asyncio.CancelledError:
            self.should_exit = True
            await serving
            raise

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen like uvicorn, with a timeout of TLS handshakes in addition."""
        await self.lifespan.startup()
        loop, tls = asyncio.get_running_loop(), self.config.ssl
        make = partial(self._protocol, self.config, self.server_state, self.lifespan.state)
        seconds = None if tls is None else self._limits.first_seconds
        self.servers = [
            await loop.create_server(
                make,
                sock=sock,
                ssl=tls,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=seconds,
            )
            for sock in sockets or ()
        ]
        self.started = True

    async def on_tick(self, counter: int) -> bool:
        """Close connections after their client timeout, once a second."""
        if counter % 10 == 0:
            now = asyncio.get_running_loop().time()
            for connection in tuple(self.server_state.connections):
                cast("LimitedProtocol", connection).close_idle(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop like uvicorn, and let cancelled requests be answered."""
        await super().shutdown(sockets)
        if self.server_state.tasks:
            # uvicorn cancels the tasks after the grace period and does not wait for their 503.
            await asyncio.wait(self.server_state.tasks, timeout=1)

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Leave signals to `webhook.app.runtime`: two servers share the process."""
        yield
