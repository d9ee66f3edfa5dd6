"""The connection to the API server: raw requests with deadlines, over the `kubernetes` package's
configuration.

Finding the server, credentials, their refresh and TLS are the package's. Its models, watches,
informers and requests are not used: docs/decisions/0031-requests-to-the-api-server.md.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address, ip_network
from typing import Final, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config import ConfigException, load_kube_config
from kubernetes.aio.config.incluster_config import (
    SERVICE_CERT_FILENAME,
    SERVICE_TOKEN_FILENAME,
    InClusterConfigLoader,
)

from webhook.follow.connection import SUCCESSES, Connection
from webhook.follow.dialing import Server, Unreachable, quoted, written
from webhook.follow.errors import ApiError, ConfigurationError, Expired
from webhook.follow.pool import Pool, Response
from webhook.follow.wire import Status, oneline

Load = Callable[[Configuration], Awaitable[None]]
"""Fills in a configuration, afresh each time it is called."""

Query = Sequence[tuple[str, str]]

Operation = Mapping[str, object]
"""One operation of a JSON Patch."""

T = TypeVar("T")

_log: Final = logging.getLogger("webhook.follow")
_UNUSABLE: Final = (ConfigException, OSError, ValueError, TypeError, AttributeError)
"""What the package raises over a configuration: it looks things up without checking."""
_RENEW_SECONDS: Final = 30.0
_OPEN_SECONDS: Final = 30.0
_THROTTLED_SECONDS: Final = 1.0
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


def in_cluster(
    token_file: str = SERVICE_TOKEN_FILENAME,
    ca_file: str = SERVICE_CERT_FILENAME,
    environ: Mapping[str, str] = os.environ,
) -> Load:
    """Return the configuration that Kubernetes gives to a pod. The package reads the token file
    again every minute.
    """

    async def load(configuration: Configuration) -> None:
        InClusterConfigLoader(token_file, ca_file, environ=environ).load_and_set(configuration)  # type: ignore[no-untyped-call] # the package has no annotations here

    return load


def kubeconfig(path: str, context: str | None = None) -> Load:
    """Return the configuration in a kubeconfig file; `path` may be several, as in the variable
    KUBECONFIG.
    """

    async def load(configuration: Configuration) -> None:
        await load_kube_config(
            path, context=context, client_configuration=configuration, persist_config=False
        )  # type: ignore[no-untyped-call] # as above

    return load


class _Send(NamedTuple):
    """What a request is: its method, and the headers that all such requests have."""

    method: str
    lines: bytes


def _read(accept: str) -> _Send:
    """Return a GET. The API server compresses what has more than 128 KiB, and no watch."""
    return _Send("GET", written({"Accept": accept, "Accept-Encoding": "gzip"}))


def _write(method: str, content_type: str = "application/json") -> _Send:
    return _Send(method, written({"Accept": "application/json", "Content-Type": content_type}))


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


class Api:
    """One API server. Call `open` before, and `close` after."""

    def __init__(self, load: Load, repeats: int = 0) -> None:
        """Set how often a request is repeated that was refused with 429, which the API server did
        not act on. Watches have a back-off of their own.
        """
        self._load = load
        self._repeats = repeats
        self._configuration: Configuration  # from `open` on
        self._pool: Pool | None = None
        self._closed = False

    async def open(self) -> None:
        """Load the configuration; nothing is sent yet. Raises ConfigurationError."""
        self._configuration = Configuration()
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
        """Close all connections."""
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def get(
        self, path: str, query: Query, deadline: float, *, metadata_only: bool = False
    ) -> bytes:
        """Return the body of a successful GET, all within `deadline` seconds. Raises ApiError."""
        return await self._answer(_GET_METADATA if metadata_only else _GET, path, query, deadline)

    async def metadata(self, path: str, deadline: float) -> bytes:
        """Return the metadata of one object, within `deadline` seconds. Raises ApiError."""
        return await self._answer(_GET_OWN_METADATA, path, (), deadline)

    async def post(
        self, path: str, query: Query, body: Mapping[str, object], deadline: float
    ) -> bytes:
        """Return what the API server makes of an object, such as in a dry run. Raises ApiError."""
        return await self._answer(_POST, path, query, deadline, body)

    async def patch(self, path: str, operations: Sequence[Operation], deadline: float) -> None:
        """Apply a JSON Patch (RFC 6902), all within `deadline` seconds. Raises ApiError, of reason
        `conflict` for a 409.
        """
        await self._answer(_PATCH, path, (), deadline, operations)

    async def replace(
        self, path: str, body: Mapping[str, object], deadline: float, query: Query = ()
    ) -> bytes:
        """Replace an object at the version that `body` names, and return it. Raises ApiError, of
        reason `conflict` for a 409.
        """
        return await self._answer(_PUT, path, query, deadline, body)

    async def create(self, path: str, body: Mapping[str, object], deadline: float) -> bytes:
        """Create an object in the collection at `path`, and return it. Raises ApiError, of reason
        `conflict` when there is one.
        """
        return await self._answer(_POST, path, (), deadline, body)

    async def delete(self, path: str, uid: str, version: str, deadline: float) -> None:
        """Delete the object at `path` if it still has this uid and version. Raises ApiError, of
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
        """Open a GET whose body comes in chunks; more than `idle` seconds without one is a failure.
        Raises ApiError.
        """
        what = _GET_OWN_METADATA if metadata_only else _GET
        connection: Connection | None = None
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                connection = (await self._request(what, path, query, streaming=True)).connection
            yield connection.chunks(idle)
        except OSError as error:
            raise _failure(error, f"for {idle:g} s") from error
        finally:
            if connection is not None:
                connection.abort()

    async def _answer(
        self, what: _Send, path: str, query: Query, deadline: float, content: object = None
    ) -> bytes:
        body = b"" if content is None else _encode(content)
        try:
            async with asyncio.timeout(deadline):
                return (await self._request(what, path, query, body)).body
        except OSError as error:
            raise _failure(error, f"within {deadline:g} s") from error

    async def _request(
        self, what: _Send, path: str, query: Query, body: bytes = b"", *, streaming: bool = False
    ) -> Response:
        """Return a response of success. On 401 the credentials are loaded again, and the request is
        repeated once; on 429 it is repeated as often as `repeats` says.
        """
        target = quoted(path)
        if query:
            target = f"{target}?{urlencode(query, quote_via=quote)}"
        response = await self._send(what, target, body, streaming=streaming)
        if response.status == 401:  # noqa: PLR2004 - the HTTP status
            await self._renew()
            response = await self._send(what, target, body, streaming=streaming)
        for _ in range(self._repeats):
            if response.status != 429:  # noqa: PLR2004 - the HTTP status
                break
            await asyncio.sleep(_seconds(response.retry_after, _THROTTLED_SECONDS))
            response = await self._send(what, target, body, streaming=streaming)
        if response.status not in SUCCESSES:
            raise _refusal(response)
        return response

    async def _send(self, what: _Send, target: str, body: bytes, *, streaming: bool) -> Response:
        pool = self._pool
        if pool is None:
            raise ApiError("closed", "the connection to the API server is not open")
        try:
            token = (await self._configuration.auth_settings()).get("BearerToken")
            # Its file may end with a line end
            value = token["value"].strip() if token is not None and token["value"] else ""
            lines = what.lines + (written({"Authorization": value}) if value else b"")
        except _UNUSABLE as error:  # a file with a token is read again now and then
            text = (
                f"the credentials for the API server cannot be read: {error}; look at the token "
                "file that the kubeconfig or the service account names"
            )
            raise ApiError("unauthorized", text) from error
        return await pool.request(what.method, target, lines, body, streaming=streaming)

    async def _configure(self) -> None:
        """Load the configuration; another server than before is what the next requests go to."""
        configuration = self._configuration
        await self._load(configuration)
        server = Server(
            configuration.host,
            configuration.tls_server_name or "",
            configuration.proxy or _proxy_for(configuration.host) or "",
            configuration.proxy_headers or {},
        )
        former = self._pool
        if self._closed:  # while the credentials were loaded
            return
        if former is None or former.server != server:
            self._pool = Pool(server, RESTClientObject(configuration).ssl_context)
            if former is not None:
                await former.close()

    async def _renew(self) -> None:
        """Load the credentials again: a token file or the answer of an exec plugin may have changed
        since.
        """
        try:
            async with asyncio.timeout(_RENEW_SECONDS):
                await self._configure()
        except _UNUSABLE as error:
            _log.warning("credentials for the API server cannot be renewed: %s", error)


