"""The client of the API server: raw requests with deadlines.

See docs/contributing/decisions/0031-requests-to-the-api-server.md.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from email.utils import parsedate_to_datetime
from ipaddress import ip_address, ip_network
from math import inf
from time import monotonic
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from webhook.kubeclient.access import (
    Access,
    Load,
    Stamp,
    stamp,
)
from webhook.kubeclient.errors import ApiError, ConfigurationError, Expired
from webhook.kubeclient.transport import (
    SUCCESSES,
    Response,
    Server,
    Transport,
)
from webhook.kubeclient.wire import Status, oneline

Query = Sequence[tuple[str, str]]

Operation = Mapping[str, object]
"""An operation of a JSON Patch."""

T = TypeVar("T")

_log: Final = logging.getLogger("webhook.kubeclient")
_UNUSABLE: Final = (OSError, ValueError)
"""Errors of an access that cannot be read."""
_RENEW_SECONDS: Final = 30.0
_OPEN_SECONDS: Final = 30.0
_UNAUTHORIZED: Final = 401
_THROTTLED: Final = 429
_THROTTLED_SECONDS: Final = 1.0
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


class _Send(NamedTuple):
    """The method of a request, and the headers of all such requests."""

    method: str
    headers: Mapping[str, str]


def _read(accept: str) -> _Send:
    """Return a GET. The API server compresses responses of more than 128 KiB, except for
    watches.
    """
    return _Send("GET", {"Accept": accept, "Accept-Encoding": "gzip"})


def _write(method: str, content_type: str = "application/json") -> _Send:
    headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
    return _Send(method, headers | {"Content-Type": content_type})


_GET: Final = _read("application/json")
_GET_METADATA: Final = _read(
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)
_GET_OWN_METADATA: Final = _read(
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)
_POST: Final = _write("POST")
_PUT: Final = _write("PUT")
_DELETE: Final = _write("DELETE")
_PATCH: Final = _write("PATCH", "application/json-patch+json")


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
    """A client of an API server. Call `open` before the first request, and `close` after the
    last.
    """

    def __init__(self, load: Load, repeats: int = 0) -> None:
        """Set the number of retries after 429, for which the API server guarantees that nothing was
        changed. Watches have their own backoff.
        """
        self.server_time = ServerTime()
        self._load = load
        self._repeats = repeats
        self._access: Access  # set by `open`
        self._transport: Transport | None = None
        self._files: Sequence[Stamp] = ()
        self._closed = False

    async def open(self) -> None:
        """Load the configuration without sending a request. Raises ConfigurationError."""
        self._closed = False
        try:
            await self._configure()
        except _UNUSABLE as error:
            msg = (
                f"no connection to Kubernetes can be configured: {error}; run in a pod with a "
                "service account, or name a kubeconfig"
            )
            raise ConfigurationError(msg) from error

    async def close(self) -> None:
        self._closed = True
        transport, self._transport = self._transport, None
        if transport is not None:
            await transport.close()

    async def get(
        self, path: str, query: Query, deadline: float, *, metadata_only: bool = False
    ) -> bytes:
        """Return the body of a successful GET, within `deadline` seconds. Raises ApiError."""
        return await self._answer(_GET_METADATA if metadata_only else _GET, path, query, deadline)

    async def metadata(self, path: str, deadline: float) -> bytes:
        """Return the metadata of an object, within `deadline` seconds. Raises ApiError."""
        return await self._answer(_GET_OWN_METADATA, path, (), deadline)

    async def post(
        self, path: str, query: Query, body: Mapping[str, object], deadline: float
    ) -> bytes:
        """Return the response to a POST, such as of a dry run. Raises ApiError."""
        return await self._answer(_POST, path, query, deadline, body)

    async def patch(self, path: str, operations: Sequence[Operation], deadline: float) -> None:
        """Apply a JSON Patch (RFC 6902), within `deadline` seconds. Raises ApiError, with reason
        `conflict` for a 409.
        """
        await self._answer(_PATCH, path, (), deadline, operations)

    async def replace(
        self, path: str, body: Mapping[str, object], deadline: float, query: Query = ()
    ) -> bytes:
        """Replace an object with the version in `body`, and return it. Raises ApiError, with reason
        `conflict` for a 409.
        """
        return await self._answer(_PUT, path, query, deadline, body)

    async def create(self, path: str, body: Mapping[str, object], deadline: float) -> bytes:
        """Create an object in the collection at `path`, and return it. Raises ApiError, with reason
        `conflict` if it exists.
        """
        return await self._answer(_POST, path, (), deadline, body)

    async def delete(self, path: str, uid: str, version: str, deadline: float) -> None:
        """Delete the object at `path` if it still has this uid and version. Raises ApiError, with
        reason `conflict` if not.
        """
        options = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"uid": uid, "resourceVersion": version},
        }
        await self._answer(_DELETE, path, (), deadline, options)

    @asynccontextmanager
    async def stream(
        self, path: str, query: Query, idle: float, *, metadata_only: bool = False
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Open a GET with a streamed body; more than `idle` seconds without a chunk is a failure.
        Raises ApiError.
        """
        what = _GET_OWN_METADATA if metadata_only else _GET
        response: Response | None = None
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                response = await self._request(what, path, query, idle=idle)
            yield response.chunks
        except TimeoutError as error:
            raise _silent(f"for {idle:g} s") from error
        finally:
            if response is not None:
                response.close()

    async def _answer(
        self, what: _Send, path: str, query: Query, deadline: float, content: object = None
    ) -> bytes:
        body = b"" if content is None else _encode(content)
        try:
            async with asyncio.timeout(deadline):
                return (await self._request(what, path, query, body)).body
        except TimeoutError as error:
            raise _silent(f"within {deadline:g} s") from error

    async def _request(
        self, what: _Send, path: str, query: Query, body: bytes = b"", idle: float | None = None
    ) -> Response:
        """Return a successful response. After 401 the credentials are loaded again, and the request
        is retried once; after 429 it is retried up to `repeats` times.
        """
        target = quote(
            path, safe=_SAFE
        )  # prevents request injection: the target remains a single line
        if query:
            target = f"{target}?{urlencode(query, quote_via=quote)}"
        response = await self._send(what, target, body, idle)
        if response.status == _UNAUTHORIZED:
            await self._renew()
            response = await self._send(what, target, body, idle)
        for _ in range(self._repeats):
            if response.status != _THROTTLED:
                break
            await asyncio.sleep(_seconds(response.retry_after, _THROTTLED_SECONDS))
            response = await self._send(what, target, body, idle)
        if response.status not in SUCCESSES:
            raise _refusal(response)
        return response

    async def _send(self, what: _Send, target: str, body: bytes, idle: float | None) -> Response:
        transport = self._transport
        if transport is None:
            raise ApiError("closed", "the connection to the API server is not open")
        try:
            value = await self._access.authorization()
            if not value.isprintable():
                raise ValueError("the token is not one line")
        except _UNUSABLE as error:  # token files are read again periodically
            text = (
                f"the credentials for the API server cannot be read: {error}; look at the token "
                "file that the kubeconfig or the service account names"
            )
            raise ApiError("unauthorized", text) from error
        self._trust(transport)
        headers = {**what.headers, "Authorization": value} if value else what.headers
        response = await transport.request(what.method, target, headers, body, idle)
        self.server_time.observe(response.date)
        return response

    async def _configure(self) -> None:
        access = await self._load()
        server = Server(access.url, access.tls_name, access.proxy or _proxy_for(access.url) or "")
        former = self._transport
        if self._closed:  # closed while the credentials were loaded
            return
        if former is None or former.server != server:
            self._files = _stamps(access)
            self._transport = Transport(server, access.tls())
            if former is not None:
                await former.close()
        self._access = access

    def _trust(self, transport: Transport) -> None:
        """Use the current certificates of authority and client: their files may have been
        replaced.
        """
        files = _stamps(self._access)
        if files == self._files:
            return
        self._files = files
        try:
            transport.tls = self._access.tls()
        except (OSError, ValueError) as error:
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


def _refusal(response: Response) -> ApiError:
    status, body = response.status, response.body
    kind = Expired if status == 410 else ApiError  # noqa: PLR2004 - the HTTP status
    # HTTP status codes
    reason = _REASONS.get(status, "server" if status >= 500 else "status")  # noqa: PLR2004
    try:
        text = msgspec.json.decode(body, type=Status).message or ""
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = body.decode(errors="replace")
    message = f"the API server answered {status}: {oneline(text)}"
    return kind(reason, message, _seconds(response.retry_after, None))


def _seconds(header: str, default: T) -> float | T:
    """Return the seconds in a `Retry-After`; a date counts as absent."""
    return float(header) if header.isdecimal() else default
