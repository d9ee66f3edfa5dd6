"""Access to the API server: a kubeconfig, located as in kubectl, or the service account of a pod.
The `kubernetes` package is imported only for a kubeconfig.
"""

import asyncio
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

from webhook.kubeclient.errors import ApiError, ConfigurationError
from webhook.manifest.reader import read
from webhook.manifest.yaml_values import ManifestError

_log: Final = logging.getLogger("webhook.kubeclient")
_RENEW_SECONDS: Final = 30.0
_UNUSABLE: Final = (OSError, ValueError)
"""Errors of an access that cannot be read."""
_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/"""

NAMESPACE_FILE: Final = _ACCOUNT / "namespace"
"""The namespace of the pod."""


async def _anonymous() -> str:
    return ""


class Access(Struct, frozen=True):
    """The address of an API server, and how to connect. `proxy` is empty for the proxy of the
    environment.

    `tls` returns a new context, created from `files` among others. `authorization` returns the
    value of the header, empty for none. Both raise OSError or ValueError.
    """

    url: str
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context
    authorization: Callable[[], Awaitable[str]] = _anonymous
    files: tuple[str, ...] = ()
    tls_name: str = ""
    proxy: str = ""


Load = Callable[[], Awaitable[Access]]
"""Loads the access again at each call. Raises OSError or ValueError."""

Stamp = tuple[int, ...]


def stamp(path: str) -> Stamp:
    """Return a value that changes with the content of a file; empty if the file does not exist."""
    try:
        stat = os.stat(path)  # noqa: PTH116 - at each request, in a quarter of the time
    except OSError:
        return ()
    return stat.st_ino, stat.st_mtime_ns, stat.st_size


class _TokenFile:
    """The token of a service account, which the kubelet rotates before it expires."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._read: Stamp = ()
        self._value = ""

    async def authorization(self) -> str:
        """Return the value of the header. Raises OSError or ValueError."""
        found = stamp(self._path)
        if not found or found != self._read:
            self._value, self._read = f"Bearer {self._token()}", found
        return self._value

    def _token(self) -> str:
        token = Path(self._path).read_text(encoding="ascii").strip()
        if not token:
            msg = f"the token file {self._path} is empty"
            raise ValueError(msg)
        return token


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
        file = _TokenFile(token_file)
        await file.authorization()
        url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        tls = partial(ssl.create_default_context, cafile=ca_file)
        return Access(url, tls, file.authorization, (ca_file,))

    return load


class Connection:
    """The access of a client, with the current certificates and credentials. `prefix` stands before
    the paths of requests.
    """

    def __init__(self, load: Load) -> None:
        self._load = load
        self._files: list[tuple[str, Stamp]] | None = None
        self._access: Access  # these are set by `load`
        self._tls: ssl.SSLContext
        self._basic: str
        self.prefix: str
        self.proxy: URL | None

    async def load(self) -> None:
        """Load the access. Raises OSError or ValueError."""
        access = await self._load()
        url, proxy = _url(access.url), access.proxy or _proxy_for(access.url)
        self.proxy = _url(proxy) if proxy else None
        self.prefix = str(url.with_user(None)).rstrip("/")
        user = f"{url.user}:{url.password or ''}"
        self._basic = "" if url.user is None else f"Basic {b64encode(user.encode()).decode()}"
        self._access = access
        self._trust()

    async def renew(self) -> None:
        """Load the access again: a token file or the output of an exec plugin may have changed.
        Raises ApiError.
        """
        try:
            async with asyncio.timeout(_RENEW_SECONDS):
                await self.load()
        except _UNUSABLE as error:
            text = (
                "the API server does not accept the credentials, and they cannot be loaded again: "
                f"{str(error) or type(error).__name__}"
            )
            raise ApiError("unauthorized", text) from error

    @property
    def tls_name(self) -> str | None:
        return self._access.tls_name or None

    async def authorization(self) -> Mapping[str, str]:
        """Return the header of the credentials. Raises ApiError."""
        try:
            value = await self._access.authorization() or self._basic
            if not value.isprintable():
                raise ValueError("the token is not one line")
        except _UNUSABLE as error:  # token files are read again periodically
            text = (
                f"the credentials for the API server cannot be read: {error}; look at the token "
                "file that the kubeconfig or the service account names"
            )
            raise ApiError("unauthorized", text) from error
        return {"Authorization": value} if value else {}

    def tls(self) -> ssl.SSLContext:
        """Return the context of the current certificates of authority and client."""
        try:
            self._trust()
        except _UNUSABLE as error:
            _log.warning(
                "the certificates for the API server cannot be read again, so those from before "
                "are used: %s",
                error,
            )
        return self._tls

    def _trust(self) -> None:
        """Create the context, if its files were replaced. Raises OSError or ValueError."""
        files = [(path, stamp(path)) for path in self._access.files]
        if files != self._files:
            self._files = files
            self._tls = self._access.tls()


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


