"""The client of the API server: requests with deadlines over aiohttp, limits of response sizes, and
errors by their cause.

See docs/contributing/decisions/0031-requests-to-the-api-server.md.
"""

import asyncio
import logging
import ssl
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from email.utils import parsedate_to_datetime
from functools import partial
from ipaddress import ip_address, ip_network
from math import inf
from time import monotonic
from typing import Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec
from yarl import URL

from webhook import __version__
from webhook.kubeclient.access import Access, Load, Stamp, stamp
from webhook.kubeclient.errors import ApiError, ConfigurationError, Expired, Garbled
from webhook.kubeclient.wire import Status, oneline

Query = Sequence[tuple[str, str]]

Operation = Mapping[str, object]
"""An operation of a JSON Patch."""

T = TypeVar("T")

BODY_BYTES: Final = 1 << 26
"""Limit of the body of a successful response, after decompression. A page that exceeds it is read
again in smaller pages.
"""

_log: Final = logging.getLogger("webhook.kubeclient")
_REFUSAL_BYTES: Final = 1 << 16
"""Bytes of the body of a failure that are read."""
_CHUNK_BYTES: Final = 1 << 16
"""Bytes of a body that are handled at once, which delays reviews."""
_IDLE_SECONDS: Final = 30.0
"""How long an idle connection is kept. The API server closes it after 90 s."""
_UNUSABLE: Final = (OSError, ValueError)
"""Errors of an access that cannot be read."""
_FAILURES: Final = (aiohttp.ClientError, OSError, RuntimeError)
"""Exceptions of aiohttp; RuntimeError is raised by a closed session."""
_RENEW_SECONDS: Final = 30.0
_OPEN_SECONDS: Final = 30.0
_SUCCESSES: Final = frozenset({200, 201, 202})
_UNAUTHORIZED: Final = 401
_THROTTLED: Final = 429
_THROTTLED_SECONDS: Final = 1.0
_NO_TIMEOUT: Final = aiohttp.ClientTimeout()
"""Callers have their own deadlines."""
_SAFE: Final = "/%:@!$&'()*+,;=~?#[]"
_GZIP: Final = 16 + zlib.MAX_WBITS
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

