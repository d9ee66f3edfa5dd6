"""The source of the access to the API server: a kubeconfig, located as in kubectl, or the service
account of a pod. The `kubernetes` package is imported only for a kubeconfig.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from webhook.kubeclient.access import NAMESPACE_FILE, Load, in_cluster
from webhook.kubeclient.errors import ConfigurationError

_DEFAULT: Final = "default"


def locate(path: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the path of the kubeconfig: the given one, otherwise KUBECONFIG, otherwise that in the
    home directory.

    Empty for a pod without a kubeconfig, which uses its service account.
    """
    kubeconfig_path = path or environ.get("KUBECONFIG", "")
    home = Path(environ.get("HOME", "~")).expanduser() / ".kube" / "config"
    if kubeconfig_path or home.exists() or "KUBERNETES_SERVICE_HOST" not in environ:
        return kubeconfig_path or str(home)
    return ""


def load_of(path: str, context: str | None = None) -> Load:
    """Return the access by a located kubeconfig, or that of a pod if the path is empty."""
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
    from webhook.kubeclient.kubeconfig import namespace_in  # noqa: PLC0415 - as above

    return namespace_in(path, context) or _DEFAULT
