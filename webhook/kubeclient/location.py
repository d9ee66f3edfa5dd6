"""The source of the access to the API server: a kubeconfig, located as in kubectl, or the service
account of a pod. The `kubernetes` package is imported only for a kubeconfig.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from webhook.kubeclient.access import NAMESPACE_FILE, Load, in_cluster
from webhook.kubeclient.errors import ConfigurationError
from webhook.manifest.manifest_error import ManifestError
from webhook.manifest.reader import read

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
