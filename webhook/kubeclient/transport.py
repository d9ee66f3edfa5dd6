"""Requests to a server over aiohttp: limits of response sizes, and mapping of failures."""

import asyncio
import ssl
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from typing import Final

import aiohttp
from msgspec import Struct
from yarl import URL

from webhook import __version__
from webhook.kubeclient.errors import ApiError, Garbled

SUCCESSES: Final = frozenset({200, 201, 202})
"""Any other status is a failure."""

BODY_BYTES: Final = 1 << 26
"""Limit of the body of a successful response, after decompression. A page that exceeds it is read
again in smaller pages.
"""
_REFUSAL_BYTES: Final = 1 << 16
"""Bytes of the body of a failure that are read."""
_CHUNK_BYTES: Final = 1 << 16
"""Bytes of a body that are handled at once, which delays reviews."""
_IDLE_SECONDS: Final = 30.0
"""How long an idle connection is kept. The API server closes it after 90 s."""
_FAILURES: Final = (aiohttp.ClientError, OSError, RuntimeError)
"""Exceptions of aiohttp; RuntimeError is raised by a closed session."""
_NO_TIMEOUT: Final = aiohttp.ClientTimeout()
"""Callers have their own deadlines."""
_GZIP: Final = 16 + zlib.MAX_WBITS


class Server(Struct, frozen=True):
    """The address of a server, and how to connect.

    `url` may have a path, which is the prefix of that of every request, and user and password. The
    certificate has to match the name `tls_name`, or the host if it is empty.
    """

    url: str
    tls_name: str = ""
    proxy: str = ""


class Response(Struct, frozen=True):
    """A response. After a failure, `body` is its beginning; the body of a successful stream is read
    from `chunks`, and the response has to be closed.
    """

    status: int
    retry_after: str
    date: str
    body: bytes
    chunks: AsyncIterator[bytes]
    close: Callable[[], None]


class Transport:
    """Sends requests to a server over a pool of connections; `close` it after use.

    Needs a running event loop. Raises ValueError if the URL of the server or its proxy is not http
    or https.

    A GET is retried once if a pooled connection turns out to be closed, and a write is not. The
    certificate of a TLS proxy is verified like that of the server, as in kubectl. See
    docs/contributing/decisions/0031-requests-to-the-api-server.md.
    """

    def __init__(self, server: Server, tls: ssl.SSLContext) -> None:
        self.server = server
        self.tls = tls
        url = _url(server.url)
        self._user = _basic(url)
        self._prefix = str(url.with_user(None)).rstrip("/")
        self._proxy = _url(server.proxy) if server.proxy else None
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": f"ray-webhook/{__version__}"},
            auto_decompress=False,
            middlewares=[_once],
        )
        self._open: set[aiohttp.ClientResponse] = set()

    async def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        idle: float | None = None,
    ) -> Response:
        """Return the response to a request, as a stream if `idle` is set: TimeoutError is raised
        after that many seconds without data. Raises ApiError.
        """
        if self._user and "Authorization" not in headers:
            headers = {**headers, "Authorization": self._user}
        try:
            response = await self._session.request(
                method,
                URL(f"{self._prefix}{target}", encoded=True),
                headers=headers,
                data=body or None,
                allow_redirects=False,
                proxy=self._proxy,
                ssl=self.tls,
                server_hostname=self.server.tls_name or None,
                timeout=_NO_TIMEOUT,
            )
        except _FAILURES as error:
            raise self._failure(error) from error
        self._open.add(response)
        status, chunks = response.status, self._chunks(response, idle)
        if response.headers.get("Content-Encoding", "").strip().lower() == "gzip":
            chunks = _inflated(chunks)
        body = b""
        if idle is None or status not in SUCCESSES:
            try:
                body = await _whole(chunks, status)
            finally:
                self._end(response)
        retry_after = response.headers.get("Retry-After", "").strip()
        date = response.headers.get("Date", "").strip()
        return Response(status, retry_after, date, body, chunks, partial(self._end, response))

    async def close(self) -> None:
        """Close all connections. Requests in progress fail."""
        for response in self._open:  # aiohttp would not wake their readers
            response.content.set_exception(aiohttp.ClientConnectionError("it was closed"))
        await self._session.close()

    def _end(self, response: aiohttp.ClientResponse) -> None:
        response.close()
        self._open.discard(response)

    async def _chunks(
        self, response: aiohttp.ClientResponse, idle: float | None
    ) -> AsyncIterator[bytes]:
        content = response.content
        while not content.at_eof() or content.exception() is not None:
            try:
                if idle is None:
                    chunk = await content.read(_CHUNK_BYTES)
                else:
                    async with asyncio.timeout(idle):
                        chunk = await content.read(_CHUNK_BYTES)
            except _FAILURES as error:
                raise self._failure(error) from error
            if chunk:
                yield chunk
            if len(chunk) == _CHUNK_BYTES:  # reads of buffered data never suspend
                await asyncio.sleep(0)

    def _failure(self, error: Exception) -> Exception:
        """Return the ApiError for a failure of aiohttp; a TimeoutError is returned as it is, and so
        is a RuntimeError while the session is open.
        """
        reason, text = "refused", "no connection to the API server"
        if isinstance(error, TimeoutError):
            return TimeoutError()
        if isinstance(error, RuntimeError) and not self._session.closed:
            return error
        if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
            reason, text = "tls", f"no TLS connection to the API server: {_cause(error)}"
        elif isinstance(error, aiohttp.ClientHttpProxyError):
            text += f": the proxy answers {error.status} {error.message} to CONNECT"
        elif isinstance(error, aiohttp.ClientConnectorError):
            text += f": {error.host}:{error.port}: {_cause(error)}"
        else:
            what = str(error) or type(error).__name__
            reason, text = "disconnected", f"the connection to the API server broke: {what}"
        return ApiError(reason, text)


