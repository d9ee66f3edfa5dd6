"""The client of the API server: requests with deadlines over aiohttp, limits of response sizes, and
errors by their cause.

See docs/contributing/decisions/0031-requests-to-the-api-server.md.
"""

import asyncio
import os
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from functools import partial
from time import monotonic
from typing import Final, Self, TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec
from aiohttp.http_exceptions import LineTooLong
from yarl import URL

from webhook import __version__
from webhook.api.formats import in_line
from webhook.kubeclient.access import Load, RenewedAccess
from webhook.kubeclient.errors import ApiError, ConfigurationError, Status
from webhook.kubeclient.timeouts import ServerTime

Query = Sequence[tuple[str, str]]

Operation = Mapping[str, object]
"""An operation of a JSON Patch."""

Body = Mapping[str, object]

T = TypeVar("T")

SECONDS: Final = 10.0
"""Deadline of a request that no review depends on."""
BODY_BYTES: Final = 1 << 26
"""Limit of the body of a response, after decompression. Pages of lists have a smaller one."""
LINE_BYTES: Final = 1 << 24
"""Limit of a line of a stream, and of a page of one object. etcd stores objects of up to 1.5 MiB,
of which the JSON may be several times as large.
"""

_IDLE_SECONDS: Final = 30.0
"""How long an idle connection is kept. The API server closes it after 90 s."""
_OPEN_SECONDS: Final = 30.0
_SUCCESSES: Final = frozenset({200, 201, 202})
_THROTTLED_SECONDS: Final = 1.0
_THROTTLED_REPEATS: Final = 5
"""Retries after 429. Then the callers have their own backoff."""
_REASONS: Final = {
    401: "unauthorized",
    403: "forbidden",
    404: "missing",
    409: "conflict",
    410: "expired",
    422: "invalid",
    429: "throttled",
}
_SERVER_ERROR: Final = 500

