"""uvicorn's protocol for HTTP/1.1, within the bounds of its listener.

See docs/decisions/0026-uvicorn-with-bounds-of-our-own.md.
"""

import asyncio
from typing import Any, ClassVar, Final, cast
from urllib.parse import unquote

from httptools import HttpParserError, HttpParserUpgrade, parse_url
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from webhook.http.connections import Connection, Connections
from webhook.http.turns import TurnFlow

_OVERLOADED: Final = "too much is in flight; try again"


class BeyondBounds(Exception):  # noqa: N818 - named for what it is
    """What ends the reading of a connection in the middle of what was read."""


class BoundedProtocol(HttpToolsProtocol):
    """A connection that reads, keeps and waits for no more than it may.

    The parser hands over what it has read only once a header is whole, so what goes into it is
    counted, from the last time that something came of it.
    """

    __slots__ = (
        "_deaf",
        "_headers_max",
        "_partial",
        "_quiet",
        "_refusal",
        "_served",
        "_stuck",
        "_turn",
        "_wire",
        "arrival",
        "held",
        "shared",
        "since",
    )  # in a dictionary with more than 30 names, each is looked up more slowly

    listener: ClassVar[Connections]

    def __init__(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - as uvicorn calls it
        super().__init__(*arguments, **named)
        self.shared = self.listener
        self._headers_max = self.shared.bounds.headers
        self.arrival: Connection | None = None
        """What stood for the connection before there was a protocol."""
        self.since = self.shared.tick
        self.held = 0
        self._wire = cast("asyncio.Transport", None)
        self._turn = cast("TurnFlow", None)
        self._quiet = 0
        self._partial = self._served = self._deaf = self._stuck = False
        self._refusal: tuple[int, str] | None = None

    # What happens to the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvicorn narrows it too
        """Begin, by taking the place of what stood for it."""
        self._wire = transport
        transport.set_write_buffer_limits(self.shared.bounds.write_buffer)
        limit_reading = getattr(
            transport, "set_read_buffer_limits", None
        )  # of TLS alone, which keeps what is not decrypted
        if limit_reading is not None:
            limit_reading(self.shared.bounds.receive_buffer)
        if self.arrival is not None:
            self.since = self.arrival.since
            if not self.shared.remove(self.arrival):
                transport.abort()
                return
            self.arrival = None
        self.shared.add(self)
        if transport.is_closing():
            return
        super().connection_made(transport)
        self.flow = self._turn = TurnFlow(self.transport, self.shared.turns)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self.shared.remove(self)
        if self.transport is not None:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read, and end the connection when nothing comes of what is read."""
        if self._deaf:
            return
        self._quiet += len(data)
        try:
            self.parser.feed_data(data)
        except HttpParserError:
            self._leave()
            return
        except HttpParserUpgrade:  # to what, we do not know: the request is answered as any other
            pass
        cycle = self.cycle
        if cycle is None or cycle.scope is not self.scope or cycle.more_body:
            self._go_on_reading()
        else:
            self._partial = False
        if self._quiet > self.shared.bounds.head:
            self._refuse(431, self._too_long())

    def pause_writing(self) -> None:
        """Answer no more until the client has taken what was sent."""
        self._stuck = True
        self.since = self.shared.tick
        super().pause_writing()
        self.shared.stuck(self)

    def resume_writing(self) -> None:
        """Go on answering."""
        self._stuck = False
        self.shared.unstuck(self)
        super().resume_writing()

    # What the parser finds

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer, of which nobody wants to know."""
        headers = self.headers
        if len(headers) >= self._headers_max:
            self._stop(431, f"the request has more than {len(headers)} headers")
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Begin to answer the request, or queue it behind those before it."""
        if self._quiet > self.shared.bounds.head:
            self._check_head()
        if self.pipeline:
            self._queue()
        parser, scope, before = self.parser, self.scope, self.cycle
        version, url = parser.get_http_version(), parse_url(self.url)
        scope["method"] = parser.get_method().decode("ascii")
        scope["http_version"] = version
        scope["path"] = unquote(url.path.decode("ascii"))
        scope["raw_path"] = url.path
        scope["query_string"] = url.query or b""
        self.cycle = cycle = RequestResponseCycle(  # in order: names are a third of what this takes
            scope,
            self.transport,
            self.flow,
            self.logger,
            self.access_logger,
            self.access_log,
            self.server_state.default_headers,
            asyncio.Event(),
            self.expect_100_continue,
            version != "1.0" and parser.should_keep_alive(),
            self.on_response_complete,
        )
        if before is None or before.response_complete:
            self._start_asgi_task(cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))
        if self._deaf:
            raise BeyondBounds

    def on_body(self, body: bytes) -> None:
        """Take a part of the body, if there is room for it."""
        self._quiet = 0
        cycle = self.cycle
        if cycle.response_complete:
            self._read_in_turn()
            self.flow.resume_reading()
            return
        size = len(body)
        self.held += size
        shared = self.shared
        shared.held += size
        if shared.held > shared.bounds.in_flight:
            self._find_room()
        whole: bytes | bytearray = cycle.body
        if not whole:
            whole = body  # what comes in one part is not copied
        elif isinstance(whole, bytes):
            whole = bytearray(whole) + body
        else:
            whole += body
        cycle.body = cast("bytearray", whole)
        if self.held > HIGH_WATER_LIMIT:
            self._read_in_turn()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        """End a request."""
        self._quiet = 0
        cycle = self.cycle
        cycle.more_body = False
        cycle.message_event.set()

    # What becomes of the request

    def on_response_complete(self) -> None:
        """Go on with the next request; read more only when none is queued.

        There is no timer for a connection that is idle from now on: the sweep over all of them is
        cheaper.
        """
        self.server_state.total_requests += 1
        self._served = True
        self.since = self.shared.tick
        if self._wire.is_closing():
            return
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
            return
        if self.held:
            self.shared.release(self)
        self._turn.large = False
        self.flow.resume_reading()

    # What the listener asks and does

    def patience(self) -> int | None:
        """Return for how many seconds it may wait for its client, or None when the client waits for
        us.
        """
        bounds = self.shared.bounds
        if self._deaf:
            return bounds.linger_seconds
        if self._stuck or self._wire.is_closing():
            return bounds.request_seconds
        if self._partial:
            return bounds.head_seconds if self._in_head() else bounds.request_seconds
        if self.cycle is not None and not self.cycle.response_complete:
            return None
        return bounds.idle_seconds if self._served else bounds.first_byte

    def answered(self) -> bool:
        """Tell whether it has had an answer."""
        return self._served

    def proven(self) -> bool:
        """Tell whether it has had an answer, and asks for nothing new."""
        return self._served and not self._partial and not self._deaf

    def unfinished(self) -> bool:
        """Tell whether what it holds can be given up: the client sends a request still, or more
        than one.
        """
        return self._partial or bool(self.pipeline)

    def unsent(self) -> int:
        """Return the bytes of answers that its client has not taken."""
        return self._wire.get_write_buffer_size()

    def overload(self) -> None:
        """Give up what it holds, telling the client to try again."""
        self._refuse(503, _OVERLOADED)

    def end(self) -> None:
        """Close an idle connection in good order, and drop a client that is too slow."""
        if (
            self._partial
            or self._stuck
            or self._deaf
            or not self._served
            or self._wire.is_closing()
        ):
            self._wire.abort()
        else:
            self.transport.close()
            self.since = self.shared.tick

    def abort(self) -> None:
        """Close it without another byte."""
        self._deaf = True
        self._wire.abort()

    # Within

    def _read_in_turn(self) -> None:
        """Read on when the application asks for more, and the turn has come."""
        self._turn.large = True
        self.flow.pause_reading()

    def _in_head(self) -> bool:
        return self.cycle is None or self.cycle.scope is not self.scope

    def _go_on_reading(self) -> None:
        """Note that what was read ends within a request."""
        if not self._partial:
            self._partial = True
            if not self._stuck and (self._served or not self._in_head()):
                self.since = self.shared.tick

    def _leave(self) -> None:
        """Answer once the parser is left: for our own reasons, or for the client's mistakes."""
        if self._refusal is not None:
            self._refuse(*self._refusal)
        elif not self._deaf:
            self._refuse(_MALFORMED, "invalid HTTP request")

    def _check_head(self) -> None:
        """Look at a head that may be too large. Raises BeyondBounds when it is."""
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self.shared.bounds.head:
            self._stop(431, self._too_long())
        self._quiet = 0

    def _too_long(self) -> str:
        return f"the head of the request is larger than {self.shared.bounds.head} bytes"

    def _queue(self) -> None:
        """Count a request that has to wait; the one that is too many is answered with a 503 in its
        turn, and is the last.
        """
        bounds = self.shared.bounds
        self.held += bounds.queued_request
        self.shared.held += bounds.queued_request
        if len(self.pipeline) >= bounds.queue:
            self.app = cast("Any", _overloaded)
            self._deaf = True
            self.shared.refused(
                503, f"more than {bounds.queue} requests of one connection wait for their answers"
            )
        elif self.shared.held > bounds.in_flight:
            self._find_room()

    def _find_room(self) -> None:
        """Have the largest of the unfinished requests given up. Raises BeyondBounds when it is this
        one, or when there is none.
        """
        self.shared.relieve()
        if self._deaf:
            raise BeyondBounds
        if self.shared.held > self.shared.bounds.in_flight:
            self._stop(503, _OVERLOADED)

    def _stop(self, status: int, text: str) -> None:
        """Leave the parser, and answer once it is left. Raises BeyondBounds."""
        self._refusal = status, text
        raise BeyondBounds(text)

    def _refuse(self, status: int, text: str) -> None:
        """Answer in place of the application, and close; what the application still waits for will
        not come.

        A client that sent too much is not read from any more and finds the connection closed a
        little later: to be cut off at once would only let it begin again at once. A good one closes
        when it sees the answer.
        """
        if self._deaf:
            return
        self._deaf = True
        self.shared.release(self)
        self.shared.refused(status, text)
        body = text.encode()
        retry = b"retry-after: 1\r\n" if status == _UNAVAILABLE else b""
        head = (
            b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\n%bconnection: "
            b"close\r\n\r\n"
        ) % (len(body), retry)
        cycle = self.cycle  # of the request before this one, where that has had its answer
        answered = cycle is not None and cycle.response_complete and not cycle.more_body
        if cycle is None or answered or not cycle.response_started:
            self.transport.write(STATUS_LINE[status] + head + body)
        self.since = self.shared.tick
        if status == _MALFORMED:
            self.transport.close()
        else:
            self.flow.pause_reading()
            self._turn.ended = True
        if cycle is not None and not cycle.response_complete:
            cycle.body = bytearray()
            cycle.disconnected = True
            cycle.message_event.set()


_UNAVAILABLE: Final = 503
_MALFORMED: Final = 400


async def _overloaded(_scope: Scope, _receive: Receive, send: Send) -> None:
    """Answer a request that is one too many, as the last of its connection."""
    text = _OVERLOADED.encode()
    headers = [
        (b"content-length", b"%d" % len(text)),
        (b"retry-after", b"1"),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": _UNAVAILABLE, "headers": headers})
    await send({"type": "http.response.body", "body": text})


def bounded(protocol: type[HttpToolsProtocol], connections: Connections) -> type[BoundedProtocol]:
    """Return the protocol whose connections are kept within bounds together."""
    return cast(
        "type[BoundedProtocol]",
        type("Bounded", (BoundedProtocol, protocol), {"listener": connections}),
    )
