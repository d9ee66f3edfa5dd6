"""The client of the API server: requests with deadlines over aiohttp, limits of response sizes, and
errors by their cause.

See docs/contributing/decisions/0031-requests-to-the-api-server.md.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from math import inf
from time import monotonic
from typing import Final, TypeVar
from urllib.parse import quote, urlencode

import aiohttp
import msgspec
from aiohttp.http_exceptions import LineTooLong
from yarl import URL

from webhook import __version__
from webhook.kubeclient.access import Connection, Load
from webhook.kubeclient.errors import (
    ApiError,
    ConfigurationError,
    Expired,
    Garbled,
    Status,
    oneline,
)

Query = Sequence[tuple[str, str]]

Operation = Mapping[str, object]
"""An operation of a JSON Patch."""

T = TypeVar("T")

BODY_BYTES: Final = 1 << 26
"""Limit of the body of a successful response, after decompression. A page that exceeds it is read
again in smaller pages.
"""
LINE_BYTES: Final = 1 << 24
"""Limit of a line of a stream. etcd stores objects of up to 1.5 MiB."""

_REFUSAL_BYTES: Final = 1 << 16
"""Bytes of the body of a failure that are read."""
_CHUNK_BYTES: Final = 1 << 16
"""Bytes of a body that are handled at once, which delays reviews."""
_IDLE_SECONDS: Final = 30.0
"""How long an idle connection is kept. The API server closes it after 90 s."""
_OPEN_SECONDS: Final = 30.0
_FAILURES: Final = (aiohttp.ClientError, OSError)
_SUCCESSES: Final = frozenset({200, 201, 202})
_UNAUTHORIZED: Final = 401
_THROTTLED: Final = 429
_THROTTLED_SECONDS: Final = 1.0
_THROTTLED_REPEATS: Final = 5
"""Retries after 429. Then the callers have their own backoff."""
_SAFE: Final = "/%:@!$&'()*+,;=~?#[]"
_encode: Final = msgspec.json.Encoder().encode
_REASONS: Final = {
    401: "unauthorized",
    403: "forbidden",
    404: "missing",
    409: "conflict",
    410: "expired",
    422: "invalid",
    429: "throttled",
}

_WRITE: Final = {"Accept": "application/json", "Accept-Encoding": "identity"}
_JSON: Final = {**_WRITE, "Content-Type": "application/json"}
_JSON_PATCH: Final = {**_WRITE, "Content-Type": "application/json-patch+json"}
_READ: Final = {"Accept": "application/json", "Accept-Encoding": "gzip"}
"""The API server compresses responses of more than 128 KiB, except for watches."""
_METADATA, _LIST_METADATA = (
    {**_READ, "Accept": f"application/json;as={kind};g=meta.k8s.io;v=v1,application/json"}
    for kind in ("PartialObjectMetadata", "PartialObjectMetadataList")
)


class ServerTime:
    """A lower bound of the API server's time (Unix time); -inf before the first response.

    The bound never decreases: a response may be read long after it was sent, and the clocks of API
    server replicas differ by a second or two.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._ahead = -inf
        self._date = ""

    def now(self) -> float:
        return self._clock() + self._ahead

    def observe(self, date: str) -> None:
        """Update the bound by the `Date` of a new response; an invalid date is ignored."""
        if date == self._date or not date:
            return
        try:
            at = parsedate_to_datetime(date).timestamp()
        except (ValueError, OverflowError):
            return
        self._date = date
        self._ahead = max(self._ahead, at - self._clock())


