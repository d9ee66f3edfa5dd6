"""Rule of fields that depend on feature gates of the KubeRay operator."""

from collections.abc import Iterator
from typing import Final

from webhook.api.review import FORBIDDEN
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.ray_object import RayObject
from webhook.validation.rule_settings import GATES

_DELETION: Final = "RayJobDeletionPolicy"
_ROCKSDB: Final = "GCSFaultToleranceEmbeddedStorage"
_OF_CLUSTERS: Final = {
    "historyServerOptions": "RayClusterHistoryServer",
    "networkPolicy": "RayClusterNetworkPolicy",
    "tlsOptions": "RayClusterMTLS",
}


def feature_gate_off(ray_object: RayObject) -> Iterator[Fault]:
    """A field whose feature gate of the KubeRay operator is off: a deletion strategy, a suspended
    worker group, the RocksDB backend, a history server, network policies, or options of TLS.

    KubeRay refuses the object. If the settings name no gates, a gate that is off by default is a
    warning, because the operator may run with other gates than KubeRay's defaults.
    """
    settings = ray_object.settings
    for gate, field in _list_gated_fields(ray_object):
        if field.given and not settings.enabled(gate):
            message = f"the operator's feature gate {gate} is off: remove it, or turn that on"
            doubtful = not settings.gates and not GATES[gate]
            yield Fault(field, message, FORBIDDEN, doubtful=doubtful)


def _list_gated_fields(ray_object: RayObject) -> Iterator[tuple[str, Field]]:
    """Yield the fields that depend on a gate, with its name."""
    cluster, job = ray_object.cluster, ray_object.job
    if job is not None:
        yield _DELETION, job.field / "deletionStrategy"
        yield _DELETION, job.field / "deletionPolicy"
    if cluster is None:
        return
    for name, gate in _OF_CLUSTERS.items():
        yield gate, cluster.field / name
    backend = cluster.field / "gcsFaultToleranceOptions" / "backend"
    if backend.text == "rocksdb":
        yield _ROCKSDB, backend
    for group in cluster.groups:
        if group.scale.suspend:
            yield _DELETION, group.field / "suspend"
