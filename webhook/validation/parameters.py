"""Rules of start parameters, resources and labels, from which KubeRay builds `ray start`."""

from collections.abc import Iterator
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

from webhook.api.formats import LABEL_VALUE_ADVICE, is_label_value, is_qualified_name
from webhook.api.quantity import parse_quantity
from webhook.api.review import FORBIDDEN, NOT_SUPPORTED
from webhook.validation.cluster import Cluster
from webhook.validation.finding import Fault
from webhook.validation.rule import (
    KUBERAY,
    RAY,
    deny,
    warn,
)

# https://docs.ray.io/en/latest/cluster/cli.html#ray-start
KNOWN: Final = frozenset({
    "address", "port", "node-ip-address", "node-name", "object-manager-port", "node-manager-port",
    "gcs-server-port",
    "min-worker-port", "max-worker-port", "worker-port-list", "ray-client-server-port", "memory",
    "object-store-memory",
    "num-cpus", "num-gpus", "resources", "head", "include-dashboard", "dashboard-host",
    "dashboard-port",
    "dashboard-agent-listen-port", "dashboard-agent-grpc-port", "dashboard-grpc-port",
    "runtime-env-agent-port", "block",
    "plasma-directory", "object-spilling-directory", "autoscaling-config", "no-redirect-output",
    "plasma-store-socket-name",
    "raylet-socket-name", "temp-dir", "storage", "system-config", "enable-object-reconstruction",
    "metrics-export-port",
    "no-monitor", "tracing-startup-hook", "ray-debugger-external", "disable-usage-stats", "labels",
    "labels-file",
    "include-log-monitor", "enable-resource-isolation", "system-reserved-cpu",
    "system-reserved-memory", "cgroup-path",
    "redis-username", "redis-password", "redis-shard-ports", "redis-max-memory", "log-style",
    "log-color", "verbose",
    "proxy-server-url",
})  # fmt: skip
_AMOUNTS: Final = ("num-cpus", "num-gpus", "memory", "resources")


def resources_given_twice(cluster: Cluster) -> Iterator[Fault]:
    """Resources of a group in both `resources` and `rayStartParams`.

    The two may contradict each other, so KubeRay refuses the RayCluster.

    KubeRay validation.go (`validateRayGroupResources`)
    """
    for group in cluster.everyone:
        field = group.field / "resources"
        if field.size and (twice := [name for name in _AMOUNTS if group.params.get(name)]):
            yield Fault(
                field,
                f"resources and rayStartParams both have {', '.join(twice)}: keep one of the two",
                FORBIDDEN,
            )


def labels_in_ray_start_params(cluster: Cluster) -> Iterator[Fault]:
    """Ray node labels given as a start parameter.

    KubeRay sets that parameter from the group's `labels`, and refuses another value.

    KubeRay validation.go (`validateRayGroupLabels`)
    """
    for group in cluster.everyone:
        if "labels" in group.params:
            yield Fault(
                group.param("labels"),
                "rayStartParams has labels: move them to the field labels of the group",
                FORBIDDEN,
            )


def ray_label_invalid(cluster: Cluster) -> Iterator[Fault]:
    """A Ray node label that is not a valid Kubernetes label.

    KubeRay adds the label to pods too, and refuses a RayCluster with an invalid label.

    KubeRay validation.go (`validateRayGroupLabels`)
    """
    for group in cluster.everyone:
        labels = group.field / "labels"
        for key, value in labels.strings.items():
            if not is_qualified_name(key):
                yield Fault(
                    labels.key(key),
                    f"{key[:63]!r} is not a label key: write name or prefix/name, with letters, "
                    "digits, -, _ and .",
                )
            elif not is_label_value(value):
                yield Fault(
                    labels.key(key),
                    f"label {value[:63]!r}: {LABEL_VALUE_ADVICE}",
                )


def group_resource_unreadable(cluster: Cluster) -> Iterator[Fault]:
    """An amount in a group's `resources` that is negative or, without autoscaling, not a quantity.

    KubeRay silently omits the resource from `ray start`, so Ray schedules the group without it.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    """
    for group in cluster.everyone:
        resources = group.field / "resources"
        for key, value in resources.strings.items():
            if not _amount(value, autoscaling=cluster.autoscaling):
                yield Fault(
                    resources.key(key),
                    f"{value[:40]!r} is not an amount, so KubeRay drops it: "
                    "write one such as 4 or 8Gi",
                )


def _amount(text: str, *, autoscaling: bool) -> bool:
    """Return whether a text is an amount. With autoscaling, another rule reports others."""
    try:
        return parse_quantity(text) >= 0
    except ValueError:
        return autoscaling


def ray_start_param_unknown(cluster: Cluster) -> Iterator[Fault]:
    """A start parameter that `ray start` does not have.

    `ray start` exits with a usage error, and the pod restarts repeatedly. New releases of Ray add
    parameters, so this is a warning.

    https://docs.ray.io/en/latest/cluster/cli.html#ray-start
    """
    for group in cluster.everyone:
        for name in group.params:
            if name not in KNOWN:
                yield Fault(
                    group.param(name),
                    f"ray start has no --{name[:40]}{_suggestion(name[:64])}",
                    NOT_SUPPORTED,
                )


@lru_cache(maxsize=256)
def _suggestion(name: str) -> str:
    close = get_close_matches(name.lower().replace("_", "-").lstrip("-"), KNOWN, 1)
    return f": write {close[0]}" if close else ""


PARAMETERS: Final = (
    deny(resources_given_twice, by=KUBERAY),
    deny(labels_in_ray_start_params, since=(1, 5), by=KUBERAY),
    deny(ray_label_invalid, by=KUBERAY),
    warn(group_resource_unreadable),
    warn(ray_start_param_unknown, by=RAY),
)
