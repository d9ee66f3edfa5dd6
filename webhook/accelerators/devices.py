"""Devices: one row for each kind that the webhook knows, and how many of each a host has.

To add an accelerator, add its names to `webhook/api/names.py` and a row to `DEVICES`.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, TypeVar

from msgspec import Struct

from webhook.api import names
from webhook.api.formats import is_qualified_name
from webhook.api.objects import (
    ALWAYS,
    Container,
    PodSpec,
    TemplateContainer,
)
from webhook.api.quantity import parse_count

A = TypeVar("A")

Counts = Mapping[str, int]
"""How many devices of each kind, by the name of the kind; a kind that is not asked
for is absent.
"""

NO_DEVICES: Final[Counts] = MappingProxyType({})


class Device(Struct, frozen=True, gc=False):
    """A kind of device.

    A container asks for it by an extended resource: one of `resources`, or any that begins with
    `prefix` or ends with `suffix`; or by a claim (DRA) whose name ends with one of `claims`, which
    counts as one device, as nothing in the pod says how many it has. `selectors` are the node
    labels by which its pods must be placed, which a rule asks of TPUs alone. The hosts of a replica
    stay together within one value of the node label `topology_key`. With `rendezvous`, the hosts of
    a replica meet at an address, as torchrun does it. With `processes`, each device is one process
    of torchrun.
    """

    name: str
    resources: frozenset[str] = frozenset()
    prefix: str = ""
    suffix: str = ""
    selectors: tuple[str, ...] = ()
    topology_key: str = ""
    rendezvous: bool = False
    processes: bool = False
    claims: tuple[str, ...] = ()

    def named_by(self, resource: str) -> bool:
        """Return whether a resource is this device."""
        return (
            resource in self.resources
            or bool(self.prefix and resource.startswith(self.prefix))
            or bool(self.suffix and resource.endswith(self.suffix))
        )


# https://cloud.google.com/kubernetes-engine/docs/concepts/tpus
TPU: Final = Device(
    "TPU",
    resources=frozenset({names.RESOURCE_TPU}),
    selectors=(names.NODE_TPU_ACCELERATOR, names.NODE_TPU_TOPOLOGY),
    topology_key=names.NODE_POOL,
)

# Any resource whose name ends with `gpu`, as KubeRay and Ray recognise them, and a part of one.
# https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
GPU: Final = Device(
    "GPU",
    prefix=names.RESOURCE_MIG_PREFIX,
    suffix=names.RESOURCE_GPU_SUFFIX,
    rendezvous=True,
    processes=True,
)

# The class of a claim is in its template, so that its name in the pod is all that is known.
# https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
CLAIMED_GPU: Final = Device("GPU claim", claims=("gpu", "gpus"), rendezvous=True)

# https://awsdocs-neuron.readthedocs-hosted.com/en/latest/containers/kubernetes-getting-started.html
NEURON: Final = Device("Neuron", resources=frozenset(names.RESOURCES_NEURON), rendezvous=True)
NEURON_CORE: Final = Device(
    "NeuronCore",
    resources=frozenset({names.RESOURCE_NEURON_CORE}),
    rendezvous=True,
    processes=True,
)

SHIPPED: Final = (TPU, GPU, CLAIMED_GPU, NEURON, NEURON_CORE)

DEVICES: Final = [*SHIPPED]
"""Those that are shipped, and those of the settings."""


def add_device(device: Device) -> None:
    """Add a device to the known ones, or replace the one of its name."""
    DEVICES[:] = [*(each for each in DEVICES if each.name != device.name), device]
    device_of.cache_clear()


def own_device(name: str, keys: Iterable[str]) -> Device:
    """Return a device of the settings, by extended resources, and by endings of the names of claims
    (DRA), which have no slash. Raises ValueError for one that cannot be.
    """
    if any(name == device.name for device in SHIPPED):
        msg = f"device {name} exists: use another name"
        raise ValueError(msg)
    resources = frozenset(key for key in keys if "/" in key)
    for key in resources:
        known = next((device.name for device in SHIPPED if device.named_by(key)), "")
        if known or not is_qualified_name(key):
            why = f"is {known} already" if known else "is not an extended resource"
            msg = f"device {name}: {key} {why}"
            raise ValueError(msg)
    claims = tuple(key for key in keys if "/" not in key)
    return Device(name, resources, claims=claims, rendezvous=True, processes=not claims)


IDENTITIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        names.TPU_WORKER_ID: "0",
        names.TPU_WORKER_HOSTNAMES: "localhost",
        names.TPU_PROCESS_ADDRESSES: "",
        names.NODE_RANK: "",
        names.PET_NODE_RANK: "",
    }
)
"""Variables that say which host of which replica a pod is, so that no template can have them.

Each with the value that images and templates have as a placeholder, which counts as unset.
"""


@lru_cache(maxsize=1024)
def device_of(resource: str) -> Device | None:
    """Return the device that a resource is, or None for cores, memory and whatever else."""
    for device in DEVICES:
        if device.named_by(resource):
            return device
    return None


def count_devices(
    limits: Mapping[str, A] | None,
    requests: Mapping[str, A] | None,
    count: Callable[[str, A], int],
    claims: Iterable[str] = (),
) -> Counts:
    """Return the devices that one container asks for, by its limits, else by its requests, and by
    the names of its claims.

    `count` turns the amount of a resource into a number.
    """
    found = {
        device.name: 1
        for claim in claims
        for device in DEVICES
        if device.claims and claim.endswith(device.claims)
    }
    for resource, amount in {**(requests or {}), **(limits or {})}.items():
        device = device_of(resource)
        if device is not None and (number := count(resource, amount)):
            found[device.name] = found.get(device.name, 0) + number
    return found


def devices_of_host(containers: Iterable[Counts], inits: Iterable[tuple[Counts, bool]]) -> Counts:
    """Return the devices of a host, as the scheduler and the kubelet count them for its pod.

    Containers and sidecars run together, so theirs add up. An init container borrows what the
    containers get later, and counts only where it wants more, with the sidecars before it. `inits`
    are the init containers in order, each with whether it is a sidecar.

    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    total: dict[str, int] = {}
    started: dict[str, int] = {}
    most: dict[str, int] = {}
    for counts in containers:
        _add(total, counts)
    for counts, sidecar in inits:
        if sidecar:
            _add(total, counts)
            _add(started, counts)
        else:
            for name, number in counts.items():
                most[name] = max(most.get(name, 0), number + started.get(name, 0))
    return {name: max(total.get(name, 0), most.get(name, 0)) for name in total | most}


def devices_of_container(container: Container | TemplateContainer) -> Counts:
    """Return the devices that a container of a pod asks for; an amount that is none counts as 0."""
    resources = container.resources
    if resources is None:
        return NO_DEVICES
    return count_devices(
        resources.limits, resources.requests, lambda _, amount: number_of(amount), resources.claimed
    )


def devices_of_pod(spec: PodSpec) -> Counts:
    """Return the devices of the host that a pod is; an amount that is none counts as 0."""
    return devices_of_host(
        map(devices_of_container, spec.containers or ()),
        [
            (devices_of_container(init), init.restart_policy == ALWAYS)
            for init in spec.init_containers or ()
        ],
    )


def number_of(amount: object) -> int:
    """Return a number of devices as somebody wrote it, 0 when it is none."""
    if isinstance(amount, bool) or not isinstance(amount, str | int | float):
        return 0
    try:
        return parse_count(amount)
    except ValueError:
        return 0


def _add(total: dict[str, int], counts: Counts) -> None:
    for name, number in counts.items():
        total[name] = total.get(name, 0) + number
