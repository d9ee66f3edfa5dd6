"""Fields that KubeRay refuses while a feature gate of its operator is off: one row each."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from webhook.api.review import FORBIDDEN
from webhook.validation.cluster import Cluster
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.ray_object import Job
from webhook.validation.rule_settings import GATES

T = TypeVar("T", Cluster, Job)
Check = Callable[[T], Iterator[Fault]]


def _row(name: str, gate: str, what: str, fields: Callable[[T], Iterable[Field]]) -> Check[T]:
    """Return the check of a gate. If the settings name no gates, a gate that is off by default is a
    warning, because the operator may run with other gates than KubeRay's defaults.
    """

    def check(view: T) -> Iterator[Fault]:
        settings = view.settings
        if not settings.enabled(gate):
            doubtful = not settings.gates and not GATES[gate]
            text = f"the operator's feature gate {gate} is off: remove it, or turn that on"
            for field in fields(view):
                if field.given:
                    yield Fault(field, text, FORBIDDEN, doubtful=doubtful)

    check.__name__ = f"{name}_gate_off"
    check.__doc__ = (
        f"{what} while the operator's feature gate {gate} is off.\n\n"
        "KubeRay refuses the object.\n\nKubeRay validation.go"
    )
    return check


def _at(*names: str) -> Callable[[Cluster | Job], list[Field]]:
    return lambda view: [view.field / name for name in names]


def _rocksdb(cluster: Cluster) -> list[Field]:
    backend = cluster.field / "gcsFaultToleranceOptions" / "backend"
    return [backend] if backend.text == "rocksdb" else []


def _suspended(cluster: Cluster) -> list[Field]:
    return [group.field / "suspend" for group in cluster.groups if group.scale.suspend]


CLUSTER_GATES: Final[tuple[Check[Cluster], ...]] = (
    _row("group_suspend", "RayJobDeletionPolicy", "A suspended worker group", _suspended),
    _row("rocksdb", "GCSFaultToleranceEmbeddedStorage", "The RocksDB backend", _rocksdb),
    _row("history", "RayClusterHistoryServer", "A history server", _at("historyServerOptions")),
    _row("network_policy", "RayClusterNetworkPolicy", "Network policies", _at("networkPolicy")),
    _row("tls", "RayClusterMTLS", "Options of TLS", _at("tlsOptions")),
)
deletion_gate_off: Final[Check[Job]] = _row(
    "deletion",
    "RayJobDeletionPolicy",
    "A deletion strategy",
    _at("deletionStrategy", "deletionPolicy"),
)