def _proxy_for(url: str) -> str | None:
    """Return the proxy that the environment (HTTPS_PROXY, NO_PROXY) names for a server.

    As everywhere, it may be a mere host and port; and as in Go, NO_PROXY may have networks.
    """
    parts = urlsplit(url)
    host, proxies = parts.hostname or "", getproxies()
    proxy = proxies.get(parts.scheme)
    if not proxy or proxy_bypass(host) or _within(host, proxies.get("no", "")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _within(host: str, networks: str) -> bool:
    """Tell whether a host is an address in one of some networks, such as `10.96.0.0/12`."""
    for each in networks.split(","):
        with suppress(ValueError):
            if ip_address(host) in ip_network(each.strip(), strict=False):
                return True
    return False


def _failure(error: OSError, waited: str) -> ApiError:
    """Return what a failure of the transport is called."""
    if isinstance(error, TimeoutError):
        return ApiError("timeout", f"the API server sent nothing {waited}")
    if isinstance(error, ssl.SSLError):
        return ApiError("tls", f"no TLS connection to the API server: {error}")
    if isinstance(error, Unreachable):
        return ApiError("refused", f"no connection to the API server: {error}")
    text = str(error) or type(error).__name__
    return ApiError("disconnected", f"the connection to the API server broke: {text}")


def _refusal(response: Response) -> ApiError:
    status, body = response.status, response.body
    kind = Expired if status == 410 else ApiError  # noqa: PLR2004 - the HTTP status
    # The HTTP status
    reason = _REASONS.get(status, "server" if status >= 500 else "status")  # noqa: PLR2004
    try:
        text = msgspec.json.decode(body, type=Status).message or ""
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = body.decode(errors="replace")
    message = f"the API server answered {status}: {oneline(text)}"
    return kind(reason, message, _seconds(response.retry_after, None))


def _seconds(header: str, default: T) -> float | T:
    """Return the seconds in a `Retry-After`; its other form, a date, counts as none."""
    return float(header) if header.isdecimal() else default
