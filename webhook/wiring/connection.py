"""The connection to the API server, as the settings name it."""

from pathlib import Path

from webhook.follow.client import Load, in_cluster, kubeconfig


def connection(config: Path | None) -> Load:
    """Return how the connection is configured: by a kubeconfig, or by what a pod has inside the cluster."""
    return kubeconfig(str(config)) if config else in_cluster()
