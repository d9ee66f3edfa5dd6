"""uvicorn's HTTP/1.1 protocol with limits: this module counts and times, and parses nothing.

See docs/contributing/decisions/0026-uvicorn-with-bounds-of-our-own.md.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Final

from httptools import HttpParserError, HttpParserUpgrade
from starlette.exceptions import HTTPException
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from webhook.httpserver.body_budget import IN_FLIGHT_MAX
from webhook.httpserver.connections import excess_connections, names_of

_HEAD: Final = b"content-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b"


@dataclass(frozen=True)
class PortLimits:
    """Limits of a port, in bytes, seconds and numbers. See docs/contributing/hardening.md."""

    connections: int = 1000  # of which half from 1 address
    head: int = 64 * 1024  # plus the rest of a read
    headers: int = 100  # many short headers take more memory than a long one
    queue: int = 32  # pipelined requests; kube-apiserver sends none
    unsent: int = IN_FLIGHT_MAX  # responses of all connections
    buffer: int = 64 * 1024  # responses of a connection
    receive_buffer: int = 16 * 1024  # in the kernel, and in TLS while reading is paused
    first_seconds: float = 15  # for the handshake, and then to the first byte of a request
    request_seconds: float = (
        30  # to the last byte of a request, and for the client to read a response
    )
    refusal_seconds: float = 1  # for the client to read a refusal before the connection is closed
    client_names: frozenset[str] = frozenset()  # in client certificates; empty for any
    unread_seconds: float = 0.0005  # for each connection: between reads of refused data
    idle_seconds: float = 120  # kube-apiserver closes after 90 s, and does not retry a POST


class LimitedProtocol(HttpToolsProtocol):
    """A connection that uses a limited number of bytes, for a limited time.

    `pending` counts bytes since the last header block or part of a body, and `busy` requests
    without a response. `last` is a refusal: it is sent after earlier responses, and reading stops.
    `proven`: the client has a certificate, or a review of it was answered.
    """

    connections: "set[LimitedProtocol]"  # type: ignore[assignment]  # one kind alone
    last: bytes | None
    __slots__ = ("born", "busy", "last", "limits", "partial", "pending", "proven", "refused", "since")  # fmt: skip  # noqa: E501 - a dictionary of more than 30 names is slow

    def __init__(
        self,
        limits: PortLimits,
        refused: Callable[[int, str], None],
        *uvicorn: Any,  # noqa: ANN401 - uvicorn decides the arguments
    ) -> None:
        super().__init__(*uvicorn)
        self.limits, self.refused = limits, refused
        self.born = self.since = self.loop.time()
        self.busy = self.pending = 0
        self.partial = False
        self.headers, self.last = [], None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(self.limits.buffer)
        # Only asyncio's TLS transport has a read buffer of its own.
        if self.scheme == "https":
            transport.set_read_buffer_limits(self.limits.receive_buffer)  # type: ignore[attr-defined]
        certificate, client_names = transport.get_extra_info("peercert"), self.limits.client_names
        self.proven = bool(certificate)
        limit = self.limits.connections
        excess = excess_connections(self, self.connections, limit)
        # The CA may have signed certificates of other clients.
        if client_names and names_of(certificate or {}).isdisjoint(client_names):
            excess = (self,)
        elif excess:
            self.refused(503, f"more than {limit} connections, or {limit // 2} of one address")
        for connection in excess:
            self.connections.discard(connection)
            # `close` waits until the client has read what is unsent, which it may never do.
            connection.transport.abort()

    def data_received(self, data: bytes) -> None:
        # The connection ends after its refusal; bytes behind a rejected request have no meaning.
        if self.last is not None:
            return
        self.pending += len(data)
        refusal = None
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade:  # answered in HTTP/1.1, as the last request
            self.cycle.keep_alive, self.last = False, b""
        except HttpParserError as error:
            refusal = HTTPException(400, "invalid HTTP request")
            if isinstance(error.__context__, HTTPException):  # raised by a callback of this class
                refusal = error.__context__
        # The parser stores the head without a limit of its own: a header value that never ends took
        # all memory.
        if self.pending > self.limits.head or len(self.headers) > self.limits.headers:
            refusal = HTTPException(431, "the head of the request is too large")
        if refusal is not None:
            self._refuse(refusal)

    def on_message_begin(self) -> None:
        HttpToolsProtocol.on_message_begin(self)
        self.partial, self.since = True, self.loop.time()

    def on_headers_complete(self) -> None:
        self.pending = 0
        # Before uvicorn's method, which starts the application.
        _check(self.headers, self.parser.get_http_version(), len(self.pipeline), self.limits)
        HttpToolsProtocol.on_headers_complete(self)
        self.busy += 1

    def on_body(self, body: bytes) -> None:
        self.pending = 0
        if (
            self.cycle.response_complete and not self.flow.read_paused
        ):  # no application reads the body
            self.flow.pause_reading()
            # Read on, because closing now may discard the response; slower, the more connections do
            # so.
            pause = self.limits.unread_seconds * len(self.connections)
            self.loop.call_later(pause, self._read_on)
        HttpToolsProtocol.on_body(self, body)

    def _read_on(self) -> None:
        if not self.transport.is_closing() and self.last is None:
            self.flow.resume_reading()

    def on_message_complete(self) -> None:
        self.pending, self.partial = 0, False
        self.cycle.more_body = False
        self.cycle.message_event.set()

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self.busy -= 1
        if not self.partial:
            self.since = self.loop.time()
        if self.transport.is_closing():
            return
        # Complete requests are answered before a later one is refused.
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
        # uvicorn pauses reading while requests are queued.
        elif self.last is None:
            self.flow.resume_reading()
        else:
            self._finish()

    def shutdown(self) -> None:
        if self.busy:
            self.cycle.keep_alive = False
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        HttpToolsProtocol.pause_writing(self)
        self.since = self.loop.time()
        stuck = {
            connection.transport for connection in self.connections if connection.flow.write_paused
        }
        unsent = {transport: transport.get_write_buffer_size() for transport in stuck}
        if sum(unsent.values()) > self.limits.unsent:
            max(unsent, key=unsent.__getitem__).abort()

    def _refuse(self, refusal: HTTPException) -> None:
        """Answer instead of the application, in order; drop the request with an incomplete body."""
        status, body = refusal.status_code, refusal.detail.encode()
        self.refused(status, refusal.detail)
        self.last = STATUS_LINE[status] + _HEAD % (len(body), body)
        cycle = self.cycle
        if self.partial and cycle and cycle.scope is self.scope:
            self.busy -= not cycle.response_complete
            # A second status line within a response would be read as part of its body.
            self.last = b"" if cycle.response_started else self.last
            cycle.disconnected = True
            cycle.message_event.set()
            if self.pipeline and self.pipeline[0][0] is cycle:
                self.pipeline.popleft()
        self._finish()

    def _finish(self) -> None:
        """Send the refusal in order; the connection is closed later, because closing may discard
        it.
        """
        if not self.busy and not self.transport.is_closing():
            self.flow.pause_reading()
            self.transport.write(self.last or b"")
            self.since = self.loop.time()

    def idle_limit(self) -> float:
        """Return the client timeout in seconds: infinite while a response is being computed."""
        limits, reads = self.limits, self.last is None
        if self.flow.write_paused or self.transport.is_closing() or (self.partial and reads):
            return limits.request_seconds
        # The time of a review is limited by its own deadline, not by that of the client.
        if self.busy:
            return inf
        if reads:
            return limits.idle_seconds if self.cycle else limits.first_seconds
        return limits.refusal_seconds

    def close_idle(self, now: float) -> None:
        """Close the connection after the client timeout."""
        if now - self.since > self.idle_limit():
            # `close` first sends what is unsent, which never ends if the client does not read.
            calm = not (self.partial or self.flow.write_paused or self.transport.is_closing())
            (self.transport.close if calm else self.transport.abort)()
            self.since = now


def _check(
    headers: Sequence[tuple[bytes, bytes]], version: str, queued: int, limits: PortLimits
) -> None:
    """Refuse a head that RFC 9112 forbids and the parser accepts, and heads above a limit.

    Raises HTTPException.
    """
    names = [name for name, _ in headers]
    hosts = names.count(b"host")
    # https://www.rfc-editor.org/rfc/rfc9112#section-3.2
    if hosts != 1 and (hosts or version != "1.0"):
        raise HTTPException(400, f"the request has {hosts} Host headers, not 1")
    if names.count(b"content-type") > 1:
        raise HTTPException(400, "the request has more than 1 Content-Type header")
    if len(names) > limits.headers:
        raise HTTPException(431, f"the request has more than {limits.headers} headers")
    if queued >= limits.queue:
        raise HTTPException(503, f"more than {limits.queue} requests wait for an answer")