Timeout = Callable[[float], AbstractAsyncContextManager[object]]
"""A block that raises TimeoutError after a number of seconds."""

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of a body that is not what it should be."""

DRY_RUN: Final = [("dryRun", "All")]
JSON: Final = "application/json"
METADATA, LIST_METADATA = (
    f"{JSON};as={kind};g=meta.k8s.io;v=v1,{JSON}"
    for kind in ("PartialObjectMetadata", "PartialObjectMetadataList")
)
"""Media types of the metadata alone: of an object or a watch, and of a list."""


class Api:
    """A client of an API server, open within `async with`. Entering loads the configuration without
    a request, and raises ConfigurationError.

    All requests raise ApiError, with reason `missing` for a 404 and `conflict` for a 409. A GET is
    retried once if a pooled connection turns out to be closed, and a write is not. The certificate
    of a TLS proxy is verified like that of the server, as in kubectl.
    """

    def __init__(self, load: Load, timeout: Timeout = asyncio.timeout) -> None:
        self.server_time = ServerTime()
        self.timeout = timeout
        self._connection = RenewedAccess(load)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        try:
            await self._connection.load()
        except (OSError, ValueError) as error:
            msg = (
                f"no connection to Kubernetes can be configured: {error}; run in a pod with a "
                "service account, or name a kubeconfig"
            )
            raise ConfigurationError(msg) from error
        self._session = aiohttp.ClientSession(
            # Callers limit their requests by namespace; one limit for all would let a tenant block
            # others.
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Accept": JSON, "User-Agent": f"ray-webhook/{__version__}"},
            json_serialize_bytes=msgspec.json.encode,
            middlewares=[_once],
        )
        return self

    async def __aexit__(self, *_error: object) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def get(
        self,
        path: str,
        query: Query = (),
        deadline: float = SECONDS,
        accept: str = JSON,
        bytes_max: int = BODY_BYTES,
    ) -> bytes:
        """Return the body of a successful GET, within `deadline` seconds."""
        target, headers = _target(path, query), {"Accept": accept}
        return await self._answer("GET", target, deadline, headers, bytes_max=bytes_max)

    async def read(
        self, path: str, kind: type[T], deadline: float = SECONDS, accept: str = JSON
    ) -> T:
        """Return an object as `kind`."""
        return decode_response(await self.get(path, (), deadline, accept), kind)

    async def find(
        self, path: str, kind: type[T], deadline: float = SECONDS, accept: str = JSON
    ) -> T | None:
        """Return an object as `kind`, or None if it does not exist."""
        try:
            return await self.read(path, kind, deadline, accept)
        except ApiError as error:
            if error.reason != "missing":
                raise
            return None

    async def create(
        self, path: str, body: Body, deadline: float = SECONDS, query: Query = ()
    ) -> bytes:
        """Create an object in the collection at `path`, and return it."""
        return await self._answer("POST", _target(path, query), deadline, content=body)

    async def replace(
        self, path: str, body: Body, deadline: float = SECONDS, query: Query = ()
    ) -> bytes:
        """Replace an object with the version in `body`, and return it."""
        return await self._answer("PUT", _target(path, query), deadline, content=body)

    async def patch(
        self,
        path: str,
        operations: Sequence[Operation],
        version: str = "",
        deadline: float = SECONDS,
    ) -> None:
        """Apply a JSON Patch (RFC 6902), to this version of the object if one is given."""
        # The API server rejects a patch whose result has another version than the stored object.
        pin = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
        content = [pin, *operations] if version else operations
        headers = {"Content-Type": "application/json-patch+json"}
        await self._answer("PATCH", path, deadline=deadline, headers=headers, content=content)

    async def delete(self, path: str, uid: str, version: str, deadline: float = SECONDS) -> None:
        """Delete an object if it still has this uid and version."""
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"uid": uid, "resourceVersion": version},
        }
        await self._answer("DELETE", path, deadline, content=options)

    @asynccontextmanager
    async def stream(
        self, path: str, query: Query, idle: float, accept: str = JSON
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a GET, and yield its lines; more than `idle` seconds without data is a failure."""
        with _errors(f"within {_OPEN_SECONDS:g} s"):
            # Only to the first response: a watch has no end, and `idle` limits its silence.
            async with self.timeout(_OPEN_SECONDS):
                target, headers = _target(path, query), {"Accept": accept}
                response = await self._open("GET", target, _OPEN_SECONDS, headers, idle=idle)
        try:
            yield _lines(response, idle)
        finally:
            response.close()

    async def _answer(
        self,
        method: str,
        target: str,
        deadline: float,
        headers: Mapping[str, str] = {},
        content: object = None,
        bytes_max: int = BODY_BYTES,
    ) -> bytes:
        with _errors(f"within {deadline:g} s"):
            async with (
                self.timeout(deadline),
                await self._open(
                    method, target, deadline=deadline, headers=headers, content=content
                ) as response,
            ):
                return await _content(response, bytes_max)

    async def _open(
        self,
        method: str,
        target: str,
        deadline: float,
        headers: Mapping[str, str],
        content: object = None,
        idle: float | None = None,
    ) -> aiohttp.ClientResponse:
        """Return a successful response. After 401 the credentials are loaded again, and the request
        is retried once; after 429, for which the API server guarantees that nothing was changed, it
        is retried within the deadline.
        """
        connection, renewed, repeats = self._connection, False, _THROTTLED_REPEATS
        end = monotonic() + deadline
        while True:
            authorization = await connection.authorization() if self._session else {}
            if self._session is None:
                raise ApiError("closed", "the connection to the API server is not open")
            response = await self._session.request(
                method,
                URL(f"{connection.prefix}{target}"),
                headers={**headers, **authorization},
                json=content,
                # A redirect would send the token to another server.
                allow_redirects=False,
                proxy=connection.proxy,
                ssl=connection.tls,
                server_hostname=connection.tls_name,
                timeout=aiohttp.ClientTimeout(sock_read=idle),  # `deadline` is for all
            )
            self.server_time.observe(response.headers.get("Date", "").strip())
            if response.status in _SUCCESSES:
                return response
            async with response:
                refusal = _refusal(response, await _content(response, BODY_BYTES))
            pause = _THROTTLED_SECONDS if refusal.retry_after is None else refusal.retry_after
            if refusal.reason == "unauthorized" and not renewed:
                renewed = True
                await connection.renew()
            elif refusal.reason == "throttled" and repeats and monotonic() + pause < end:
                repeats -= 1
                await asyncio.sleep(pause)
            else:
                raise refusal


def _target(path: str, query: Query) -> str:
    return f"{path}?{urlencode(query)}" if query else path