_DEFAULT: Final = "default"


def locate(path: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the path of the kubeconfig: the given one, otherwise KUBECONFIG, otherwise that in the
    home directory.

    Empty for a pod without a kubeconfig, which uses its service account.
    """
    found = path or environ.get("KUBECONFIG", "")
    home = Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
    if found or home.exists() or "KUBERNETES_SERVICE_HOST" not in environ:
        return found or str(home)
    return ""


def load_of(path: str, context: str | None = None) -> Load:
    """Return the access by a located kubeconfig, or without one that of a pod inside the
    cluster.
    """
    if not path:
        return in_cluster()
    from webhook.kubeclient.kubeconfig import kubeconfig  # noqa: PLC0415 - an eighth of the memory

    return kubeconfig(path, context)


def namespace_of(path: str, context: str | None) -> str:
    """Return the namespace of a context of a located kubeconfig. Raises ConfigurationError."""
    if path and not any(Path(part).exists() for part in path.split(os.pathsep)):
        msg = f"there is no kubeconfig {path}; name another with --kubeconfig or KUBECONFIG"
        raise ConfigurationError(msg)
    if not path:
        return (
            NAMESPACE_FILE.read_text(encoding="utf-8").strip()
            if NAMESPACE_FILE.exists()
            else _DEFAULT
        )
    from webhook.kubeclient.kubeconfig import contexts_of  # noqa: PLC0415 - as above

    try:
        contexts, current = contexts_of(path)
        by_name = {each["name"]: each for each in contexts}
        chosen = by_name.get(context) if context else current
        namespace = chosen["context"].get("namespace") if chosen is not None else ""
    except Exception as error:  # the package does not wrap errors of its YAML parser
        _require_maps(path)
        raise _unusable(path, str(error)) from error
    if chosen is None:
        msg = f"{path} has no context {context!r}: it has {', '.join(by_name) or 'none'}"
        raise ConfigurationError(msg)
    return str(namespace or _DEFAULT)


def _require_maps(path: str) -> None:
    """Raise ConfigurationError for a kubeconfig with a part that is not a YAML map.

    This is stricter than the package, which accepts duplicate keys, and has less precise messages.
    """
    for part in path.split(os.pathsep):
        if not Path(part).exists():
            continue
        try:
            documents = [each.document for each in read(part, Path(part).read_bytes())]
        except ManifestError as error:
            where = f"{part}, line {error.line}" if error.line else part
            raise _unusable(where, error.problem) from error
        except OSError as error:
            raise _unusable(part, error.strerror or str(error)) from error
        if not documents or not isinstance(documents[0], dict):
            raise _unusable(part, "it is empty" if not documents else "it is no map")


def _unusable(path: str, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"{path} cannot be read as a kubeconfig: {problem}; name another with --kubeconfig or "
        "KUBECONFIG"
    )
