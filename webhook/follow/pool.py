"""Connections to one server, which are used for one request after the other."""

import asyncio
import ssl
from typing import Final

from msgspec import Struct

from webhook import __version__
from webhook.follow.connection import SUCCESSES, Connection
from webhook.follow.dialing import Dialer, Server, written

_IDLE_SECONDS: Final = 30.0
"""How long a connection is kept for the next request. The API server closes it after 90 s."""
_IDLE_MAX: Final = 16


class Response(Struct, frozen=True):
    """What we read of a response, and the connection that it came on.

    The success of a stream has no body: take the chunks of its connection, and abort that.
    """

    connection: Connection
    status: int
    retry_after: str = ""
    body: bytes = b""


class Pool:
    """Connections to one server; `close` it after. Callers bound how many requests are under way.

    Raises ValueError when this is no server of HTTP, or its proxy is none.
    """

    def __init__(self, server: Server, tls: ssl.SSLContext) -> None:
        self.server = server
        self._dialer = Dialer(server, tls)
        self._lines = written({"User-Agent": f"ray-webhook/{__version__}", **self._dialer.headers})
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._closed = False

    async def request(
        self,
        method: str,
        target: str,
        lines: bytes,
        body: bytes = b"",
        *,
        streaming: bool = False,
    ) -> Response:
        """Return the response to a request with the headers that are `written` in `lines`. Raises
        OSError.

        A GET is repeated when the server had closed the connection meanwhile; of other requests
        nobody knows then what became of them.
        """
        message = b"%b %b HTTP/1.1\r\n%b%b%b\r\n%b" % (
            method.encode(),
            f"{self._dialer.prefix}{target}".encode("ascii"),
            self._lines,
            lines,
            b"Content-Length: %d\r\n" % len(body) if body else b"",
            body,
        )
        connection = self._kept()
        if connection is not None:
            try:
                return await self._asked(connection, message, streaming=streaming)
            except ConnectionError:
                if method != "GET" or connection.begun or self._closed:
                    raise
        return await self._asked(await self._opened(), message, streaming=streaming)

    async def close(self) -> None:
        """Close all connections, and those that are being opened once they are open."""
        self._closed = True
        self._idle.clear()
        closing = [connection.lost for connection in self._open]
        for connection in self._open:
            connection.abort()
        if closing:
            await asyncio.wait(closing)

    async def _asked(self, connection: Connection, message: bytes, *, streaming: bool) -> Response:
        try:
            connection.send(message, streaming=streaming)
            if streaming:
                await connection.head()
                if connection.status in SUCCESSES:
                    return Response(connection, connection.status)
            await connection.end()
        except BaseException:
            connection.abort()
            raise
        response = Response(
            connection, connection.status, connection.header(b"retry-after"), connection.body()
        )
        if connection.usable and len(self._idle) < _IDLE_MAX:
            connection.since = asyncio.get_running_loop().time()
            self._idle.append(connection)
        else:
            connection.abort()
        return response

    def _kept(self) -> Connection | None:
        """Return the connection that was idle for the shortest time, if it may still be open."""
        begin = asyncio.get_running_loop().time() - _IDLE_SECONDS
        while self._idle:
            connection = self._idle.pop()
            if connection.usable and connection.since >= begin:
                return connection
            connection.abort()
        return None

    async def _opened(self) -> Connection:
        connection = await self._dialer.open()
        self._open.add(connection)
        connection.lost.add_done_callback(lambda _: self._open.discard(connection))
        if self._closed:
            connection.abort()
            raise ConnectionAbortedError("it was given up")
        return connection
