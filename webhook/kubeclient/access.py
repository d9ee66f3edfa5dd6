"""Access to an API server: its address, its certificate authorities, and credentials."""

import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

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
            self._value, self._read = f"Bearer {self.token()}", found
        return self._value

    def token(self) -> str:
        """Read the token. Raises OSError or ValueError."""
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
        file.token()
        url = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
        tls = partial(ssl.create_default_context, cafile=ca_file)
        return Access(url, tls, file.authorization, (ca_file,))

    return load