Headers = Mapping[str, str]
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

    def __init__(self, load: Load, repeats: int = 0) -> None:
        """Set the number of retries after 429, for which the API server guarantees that nothing was
        changed. Watches have their own backoff.
        """
        self.server_time = ServerTime()
        self._load = load
        self._repeats = repeats
        self._session: aiohttp.ClientSession | None = None
        self._open: set[aiohttp.ClientResponse] = set()
        self._access: Access  # these are set by `open`
        self._tls: ssl.SSLContext
        self._files: Sequence[Stamp]
        self._prefix: str
        self._user: str
        self._proxy: URL | None

    async def open(self) -> None:
        """Load the configuration without sending a request. Raises ConfigurationError."""
        try:
            await self._configure()
        except _UNUSABLE as error:
            msg = (
                f"no connection to Kubernetes can be configured: {error}; run in a pod with a "
                "service account, or name a kubeconfig"
            )
            raise ConfigurationError(msg) from error
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": f"ray-webhook/{__version__}"},
            auto_decompress=False,
            middlewares=[_once],
        )

    async def close(self) -> None:
        """Close all connections. Requests in progress fail."""
        session, self._session = self._session, None
        for response in self._open:  # aiohttp would not wake their readers
            response.content.set_exception(aiohttp.ClientConnectionError("it was closed"))
        if session is not None:
            await session.close()

    async def get(
        self, path: str, query: Query, deadline: float, *, metadata_only: bool = False
    ) -> bytes:
        """Return the body of a successful GET, within `deadline` seconds. Raises ApiError."""
        return await self._answer(
            "GET", _LIST_METADATA if metadata_only else _READ, path, query, deadline
        )

    async def metadata(self, path: str, deadline: float) -> bytes:
        """Return the metadata of an object, within `deadline` seconds. Raises ApiError."""
        return await self._answer("GET", _METADATA, path, (), deadline)

    async def post(
        self, path: str, query: Query, body: Mapping[str, object], deadline: float
    ) -> bytes:
        """Return the response to a POST, such as of a dry run. Raises ApiError."""
        return await self._answer("POST", _JSON, path, query, deadline, body)

    async def patch(self, path: str, operations: Sequence[Operation], deadline: float) -> None:
        """Apply a JSON Patch (RFC 6902), within `deadline` seconds. Raises ApiError, with reason
        `conflict` for a 409.
        """
        await self._answer("PATCH", _JSON_PATCH, path, (), deadline, operations)

    async def replace(
        self, path: str, body: Mapping[str, object], deadline: float, query: Query = ()
    ) -> bytes:
        """Replace an object with the version in `body`, and return it. Raises ApiError, with reason
        `conflict` for a 409.
        """
        return await self._answer("PUT", _JSON, path, query, deadline, body)

    async def create(self, path: str, body: Mapping[str, object], deadline: float) -> bytes:
        """Create an object in the collection at `path`, and return it. Raises ApiError, with reason
        `conflict` if it exists.
        """
        return await self._answer("POST", _JSON, path, (), deadline, body)

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
        """Open a GET with a streamed body; more than `idle` seconds without a chunk is a failure.
        Raises ApiError.
        """
        response: aiohttp.ClientResponse | None = None
        headers = _METADATA if metadata_only else _READ
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                response, _ = await self._request("GET", headers, path, query, stream=True)
            yield self._chunks(response, idle)
        except TimeoutError as error:
            raise _silent(f"for {idle:g} s") from error
        finally:
            if response is not None:
                self._end(response)

    async def _answer(
        self,
        method: str,
        headers: Headers,
        path: str,
        query: Query,
        deadline: float,
        content: object = None,
    ) -> bytes:
        body = b"" if content is None else _encode(content)
        try:
            async with asyncio.timeout(deadline):
                return (await self._request(method, headers, path, query, body))[1]
        except TimeoutError as error:
            raise _silent(f"within {deadline:g} s") from error

    async def _request(
        self,
        method: str,
        headers: Headers,
        path: str,
        query: Query,
        body: bytes = b"",
        *,
        stream: bool = False,
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        """Return a successful response, and its body except for a stream. After 401 the credentials
        are loaded again, and the request is retried once; after 429 it is retried up to `repeats`
        times.
        """
        target = quote(path, safe=_SAFE)  # a single line: prevents request injection
        if query:
            target = f"{target}?{urlencode(query, quote_via=quote)}"
        send = partial(self._send, method, target, headers, body, stream=stream)
        response, found = await send()
        if response.status == _UNAUTHORIZED:
            await self._renew()
            response, found = await send()
        for _ in range(self._repeats):
            if response.status != _THROTTLED:
                break
            await asyncio.sleep(_retry_after(response, _THROTTLED_SECONDS))
            response, found = await send()
        if response.status not in _SUCCESSES:
            raise _refusal(response, found)
        return response, found

    async def _send(
        self, method: str, target: str, headers: Headers, body: bytes, *, stream: bool
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        session = self._session
        if session is None:
            raise ApiError("closed", "the connection to the API server is not open")
        authorization = await self._authorization()
        self._trust()
        try:
            response = await session.request(
                method,
                URL(f"{self._prefix}{target}", encoded=True),
                headers={**headers, **authorization},
                data=body or None,
                allow_redirects=False,
                proxy=self._proxy,
                ssl=self._tls,
                server_hostname=self._access.tls_name or None,
                timeout=_NO_TIMEOUT,
            )
        except _FAILURES as error:
            raise self._failure(error) from error
        self._open.add(response)
        found = b""
        if not stream or response.status not in _SUCCESSES:
            try:
                found = await _whole(self._chunks(response), response.status)
            finally:
                self._end(response)
        self.server_time.observe(response.headers.get("Date", "").strip())
        return response, found

    async def _authorization(self) -> Headers:
        """Return the header of the credentials. Raises ApiError."""
        try:
            value = await self._access.authorization() or self._user
            if not value.isprintable():
                raise ValueError("the token is not one line")
        except _UNUSABLE as error:  # token files are read again periodically
            text = (
                f"the credentials for the API server cannot be read: {error}; look at the token "
                "file that the kubeconfig or the service account names"
            )
            raise ApiError("unauthorized", text) from error
        return {"Authorization": value} if value else {}

    async def _configure(self) -> None:
        """Load the access. Raises OSError or ValueError."""
        access = await self._load()
        url, proxy = _url(access.url), access.proxy or _proxy_for(access.url)
        files, tls = _stamps(access), access.tls()
        self._proxy = _url(proxy) if proxy else None
        self._files, self._tls = files, tls
        self._user, self._prefix = _basic(url), str(url.with_user(None)).rstrip("/")
        self._access = access

    def _trust(self) -> None:
        """Use the current certificates of authority and client: their files may have been
        replaced.
        """
        files = _stamps(self._access)
        if files == self._files:
            return
        self._files = files
        try:
            self._tls = self._access.tls()
        except _UNUSABLE as error:
            _log.warning(
                "the certificates for the API server cannot be read again, so those from before "
                "are used: %s",
                error,
            )

    async def _renew(self) -> None:
        """Load the credentials again: a token file or the output of an exec plugin may have
        changed. Raises ApiError.
        """
        try:
            async with asyncio.timeout(_RENEW_SECONDS):
                await self._configure()
        except _UNUSABLE as error:
            text = (
                "the API server does not accept the credentials, and they cannot be loaded again: "
                f"{str(error) or type(error).__name__}"
            )
            raise ApiError("unauthorized", text) from error

    def _end(self, response: aiohttp.ClientResponse) -> None:
        response.close()
        self._open.discard(response)

    async def _chunks(
        self, response: aiohttp.ClientResponse, idle: float | None = None
    ) -> AsyncIterator[bytes]:
        """Yield the parts of a body, decompressed. Raises TimeoutError after `idle` seconds without
        data, and ApiError.
        """
        chunks = self._received(response, idle)
        zipped = response.headers.get("Content-Encoding", "").strip().lower() == "gzip"
        async for chunk in _inflated(chunks) if zipped else chunks:
            yield chunk

    async def _received(
        self, response: aiohttp.ClientResponse, idle: float | None
    ) -> AsyncIterator[bytes]:
        content = response.content
        while not content.at_eof() or content.exception() is not None:
            try:
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
        if isinstance(error, RuntimeError) and self._session is not None:
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
    success = status in _SUCCESSES
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


def _stamps(access: Access) -> Sequence[Stamp]:
    """Return the stamps of the certificate files."""
    return [stamp(path) for path in access.files]


def _proxy_for(url: str) -> str | None:
    """Return the proxy of the environment (HTTPS_PROXY, NO_PROXY) for a server.

    As in other clients, a proxy may be a plain host and port; as in Go, NO_PROXY may contain
    networks.
    """
    parts = urlsplit(url)
    host, proxies = parts.hostname or "", getproxies()
    proxy = proxies.get(parts.scheme)
    if not proxy or proxy_bypass(host) or _within(host, proxies.get("no", "")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _within(host: str, networks: str) -> bool:
    """Return whether a host is an address in any of the networks, such as `10.96.0.0/12`."""
    for each in networks.split(","):
        with suppress(ValueError):
            if ip_address(host) in ip_network(each.strip(), strict=False):
                return True
    return False


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