class Api:
    """A client of an API server. Call `open` before the first request, and `close` after the last.

    A GET is retried once if a pooled connection turns out to be closed, and a write is not. The
    certificate of a TLS proxy is verified like that of the server, as in kubectl.
    """

    def __init__(self, load: Load) -> None:
        self.server_time = ServerTime()
        self._connection = Connection(load)
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Load the configuration without sending a request. Raises ConfigurationError."""
        try:
            await self._connection.load()
        except (OSError, ValueError) as error:
            msg = (
                f"no connection to Kubernetes can be configured: {error}; run in a pod with a "
                "service account, or name a kubeconfig"
            )
            raise ConfigurationError(msg) from error
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": f"ray-webhook/{__version__}"},
            timeout=aiohttp.ClientTimeout(),  # callers have their own deadlines
            middlewares=[_once],
        )

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def get(
        self, path: str, query: Query, deadline: float, *, metadata_only: bool = False
    ) -> bytes:
        """Return the body of a successful GET, of a list with `metadata_only`, within `deadline`
        seconds. Raises ApiError.
        """
        headers = _LIST_METADATA if metadata_only else _READ
        return await self._answer("GET", headers, path, query, deadline)

    async def metadata(self, path: str, deadline: float) -> bytes:
        """Return the metadata of an object. Raises ApiError."""
        return await self._answer("GET", _METADATA, path, (), deadline)

    async def create(
        self, path: str, body: Mapping[str, object], deadline: float, query: Query = ()
    ) -> bytes:
        """Create an object in the collection at `path`, and return it. Raises ApiError, with reason
        `conflict` if it exists.
        """
        return await self._answer("POST", _JSON, path, query, deadline, body)

    async def patch(self, path: str, operations: Sequence[Operation], deadline: float) -> None:
        """Apply a JSON Patch (RFC 6902). Raises ApiError, with reason `conflict` for a 409."""
        await self._answer("PATCH", _JSON_PATCH, path, (), deadline, operations)

    async def replace(
        self, path: str, body: Mapping[str, object], deadline: float, query: Query = ()
    ) -> bytes:
        """Replace an object with the version in `body`, and return it. Raises ApiError, with reason
        `conflict` for a 409.
        """
        return await self._answer("PUT", _JSON, path, query, deadline, body)

    async def delete(self, path: str, uid: str, version: str, deadline: float) -> None:
        """Delete the object at `path` if it still has this uid and version. Raises ApiError, with
        reason `conflict` if not.
        """
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"uid": uid, "resourceVersion": version},
        }
        await self._answer("DELETE", _JSON, path, (), deadline, options)

    @asynccontextmanager
    async def stream(
        self, path: str, query: Query, idle: float, *, metadata_only: bool = False
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a GET, and yield the lines of its body; more than `idle` seconds without data is a
        failure. Raises ApiError.
        """
        headers, target = _METADATA if metadata_only else _READ, _target(path, query)
        response, _ = await self._request("GET", headers, target, _OPEN_SECONDS, idle=idle)
        try:
            yield _lines(response, idle)
        finally:
            response.close()

    async def _answer(
        self,
        method: str,
        headers: Mapping[str, str],
        path: str,
        query: Query,
        deadline: float,
        content: object = None,
    ) -> bytes:
        body = None if content is None else _encode(content)
        return (await self._request(method, headers, _target(path, query), deadline, body))[1]

    async def _request(
        self,
        method: str,
        headers: Mapping[str, str],
        target: str,
        deadline: float,
        body: bytes | None = None,
        idle: float | None = None,
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        """Return a successful response, and its body unless it is a stream, which has `idle`
        seconds. After 401 the credentials are loaded again, and the request is retried once; after
        429, for which the API server guarantees that nothing was changed, it is retried within the
        deadline.
        """
        renewed, repeats, end = False, _THROTTLED_REPEATS, monotonic() + deadline
        try:
            async with asyncio.timeout(deadline):
                while True:
                    response = await self._send(method, target, headers, body, idle)
                    if idle is not None and response.status in _SUCCESSES:
                        return response, b""
                    async with response:
                        content = await _content(response)
                    if response.status in _SUCCESSES:
                        return response, content
                    pause = _retry_after(response, _THROTTLED_SECONDS)
                    if response.status == _UNAUTHORIZED and not renewed:
                        renewed = True
                        await self._connection.renew()
                    elif response.status == _THROTTLED and repeats and monotonic() + pause < end:
                        repeats -= 1
                        await asyncio.sleep(pause)
                    else:
                        raise _refusal(response, content)
        except TimeoutError as error:
            raise _silent(f"within {deadline:g} s") from error

    async def _send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        idle: float | None,
    ) -> aiohttp.ClientResponse:
        own = self._connection
        authorization = await own.authorization() if self._session else {}
        if self._session is None:
            raise ApiError("closed", "the connection to the API server is not open")
        try:
            response = await self._session.request(
                method,
                URL(f"{own.prefix}{target}", encoded=True),
                headers={**headers, **authorization},
                data=body,
                allow_redirects=False,
                proxy=own.proxy,
                ssl=own.tls(),
                server_hostname=own.tls_name,
                timeout=None if idle is None else aiohttp.ClientTimeout(sock_read=idle),
            )
        except _FAILURES as error:
            raise _failure(error) from error
        self.server_time.observe(response.headers.get("Date", "").strip())
        return response


