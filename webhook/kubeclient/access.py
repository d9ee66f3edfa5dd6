"""Access to the API server: a kubeconfig, located as in kubectl, or the service account of a pod.
The `kubernetes` package is imported only for a kubeconfig.
"""

import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct

from webhook.kubeclient.errors import ConfigurationError
from webhook.manifest.reader import read
from webhook.manifest.yaml_values import ManifestError

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