# Fields are objects in objects, and texts, so the first bracket outside of a text is the last one.
_MANAGED_FIELDS: Final = re.compile(
    rb'"managedFields":\s*+\[(?:[^"\]]++|"(?:[^"\\]++|\\.)*+")*+\]', re.DOTALL
)


def decode_nested(decode: Callable[[bytes], T], data: bytes) -> T:
    """Return decoded JSON of the API server. Anyone who may write an object can nest its
    `managedFields` more deeply than decoders follow, and name fields in bytes that are not UTF-8;
    then they are left out.
    """
    try:
        return decode(data)
    except (RecursionError, UnicodeDecodeError):
        return decode(_MANAGED_FIELDS.sub(b'"managedFields":[]', data))


def decode_response(body: bytes, kind: type[T]) -> T:
    """Return the body of a response as `kind`. Raises ApiError."""
    decode: Callable[[bytes], T] = partial(msgspec.json.decode, type=kind)
    try:
        return decode_nested(decode, body)
    except UNREADABLE as error:
        message = "the API server's response is not of the expected form: is a proxy in between?"
        raise ApiError("garbled", message) from error


async def _once(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """Send a write once: aiohttp would repeat a PUT or a DELETE that may have been executed."""
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        # Without a connection, nothing was sent, so nothing can have been carried out.
        if request.method == "GET" or isinstance(error, aiohttp.ClientConnectorError):
            raise
        raise aiohttp.ClientConnectionError(str(error)) from error


async def _content(response: aiohttp.ClientResponse, bytes_max: int) -> bytes:
    parts, size = list[bytes](), 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > bytes_max:
            message = f"the API server's response is larger than {bytes_max >> 20} MiB"
            raise ApiError("large", message)
        await asyncio.sleep(0)  # reads of buffered data never suspend
    return b"".join(parts)


async def _lines(response: aiohttp.ClientResponse, idle: float) -> AsyncIterator[bytes]:
    """Yield the complete lines of a body, without their newline."""
    with _errors(f"for {idle:g} s"):
        while line := await response.content.readline(max_line_length=LINE_BYTES):
            if not line.endswith(b"\n"):
                message = f"the watch ended within a line, after {len(line)} bytes of it"
                raise ApiError("truncated", message)
            if line != b"\n":
                yield line[:-1]
            await asyncio.sleep(0)  # reads of buffered data never suspend


@contextmanager
def _errors(waited: str) -> Iterator[None]:
    """Raise ApiError for a failure of aiohttp.

    Messages are those of the system or OpenSSL: aiohttp's own contain representations of its
    objects.
    """
    try:
        yield
    except TimeoutError as error:
        raise ApiError("timeout", f"the API server sent nothing {waited}") from error
    except LineTooLong as error:
        message = f"the watch has a line of more than {LINE_BYTES >> 20} MiB"
        raise ApiError("garbled", message) from error
    except (aiohttp.ClientError, OSError) as error:
        raise _failure(error) from error


def _failure(error: aiohttp.ClientError | OSError) -> ApiError:
    cause = error.__cause__ or error
    message = str(cause) or type(cause).__name__
    match error:
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return ApiError("tls", f"no TLS connection to the API server: {message}")
        case aiohttp.ClientHttpProxyError():
            message = f"the proxy answers {error.status} {error.message} to CONNECT"
        case aiohttp.ClientConnectorError():
            number = error.os_error.errno or 0  # negative: of the resolver
            message = f"{error.host}:{error.port}: {os.strerror(number) if number > 0 else message}"
        case _:
            message = str(error) or type(error).__name__
            return ApiError("disconnected", f"the connection to the API server broke: {message}")
    return ApiError("refused", f"no connection to the API server: {message}")


def _refusal(response: aiohttp.ClientResponse, body: bytes) -> ApiError:
    status, after = response.status, response.headers.get("Retry-After", "").strip()
    reason = _REASONS.get(status, "server" if status >= _SERVER_ERROR else "status")
    try:
        status_message = msgspec.json.decode(body, type=Status).message or ""
    except UNREADABLE:
        status_message = body.decode(errors="replace")
    message = f"the API server answered {status}: {in_line(status_message)}"
    # Kubernetes sends seconds; the other form of the header is a date.
    return ApiError(reason, message, float(after) if after.isdecimal() else None)