def _target(path: str, query: Query) -> str:
    target = quote(path, safe=_SAFE)  # a single line: prevents request injection
    return f"{target}?{urlencode(query, quote_via=quote)}" if query else target


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


async def _content(response: aiohttp.ClientResponse) -> bytes:
    """Return the body, or the beginning of that of a failure. Raises ApiError."""
    success = response.status in _SUCCESSES
    most, parts, size = BODY_BYTES if success else _REFUSAL_BYTES, [], 0
    try:
        async for part in response.content.iter_chunked(_CHUNK_BYTES):
            parts.append(part)
            size += len(part)
            if size > most and success:
                raise ApiError(
                    "large", f"the API server's response is larger than {most >> 20} MiB"
                )
            if size > most:
                break
            await asyncio.sleep(0)  # reads of buffered data never suspend
    except _FAILURES as error:
        raise _failure(error) from error
    return b"".join(parts)


async def _lines(response: aiohttp.ClientResponse, idle: float) -> AsyncIterator[bytes]:
    """Yield the complete lines of a body, without their newline. Raises ApiError."""
    handled = 0
    try:
        while line := await response.content.readline(max_line_length=LINE_BYTES):
            if not line.endswith(b"\n"):
                text = f"the watch ended within a line, after {len(line)} bytes of it"
                raise Garbled("truncated", text)
            if line != b"\n":
                yield line[:-1]
            handled += len(line)
            if handled >= _CHUNK_BYTES:  # reads of buffered data never suspend
                handled = 0
                await asyncio.sleep(0)
    except LineTooLong as error:
        text = f"the watch has a line of more than {LINE_BYTES >> 20} MiB"
        raise Garbled("garbled", text) from error
    except TimeoutError as error:
        raise _silent(f"for {idle:g} s") from error
    except _FAILURES as error:
        raise _failure(error) from error


def _failure(error: Exception) -> Exception:
    """Return the ApiError for a failure of aiohttp; a TimeoutError is returned as it is.

    Messages are those of the system or OpenSSL: aiohttp's own contain representations of its
    objects.
    """
    cause = error.__cause__ or error
    said = str(cause) or type(cause).__name__
    match error:
        case TimeoutError():
            return error
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return ApiError("tls", f"no TLS connection to the API server: {said}")
        case aiohttp.ClientHttpProxyError():
            said = f"the proxy answers {error.status} {error.message} to CONNECT"
        case aiohttp.ClientConnectorError():
            said = f"{error.host}:{error.port}: {said}"
        case _:
            said = str(error) or type(error).__name__
            return ApiError("disconnected", f"the connection to the API server broke: {said}")
    return ApiError("refused", f"no connection to the API server: {said}")


def _silent(waited: str) -> ApiError:
    return ApiError("timeout", f"the API server sent nothing {waited}")


def _refusal(response: aiohttp.ClientResponse, body: bytes) -> ApiError:
    status = response.status
    kind = Expired if status == 410 else ApiError  # noqa: PLR2004 - the HTTP status
    # HTTP status codes
    reason = _REASONS.get(status, "server" if status >= 500 else "status")  # noqa: PLR2004
    try:
        text = msgspec.json.decode(body, type=Status).message or ""
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = body.decode(errors="replace")
    message = f"the API server answered {status}: {oneline(text)}"
    return kind(reason, message, _retry_after(response, None))


def _retry_after(response: aiohttp.ClientResponse, default: T) -> float | T:
    """Return the seconds in `Retry-After`; a date counts as absent."""
    header = response.headers.get("Retry-After", "").strip()
    return float(header) if header.isdecimal() else default
