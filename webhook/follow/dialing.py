"""Connections are opened: to the addresses of a server, by TLS where it asks for that, and through
a proxy where there is one.
"""

import asyncio
import socket
import ssl
from base64 import b64encode
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Final, TypeVar, cast
from urllib.parse import SplitResult, quote, unquote, urlsplit

from aiohappyeyeballs import AddrInfoType, addr_to_addr_infos, start_connection
from msgspec import Struct

from webhook.follow.connection import Connection

_DELAY_SECONDS: Final = 0.25
"""Of one address of a server before the next one is tried too (RFC 8305)."""
_PORTS: Final = {"http": 80, "https": 443}
_SAFE: Final = "/%:@!$&'()*+,;=~?#[]"
_HEAD_BYTES: Final = 1 << 14
"""Of a proxy's answer to CONNECT."""

P = TypeVar("P", bound=asyncio.Protocol)

Headers = Mapping[str, str]


class Unreachable(OSError):  # noqa: N818 - named for what it is
    """No connection can be opened."""


class Server(Struct, frozen=True):
    """Where a server is, and how it is reached.

    `url` may have a path, which stands before that of every request. `tls_name` is the name that
    its certificate has to have, where that is not the one in the URL.
    """

    url: str
    tls_name: str = ""
    proxy: str = ""
    proxy_headers: Headers = {}


class Dialer:
    """Opens connections to one server: directly, or through a proxy, which forwards requests over
    plain HTTP and opens a tunnel for TLS (RFC 9110, CONNECT).

    Raises ValueError when the server's URL, or its proxy's, is none of HTTP.
    """

    def __init__(self, server: Server, tls: ssl.SSLContext) -> None:
        self._url = _split(server.url)
        self._tls = tls if self._url.scheme == "https" else None
        self._tls_name = server.tls_name or _name(self._url)
        self._proxy = _split(server.proxy) if server.proxy else None
        self._to_proxy = dict(server.proxy_headers)
        if self._proxy is not None and self._proxy.username is not None:
            user = f"{unquote(self._proxy.username)}:{unquote(self._proxy.password or '')}"
            self._to_proxy["Proxy-Authorization"] = f"Basic {b64encode(user.encode()).decode()}"
        forwarded = self._proxy is not None and self._tls is None
        path = quoted(self._url.path.rstrip("/"))
        self.prefix = f"http://{_authority(self._url)}{path}" if forwarded else path
        """What stands before the path of a request."""
        self.headers = {"Host": _authority(self._url)} | (self._to_proxy if forwarded else {})
        """What every request needs."""
        target = f"{_host(self._url)}:{_port(self._url)}"
        lines = written({"Host": target} | self._to_proxy)
        self._connect = b"CONNECT %b HTTP/1.1\r\n%b\r\n" % (target.encode("ascii"), lines)

    async def open(self) -> Connection:
        """Return a new connection. Raises Unreachable and ssl.SSLError."""
        try:
            if self._proxy is None:
                return (await _connected(Connection, self._url, self._tls, self._tls_name))[1]
            tls = ssl.create_default_context() if self._proxy.scheme == "https" else None
            if self._tls is None:
                return (await _connected(Connection, self._proxy, tls, _name(self._proxy)))[1]
            return await self._tunnelled(self._proxy, tls, self._tls)
        except ssl.SSLError:
            raise
        except OSError as error:
            told = str(error) or type(error).__name__
            raise Unreachable(f"{_authority(self._proxy or self._url)}: {told}") from error

    async def _tunnelled(
        self, proxy: SplitResult, outer: ssl.SSLContext | None, inner: ssl.SSLContext
    ) -> Connection:
        transport, asked = await _connected(_Asked, proxy, outer, _name(proxy))
        try:
            transport.write(self._connect)
            _check_tunnel(await asked.head)
            connection = Connection()
            inside = await asyncio.get_running_loop().start_tls(
                transport, connection, inner, server_hostname=self._tls_name
            )
        except BaseException:
            transport.abort()
            raise
        connection.connection_made(cast("asyncio.Transport", inside))
        return connection


class _Asked(asyncio.Protocol):
    """A connection to a proxy that was asked for a tunnel. `head` is its answer's."""

    def __init__(self) -> None:
        self.head: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._got = b""

    def data_received(self, data: bytes) -> None:
        self._got += data
        if b"\r\n\r\n" in self._got and not self.head.done():
            self.head.set_result(self._got)
        elif len(self._got) > _HEAD_BYTES:
            self.connection_lost(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.head.done():
            self.head.set_exception(
                exc or ConnectionResetError("the proxy does not answer in HTTP")
            )


def quoted(path: str) -> str:
    """Return a path as it is sent: whatever it has, the line of a request stays one line."""
    return quote(path, safe=_SAFE)


def written(headers: Headers) -> bytes:
    """Return headers as they are sent. Raises ValueError where one would be several lines."""
    lines = []
    for name, value in headers.items():
        if not value.isprintable():
            msg = f"the header {name} would not be one line"
            raise ValueError(msg)
        lines.append(f"{name}: {value}\r\n")
    return "".join(lines).encode("latin-1")


async def _connected(
    kind: type[P], url: SplitResult, tls: ssl.SSLContext | None, tls_name: str
) -> tuple[asyncio.Transport, P]:
    return await asyncio.get_running_loop().create_connection(
        kind,
        sock=await _socket_to(url),
        ssl=tls,
        server_hostname=tls_name if tls else None,
    )


def _check_tunnel(head: bytes) -> None:
    """Check a proxy's answer. Raises ConnectionRefusedError."""
    words = head.split(b"\r\n", 1)[0].split(maxsplit=2)
    if words[1:2] != [b"200"]:
        said = b" ".join(words[1:]) or b"nothing"
        msg = f"the proxy answers {said.decode('latin-1')} to CONNECT"
        raise ConnectionRefusedError(msg)


async def _socket_to(url: SplitResult) -> socket.socket:
    """Return a connected socket. A server of several addresses may be reached by some only."""
    host, port = _name(url), _port(url)
    found = _addresses(host, port) or await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM
    )
    return await start_connection(found, happy_eyeballs_delay=_DELAY_SECONDS)


def _addresses(host: str, port: int) -> Sequence[AddrInfoType]:
    """Return the address that a host is by itself: to look it up would take a thread."""
    try:
        ip_address(host)
    except ValueError:
        return ()
    return addr_to_addr_infos((host, port)) or ()


def _split(url: str) -> SplitResult:
    parts = urlsplit(url)
    user, at, _ = parts.netloc.rpartition("@")
    msg = f"{url.replace(user + at, '', 1)!r} is no URL of http or https"  # without a password
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(msg)
    try:
        _name(parts)
    except UnicodeError as error:
        raise ValueError(msg) from error
    _port(parts)
    return parts


def _port(url: SplitResult) -> int:
    return url.port or _PORTS[url.scheme]


def _name(url: SplitResult) -> str:
    """Return the host as it is looked up. Raises UnicodeError when it cannot be a name."""
    return (url.hostname or "").encode("idna").decode("ascii")


def _host(url: SplitResult) -> str:
    host = _name(url)
    return f"[{host}]" if ":" in host else host


def _authority(url: SplitResult) -> str:
    return f"{_host(url)}:{url.port}" if url.port else _host(url)
