"""Access to the API server: its address and credentials, by the service account of a pod, and the
renewal of both when their files are replaced.
"""

import logging
import os
import ssl
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from msgspec import Struct
from yarl import URL

from webhook.kubeclient.errors import ApiError

_log: Final = logging.getLogger("webhook.kubeclient")
_UNUSABLE: Final = (OSError, ValueError)
"""Errors of an access that cannot be read."""
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/"""

NAMESPACE_FILE: Final = _ACCOUNT / "namespace"
"""The namespace of the pod."""


async def _constant(value: str) -> str:
    return value


class Access(Struct, frozen=True):
    """The address of an API server, and how to connect. `proxy` is empty for the proxy of the
    environment.

    `tls` returns a new context. `authorization` returns the value of the header, empty for none.
    Both raise OSError or ValueError. `files` are those that both were read from.
    """

    url: str
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context
    authorization: Callable[[], Awaitable[str]] = partial(_constant, "")
    files: tuple[str, ...] = ()
    tls_name: str = ""
    proxy: str = ""


Load = Callable[[], Awaitable[Access]]
"""Loads the access again at each call. Raises OSError or ValueError."""

Stamp = tuple[str | int, ...]


def _stamp(path: str) -> Stamp:
    """Return a value that changes with the content of a file."""
    try:
        stat = os.stat(path)  # noqa: PTH116 - at each request, in a quarter of the time
    except OSError:
        return (path,)
    return path, stat.st_ino, stat.st_mtime_ns, stat.st_size


def in_cluster(
    token_file: str = str(_ACCOUNT / "token"),
    ca_file: str = str(_ACCOUNT / "ca.crt"),
    environ: Mapping[str, str] = os.environ,
) -> Load:
    """Return the access of a pod by its service account."""

    async def load() -> Access:
        host = environ.get("KUBERNETES_SERVICE_HOST")
        port = environ.get("KUBERNETES_SERVICE_PORT")
        if not host or not port:
            raise ValueError("KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set")
        url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        tls = partial(ssl.create_default_context, cafile=ca_file)
        authorization = partial(_constant, f"Bearer {_token(token_file)}")
        return Access(url, tls, authorization, (ca_file, token_file))

    return load


def _token(path: str) -> str:
    token = Path(path).read_text(encoding="ascii").strip()
    if not token:
        msg = f"the token file {path} is empty"
        raise ValueError(msg)
    return token


class RenewedAccess:
    """The access of a client, loaded again when one of its files was replaced. If that fails, the
    previous one is used: the system may delete the temporary files of a kubeconfig's data.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self._files: list[Stamp] | None = None
        self._tried: list[Stamp] | None = None
        self._access: Access  # these are set by `load`
        self._basic: str
        self.tls: ssl.SSLContext
        self.tls_name: str | None
        self.prefix: str
        self.proxy: URL | None

    async def load(self) -> None:
        """Load the access. Raises OSError or ValueError."""
        access = await self._load()
        url, proxy = _url(access.url), access.proxy or _proxy_for(access.url)
        self.proxy = _url(proxy) if proxy else None
        # aiohttp accepts no Authorization header beside credentials in the URL.
        self.prefix = str(url.with_user(None)).rstrip("/")
        user = f"{url.user}:{url.password or ''}"
        self._basic = "" if url.user is None else f"Basic {b64encode(user.encode()).decode()}"
        self.tls_name, self._access = access.tls_name or None, access
        self._tried = files = [_stamp(path) for path in access.files]
        # A new context parses all authorities again.
        if files != self._files:
            self.tls, self._files = access.tls(), files

    async def renew(self) -> None:
        """Load the access again: the output of an exec plugin may have changed. Raises ApiError."""
        try:
            await self.load()
        except _UNUSABLE as error:
            message = (
                "the API server does not accept the credentials, and they cannot be loaded again: "
                f"{str(error) or type(error).__name__}"
            )
            raise ApiError("unauthorized", message) from error

    async def _try(self, files: list[Stamp]) -> None:
        try:
            await self.load()
        except _UNUSABLE as error:
            self._tried = files
            message = "credentials for the API server cannot be read; the previous stay in use: %s"
            _log.warning(message, error)

    async def authorization(self) -> Mapping[str, str]:
        """Return the header of the current credentials. Raises ApiError."""
        try:
            files = [_stamp(path) for path in self._access.files]
            if files != self._tried:
                await self._try(files)
            value = await self._access.authorization() or self._basic
            # A line end would begin another header.
            if not value.isprintable():
                raise ValueError("the token is not one line")
        except _UNUSABLE as error:
            message = (
                f"the credentials for the API server cannot be read: {error}; check the files "
                "that the kubeconfig or the service account names"
            )
            raise ApiError("unauthorized", message) from error
        return {"Authorization": value} if value else {}


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


def _proxy_for(url: str) -> str | None:
    """Return the proxy of the environment (HTTPS_PROXY, NO_PROXY) for a server.

    As in other clients, a proxy may be a plain host and port; as in Go, NO_PROXY may contain
    networks, such as `10.96.0.0/12`.
    """
    parts = urlsplit(url)
    host, proxies = parts.hostname or "", getproxies()
    proxy = proxies.get(parts.scheme)
    if not proxy or proxy_bypass(host):
        return None
    for network in proxies.get("no", "").split(","):
        with suppress(ValueError):
            if ip_address(host) in ip_network(network.strip(), strict=False):
                return None
    return proxy if "://" in proxy else f"http://{proxy}"
