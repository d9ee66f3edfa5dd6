"""Rules of the history server's collector, which KubeRay adds to Ray's pods."""

from collections.abc import Iterator
from typing import Final

from webhook.api.review import FORBIDDEN, REQUIRED
from webhook.validation.cluster import Cluster
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.rule import KUBERAY, deny

_CONTAINER: Final = "ray-history-collector"
_BACKEND: Final = "STORAGE_BACKEND"
_MANAGED: Final = (
    "POD_IP",
    "FQ_RAY_IP",
    "RAY_CLUSTER_NAME",
    "RAY_CLUSTER_NAMESPACE",
    "RAY_ROLE",
    "OWNER_KIND",
    "OWNER_NAME",
    "EVENTS_PORT",
)
_NEEDED: Final = {
    "GCS": ("GCS_BUCKET",),
    "S3": ("S3_REGION",),
    "ALIYUNOSS": ("OSS_BUCKET", "OSS_ENDPOINT", "OSS_REGION"),
}
_AZURE_MODE: Final = "AZURE_STORAGE_AUTH_MODE"
_AZURE_CONNECTION: Final = "AZURE_STORAGE_CONNECTION_STRING"
_AZURE_URL: Final = "AZURE_STORAGE_ACCOUNT_URL"


def history_collector_missing(cluster: Cluster) -> Iterator[Fault]:
    """History options without a collector, or a collector without an image.

    KubeRay has no container to add to the pods, so it refuses the RayCluster.

    KubeRay validation.go (`validateCollectorOptions`)
    """
    field = cluster.field / "historyServerOptions"
    collector = field / "collectorOptions"
    image = collector / "image"
    if field.given and not collector.given:
        yield Fault(
            collector,
            "collectorOptions is not set: add it with image and env, or remove the options",
            REQUIRED,
        )
    elif collector.given and (not image.given or image.value == ""):
        yield Fault(image, "collectorOptions has no image: set it", REQUIRED)


def history_managed_variable(cluster: Cluster) -> Iterator[Fault]:
    """A variable of the collector that KubeRay sets itself.

    The value would replace KubeRay's, so KubeRay refuses the RayCluster.

    KubeRay validation.go (`validateCollectorOptions`)
    """
    for entry in (_collector(cluster) / "env").items():
        if (entry / "name").text in _MANAGED:
            yield Fault(
                entry / "name", f"KubeRay sets {(entry / 'name').text} itself: remove it", FORBIDDEN
            )


def history_storage_incomplete(cluster: Cluster) -> Iterator[Fault]:
    """A collector without its storage, or with incomplete settings of its storage.

    The collector could not store any data, so KubeRay refuses the RayCluster.

    KubeRay validation.go (`validateCollectorOptions`)
    """
    collector = _collector(cluster)
    if not collector.given:
        return
    env = {(entry / "name").text: entry for entry in (collector / "env").items()}
    backend = (env[_BACKEND] / "value").text.upper() if _BACKEND in env else ""
    if not backend:
        yield Fault(
            collector / "env",
            f"env has no {_BACKEND}: set it to gcs, s3, azureblob or aliyunoss",
            REQUIRED,
        )
        return
    present = {
        name for name, entry in env.items() if (entry / "value").text or (entry / "valueFrom").given
    }
    for needed in _NEEDED.get(backend, ()):
        if needed not in present:
            yield Fault(
                collector / "env",
                f"env has no {needed}, which storage {backend} needs: set it",
                REQUIRED,
            )
    if backend == "AZUREBLOB":
        mode = (env[_AZURE_MODE] / "value").text.strip().lower() if _AZURE_MODE in env else ""
        wanted = _azure(mode)
        if not present.intersection(wanted):
            yield Fault(
                collector / "env",
                f"env lacks {' or '.join(wanted)}, for storage AZUREBLOB: set it",
                REQUIRED,
            )


def _azure(mode: str) -> tuple[str, ...]:
    """Return the variables of which one is required to log in to Azure."""
    if mode == "connection_string":
        return (_AZURE_CONNECTION,)
    return (
        (_AZURE_URL,)
        if mode in ("workload_identity", "default")
        else (_AZURE_CONNECTION, _AZURE_URL)
    )


def history_container_taken(cluster: Cluster) -> Iterator[Fault]:
    """A container with the name of the collector, in a template.

    KubeRay adds a container of this name, so it refuses a template that contains one.

    KubeRay validation.go (`ValidateRayClusterSpec`)
    """
    if (cluster.field / "historyServerOptions").given:
        for group in cluster.everyone:
            for container in group.containers:
                if container.name == _CONTAINER:
                    yield Fault(
                        container.field / "name",
                        "KubeRay adds a container of this name: rename or remove it",
                        FORBIDDEN,
                    )


def _collector(cluster: Cluster) -> Field:
    return cluster.field / "historyServerOptions" / "collectorOptions"


HISTORY: Final = (
    deny(history_collector_missing, by=KUBERAY),
    deny(history_managed_variable, by=KUBERAY),
    deny(history_storage_incomplete, by=KUBERAY),
    deny(history_container_taken, by=KUBERAY),
)
