"""The configured connection to the API server, and the namespace of the process."""

from pathlib import Path

from webhook.kubeclient.access import NAMESPACE_FILE, Load
from webhook.kubeclient.errors import ConfigurationError
from webhook.kubeclient.location import load_of


def connection(config: Path | None) -> Load:
    """Return the loader of the connection: a kubeconfig, or the service account of the pod."""
    return load_of(str(config or ""))


def own_namespace(named: str, file: Path = NAMESPACE_FILE) -> str:
    """Return `installation.namespace`, or the pod's namespace. Raises ConfigurationError."""
    try:
        return named or file.read_text().strip()
    except OSError as error:
        msg = (
            f"no namespace: set installation.namespace, as {file} cannot be read: {error.strerror}"
        )
        raise ConfigurationError(msg) from error