async def _once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Send a write once: aiohttp would retry a PUT and a DELETE after these two failures, although
    the server may have executed it.
    """
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        if request.method == "GET" or isinstance(error, aiohttp.ClientConnectorError):
            raise
        raise aiohttp.ClientConnectionError(str(error)) from error


async def _whole(chunks: AsyncIterator[bytes], status: int) -> bytes:
    """Return a body, or the beginning of that of a failure. Raises ApiError."""
    success = status in SUCCESSES
    most = BODY_BYTES if success else _REFUSAL_BYTES
    parts, size = [], 0
    async for part in chunks:
        parts.append(part)
        size += len(part)
        if size > most:
            if success:
                text = f"the API server's response is larger than {most >> 20} MiB"
                raise ApiError("large", text)
            break
    return b"".join(parts)


async def _inflated(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Decompress a gzip body in parts. Raises Garbled if it is truncated."""
    inflate = zlib.decompressobj(_GZIP)
    try:
        async for chunk in chunks:
            while chunk:
                yield inflate.decompress(chunk, _CHUNK_BYTES)
                chunk = inflate.unconsumed_tail  # noqa: PLW2901 - the rest of it
                if chunk:
                    await asyncio.sleep(0)
    except zlib.error as error:
        raise Garbled("garbled", f"the API server's response is not gzip: {error}") from error
    if not inflate.eof or inflate.unused_data:
        raise Garbled("garbled", "the API server's response is not one complete gzip body")


def _cause(error: BaseException) -> str:
    """Return the message of the system or OpenSSL: aiohttp's own message contains representations
    of its objects.
    """
    cause = error.__cause__ or error
    return str(cause) or type(cause).__name__


def _url(text: str) -> URL:
    """Return the URL of a server. Raises ValueError, without the password."""
    try:
        url = URL(text)
        if url.scheme in {"http", "https"} and (url.raw_host or "").encode("idna") and url.port:
            return url
    except ValueError:  # includes UnicodeError
        pass
    host = text.rpartition("@")[2]
    raise ValueError(f"{host!r} is not a URL of http or https") from None


def _basic(url: URL) -> str:
    if url.user is None:
        return ""
    user = f"{url.user}:{url.password or ''}"
    return f"Basic {b64encode(user.encode()).decode()}"
