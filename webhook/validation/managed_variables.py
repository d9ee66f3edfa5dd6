"""Rules of environment variables of Ray's container that KubeRay manages."""

from collections.abc import Iterator
from typing import Final

from webhook.validation.cluster import Cluster
from webhook.validation.finding import Fault
from webhook.validation.rule import warn

# KubeRay appends these unconditionally, so its value wins; the first two only exist on workers.
# https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
# (`setContainerEnvVars`)
_WORKER_LOST: Final = ("FQ_RAY_IP", "RAY_IP")
_LOST: Final = (
    "RAY_CLUSTER_NAME",
    "RAY_CLUSTER_NAMESPACE",
    "RAY_CLOUD_INSTANCE_ID",
    "RAY_NODE_TYPE_NAME",
    "KUBERAY_GEN_RAY_START_CMD",
)
# KubeRay sets these only if they are absent, so the user's value wins.
_REPLACED: Final = ("RAY_ADDRESS", "RAY_PORT")
_MANAGED: Final = frozenset((*_WORKER_LOST, *_LOST, *_REPLACED))


def variable_lost(cluster: Cluster) -> Iterator[Fault]:
    """A variable that KubeRay sets to its own value.

    KubeRay silently overrides the value in the template.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    (`setContainerEnvVars`)
    """
    for group in cluster.everyone:
        first = group.first
        if first is None or _MANAGED.isdisjoint(first.env):
            continue
        for name in _LOST if group is cluster.head else (*_WORKER_LOST, *_LOST):
            if entry := first.variable(name):
                yield Fault(entry / "name", f"KubeRay replaces the value of {name}: remove it")


def variable_replaces_kuberay(cluster: Cluster) -> Iterator[Fault]:
    """A variable that overrides KubeRay's value.

    Pods then join the address in the variable, and not the head of their own cluster.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    (`setContainerEnvVars`)
    """
    for group in cluster.everyone:
        first = group.first
        if first is None or _MANAGED.isdisjoint(first.env):
            continue
        for name in _REPLACED:
            if entry := first.variable(name):
                yield Fault(
                    entry / "name",
                    f"{name} replaces the address that KubeRay sets: remove it",
                )


VARIABLES: Final = (
    warn(variable_lost),
    warn(variable_replaces_kuberay),
)
