"""One connection to a server: a request is written on it, and httptools reads the response."""

import asyncio
import zlib
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Final, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

_CHUNK_BYTES: Final = 1 << 16
"""What of a stream may be worked on at a stretch, while reviews wait."""
_BUFFER_BYTES: Final = 1 << 21
"""Of a stream that nobody takes, before the server has to wait."""
_HEAD_BYTES: Final = 1 << 18
"""Of what comes before a body, informational responses included."""
_ERROR_BYTES: Final = 1 << 16
"""Of the body of a refusal: more is not read."""
_INFORMATIONAL: Final = 200
"""A status below it says that the response is still to come."""
SUCCESSES: Final = frozenset({200, 201, 202})
"""Any other status is a refusal's."""
_GZIP: Final = 16 + zlib.MAX_WBITS


class Connection(asyncio.Protocol):
    """A connection, with one request at a time.

    After `send`, wait for the `end`, or for the `head` and then take `chunks`. All raise OSError
    when the connection is lost before the response has ended, and are for one task at a time.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        """Is done when the connection is closed."""
        self.status = 0
        """Of the response, from its head on."""
        self.since = 0.0
        """Since when it is idle, by the clock of the loop."""
        self._transport: asyncio.Transport  # from `connection_made` on
        self._parser = HttpResponseParser(self)
        self._headers: dict[bytes, bytes] = {}
        self._inflate: Callable[[bytes], bytes] | None = None
        self._streaming = False
        self.begun = False
        """Whether anything of the response has come."""
        self._headed = False
        self._ended = True
        self._parts: deque[bytes] = deque()
        self._held = 0
        self._unheaded = 0
        self._paused = False
        self._error: OSError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    # What is asked

    def send(self, request: bytes, *, streaming: bool) -> None:
        """Write a request: of a response that is not `streaming` nothing is told before its end."""
        self._streaming = streaming
        self._rest()
        self.begun = self._headed = self._ended = False
        self._unheaded = 0
        self._transport.write(request)

    @property
    def usable(self) -> bool:
        """Tell whether another request can be sent: the last response has ended, and the server
        keeps the connection.
        """
        return self._ended and not self._transport.is_closing()

    def header(self, name: bytes) -> str:
        """Return a header of the response, whose name is given in lower case; empty without it."""
        return self._headers.get(name, b"").decode("latin-1").strip()

    async def head(self) -> None:
        """Wait until status and headers of the response are there."""
        while not self._headed:
            await self._news()

    async def end(self) -> None:
        """Wait until the response has ended."""
        while not self._ended:
            await self._news()

    def body(self) -> bytes:
        """Return what is there of the body."""
        return self._take(self._held)

    def chunks(self, idle: float) -> AsyncIterator[bytes]:
        """Return the body as it comes, at most 64 KiB or one chunk of HTTP at a time. When nothing
        comes for `idle` seconds, it raises TimeoutError.
        """
        return _Chunks(self, idle)

    async def next_chunk(self, idle: float) -> bytes:
        """Return the next part of the body, empty at its end."""
        if self._parts:
            await asyncio.sleep(0)  # a stream that is always ahead never waits: let others in
        while not self._parts and not self._ended:
            self._due = self._loop.time() + idle
            if self._timer is None:
                self._timer = self._loop.call_at(self._due, self._watch)
            await self._news()
        return self._take(_CHUNK_BYTES)

    def abort(self) -> None:
        """Close the connection without a farewell. A response that has not ended never does."""
        if not self._ended and self._error is None:
            self._error = ConnectionAbortedError("it was given up")
        self._transport.abort()

    # What the event loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Read what the server sent. Without a request it has nothing to say."""
        if self._ended:
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:  # its context is what one of the methods below raised
            self._fail(f"the response is not HTTP/1.1: {error.__context__ or error}")
        except HttpParserUpgrade:
            self._fail("the response is another protocol's")
        if not self._headed:
            self._unheaded += len(data)
            if self._unheaded > _HEAD_BYTES:
                self._fail(f"the head of the response is larger than {_HEAD_BYTES} bytes")

    def connection_lost(self, exc: Exception | None) -> None:
        """End: with the connection ends a response that says nothing of its length."""
        self._rest()
        if not self._ended and self._error is None:
            if self._headed and not (
                self.header(b"content-length") + self.header(b"transfer-encoding")
            ):
                self._ended = True
            elif isinstance(exc, OSError):
                self._error = exc
            else:
                self._error = ConnectionResetError("the server closed it")
        self.lost.set_result(None)
        self._wake()

    # What the parser tells

    def on_message_begin(self) -> None:
        """Begin a response. Raises ValueError for one that nobody asked for."""
        if self._ended:
            raise ValueError("a second response")
        self.begun = True
        self._headers = {}

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note a header."""
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        """Note that status and headers are known."""
        self.status = self._parser.get_status_code()
        if self.status >= _INFORMATIONAL:
            self._headed = True
            gzip = self.header(b"content-encoding") == "gzip"
            self._inflate = zlib.decompressobj(_GZIP).decompress if gzip else None
            if self._streaming:
                self._wake()

    def on_body(self, body: bytes) -> None:
        """Note a part of the body. Raises zlib.error."""
        if self._inflate is not None:
            body = self._inflate(body)
            if not body:  # which would be the end of a stream
                return
        self._parts.append(body)
        self._held += len(body)
        if self.status not in SUCCESSES and self._held > _ERROR_BYTES:
            self._ended = True
            self.abort()
            self._wake()
        elif self._streaming:
            self._wake()
            if self._held > _BUFFER_BYTES and not self._paused:
                self._paused = True
                self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """Note the end of a response."""
        if self._headed:
            self._ended = True
            if not self._parser.should_keep_alive():
                self._transport.close()
            self._wake()

    # What is between them

    async def _news(self) -> None:
        if self._error is not None:
            raise self._error
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        if self._error is not None:
            raise self._error

    def _fail(self, text: str) -> None:
        """End because of what the server sent."""
        if not self._ended:
            self._error = ConnectionError(text)
        self.abort()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _watch(self) -> None:
        """Look whether a stream is silent: one timer for all its chunks."""
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return
        if self._loop.time() < self._due:
            self._timer = self._loop.call_at(self._due, self._watch)
        else:
            self._waiter.set_exception(TimeoutError())

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _take(self, most: int) -> bytes:
        """Return what is there of the body: the first part, and more up to `most` bytes."""
        parts = self._parts
        if not parts:
            return b""
        some = [parts.popleft()]
        size = len(some[0])
        while parts and size + len(parts[0]) <= most:
            size += len(parts[0])
            some.append(parts.popleft())
        self._held -= size
        if self._paused and self._held <= _BUFFER_BYTES:
            self._paused = False
            self._transport.resume_reading()
        return b"".join(some)


class _Chunks:
    """The body of a stream."""

    def __init__(self, connection: Connection, idle: float) -> None:
        self._connection = connection
        self._idle = idle

    def __aiter__(self) -> "_Chunks":
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._connection.next_chunk(self._idle)
        if not chunk:
            raise StopAsyncIteration
        return chunk
