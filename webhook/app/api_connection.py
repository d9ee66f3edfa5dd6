"""The connection to the API server, as the settings name it, and where in the cluster this process
is.
"""

from pathlib import Path

from webhook.kubeclient.access import NAMESPACE_FILE, Load
from webhook.kubeclient.errors import ConfigurationError
from webhook.kubeclient.location import load_of


def connection(config: Path | None) -> Load:
    """Return how the connection is configured: by a kubeconfig, or by what a pod has inside the
    cluster.
    """
    return load_of(str(config or ""))


def own_namespace(named: str, file: Path = NAMESPACE_FILE) -> str:
    """Return the namespace that `installation.namespace` names, or the pod's own. Raises
    ConfigurationError where there is neither.
    """
    try:
        return named or file.read_text().strip()
    except OSError as error:
        msg = (
            f"no namespace: set installation.namespace, as {file} cannot be read: {error.strerror}"
        )
        raise ConfigurationError(msg) from error
