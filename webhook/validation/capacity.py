"""The amounts that Ray offers on a node of a group, for tasks and actors."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from msgspec import Struct

from webhook.api.quantity import read_quantity
from webhook.manifest.start_command import custom_resources, start_amounts
from webhook.validation.cluster import ClusterSpec, GroupSpec

CPU: Final = "CPU"
GPU: Final = "GPU"
MEMORY: Final = "memory"
_PARAMS: Final = {CPU: "num-cpus", GPU: "num-gpus", MEMORY: "memory"}
_DEVICES: Final = ("TPU", "neuron_cores", "HPU", "NPU", "RBLN", "FURIOSA", "METAX")
"""The beginnings of names of resources that Ray adds for the devices that it finds.

https://docs.ray.io/en/latest/ray-core/scheduling/accelerators.html
"""
_OF_A_NODE: Final = ("node:", "object_store_memory")
"""The beginnings of names of resources that every node has."""
_TYPE: Final = "accelerator_type:"
_OVERRIDE: Final = "RAY_OVERRIDE_RESOURCES"
_NVIDIA: Final = "NVIDIA_VISIBLE_DEVICES"

Amounts = Mapping[str, Decimal]


class Capacity(Struct, frozen=True):
    """The amounts of a node; None is an amount that only the node itself shows."""

    amounts: dict[str, Decimal | None]
    has_devices: bool
    """Whether Ray may find devices on the node beside those of `amounts`."""

    def amount(self, name: str) -> Decimal | None:
        """Return the amount of a resource, None if it is unknown."""
        if name in self.amounts:
            return self.amounts[name]
        of_devices = name.startswith((*_DEVICES, _TYPE)) and self.has_devices
        return None if of_devices or name.startswith(_OF_A_NODE) else Decimal()

    def holds(self, demand: Amounts) -> bool:
        """Return whether a node may hold all of a demand."""
        pairs = ((self.amount(name), amount) for name, amount in demand.items())
        return all(offered is None or amount <= offered for offered, amount in pairs)


def read_capacity(cluster: ClusterSpec, group: GroupSpec) -> Capacity | None:
    """Return what a node of a group, or the head, offers; None if it may offer anything, because
    KubeRay does not start Ray there, or a value is replaced when the pod starts.
    """
    overwritten = cluster.overwrites_start(group)
    params = start_amounts(group.field.map)
    if params is None or overwritten or not group.containers or group.first.variable(_OVERRIDE):
        return None
    custom = custom_resources(params.get("resources"))
    texts = {name: params.get(param) for name, param in _PARAMS.items()}
    plain = {name: read_quantity(value) for name, value in texts.items() if value is not None}
    if custom is None or None in plain.values():
        return None
    has_devices = _has_devices(group)
    amounts: dict[str, Decimal | None] = {CPU: None, MEMORY: None}
    if not has_devices:
        amounts[GPU] = Decimal()
    elif GPU not in plain:
        amounts[GPU] = None
    return Capacity({**amounts, **custom, **plain}, has_devices)


def _has_devices(group: GroupSpec) -> bool:
    """Return whether a pod of a group may have devices: an extended resource, a claim, or access
    that Kubernetes does not count.
    """
    pod = group.pod
    return bool(
        (pod / "resourceClaims").size
        or (pod / "runtimeClassName").given
        or any((volume / "hostPath").given for volume in (pod / "volumes").items())
        or any(_has_own_devices(container.field.map) for container in group.containers)
        or group.first.variable(_NVIDIA)
        or any(
            "/" in name
            for container in group.containers
            for name in (*container.limits, *container.requests)
        )
    )


def _has_own_devices(container: Mapping[str, object]) -> bool:
    security = container.get("securityContext")
    return isinstance(security, dict) and bool(security.get("privileged"))


class NodeCapacities(Struct, frozen=True):
    """The different nodes of a cluster, with the number of each that it can have."""

    kinds: list[tuple[Capacity, int]]

    def largest(self, name: str) -> Decimal | None:
        """Return the largest amount of a resource on a node, None if it is unknown."""
        amounts = [capacity.amount(name) for capacity, _ in self.kinds]
        offered = [amount for amount in amounts if amount is not None]
        return max(offered, default=None) if len(offered) == len(amounts) else None

    def holds(self, demand: Amounts) -> bool:
        """Return whether one of the nodes may hold all of a demand."""
        return any(capacity.holds(demand) for capacity, _ in self.kinds)

    def count(self, demand: Amounts) -> int:
        """Return the number of nodes that may hold a demand."""
        return sum(number for capacity, number in self.kinds if capacity.holds(demand))


_KINDS_MAX: Final = 64
"""The number of different nodes with which demands are compared; it bounds the time that a hostile
object can take.
"""


def read_nodes(cluster: ClusterSpec) -> NodeCapacities | None:
    """Return the nodes of a cluster, None if one of them may offer anything, or if there are too
    many different ones.
    """
    kinds: dict[tuple[object, ...], tuple[Capacity, int]] = {}
    for group in cluster.every_group:
        capacity = read_capacity(cluster, group)
        if capacity is None or len(kinds) > _KINDS_MAX:
            return None
        key = (*sorted(capacity.amounts.items(), key=str), capacity.has_devices)
        number = _number(cluster, group) + kinds.get(key, (capacity, 0))[1]
        kinds[key] = capacity, number
    return NodeCapacities([*kinds.values()])


def _number(cluster: ClusterSpec, group: GroupSpec) -> int:
    """Return the number of nodes that a group can have."""
    if group is cluster.head:
        return 1
    replicas = group.scale.max_replicas if cluster.autoscaling else group.scale.desired
    return max(replicas or 0, 0) * max(group.hosts, 0)
