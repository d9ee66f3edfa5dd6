"""Devices: each kind that the webhook supports, and the number of each on a host.

To add an accelerator, add its names to `webhook/api/names.py` and a row to `DEVICES`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeVar

from msgspec import Struct

from webhook.api import names
from webhook.api.formats import is_qualified_name
from webhook.api.objects import Container, Resources, TemplateContainer
from webhook.api.quantity import parse_count

A = TypeVar("A")

Counts = Mapping[str, int]
"""Numbers of devices by the name of their kind; kinds that are not requested are absent."""

NO_DEVICES: Final[Counts] = MappingProxyType({})


class Device(Struct, frozen=True, gc=False):
    """A kind of device.

    A container requests it by an extended resource: one of `resources`, or any that begins with
    `prefix` or ends with `suffix`; or by a claim (DRA) whose name ends with one of `claims`, which
    counts as one device, because the pod does not contain the number. `selectors` are the node
    labels that its pods must select, which a rule requires for TPUs only. The hosts of a replica
    are scheduled within one value of the node label `topology_key`. With `rendezvous`, the hosts of
    a replica meet at an address, as with torchrun. With `processes`, each device is one process of
    torchrun.
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

    def named_in(self, resources: Collection[str]) -> Iterable[str]:
        """Return the resources that name the device. Without a prefix or a suffix, there may be
        tens of thousands of others.
        """
        prefix, suffix = self.prefix, self.suffix
        if prefix or suffix:
            return [
                name
                for name in resources
                if (suffix and name.endswith(suffix))
                or (prefix and name.startswith(prefix))
                or name in self.resources
            ]
        return filter(resources.__contains__, self.resources)

    def named_by(self, resource: str) -> bool:
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

# Any resource whose name ends with `gpu`, as KubeRay and Ray recognise them, or a fraction of one.
# https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
GPU: Final = Device(
    "GPU",
    prefix=names.RESOURCE_MIG_PREFIX,
    suffix=names.RESOURCE_GPU_SUFFIX,
    rendezvous=True,
    processes=True,
)

# The class of a claim is in its template; the pod contains only the name of the claim.
# https://kubernetes.io/docs/concepts/scheduling-eviction/dynamic-resource-allocation/
CLAIMED_GPU: Final = Device("GPU claim", claims=("gpu", "gpus"), rendezvous=True)

# https://awsdocs-neuron.readthedocs-hosted.com/en/latest/containers/kubernetes-getting-started.html
NEURON: Final = Device("Neuron", resources=frozenset(names.RESOURCES_NEURON), rendezvous=True)
NEURON_CORE: Final = Device(
    "NeuronCore", resources=frozenset({names.RESOURCE_NEURON_CORE}), rendezvous=True, processes=True
)

Devices = tuple[Device, ...]

DEVICES: Final[Devices] = (TPU, GPU, CLAIMED_GPU, NEURON, NEURON_CORE)
"""The built-in devices."""


def add_devices(keys_by_name: Mapping[str, Iterable[str]]) -> Devices:
    """Return the built-in devices, and those of the configuration. Raises ValueError if one is
    invalid.
    """
    return (*DEVICES, *(own_device(*entry) for entry in keys_by_name.items()))


def own_device(name: str, keys: Iterable[str]) -> Device:
    """Return a device of the configuration, given its extended resources, and the suffixes of its
    claims (DRA), which contain no slash. Raises ValueError if it is invalid.
    """
    if not name.strip():
        msg = f"{name!r} is not a name of a device"
        raise ValueError(msg)
    if any(name == device.name for device in DEVICES):
        msg = f"device {name} exists: use another name"
        raise ValueError(msg)
    resources = frozenset(key for key in keys if "/" in key)
    for key in resources:
        device_name = next((device.name for device in DEVICES if device.named_by(key)), "")
        if device_name or not is_qualified_name(key):
            why = f"is {device_name} already" if device_name else "is not an extended resource"
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
"""Variables that identify the host and replica of a pod, so that a template cannot set them.

Each with the placeholder value in images and templates, which counts as unset.
"""


def device_of(resource: str, devices: Devices) -> Device | None:
    """Return the device of a resource, or None if it is none, such as cores and memory."""
    return next((device for device in devices if device.named_by(resource)), None)


def count_devices(
    devices: Devices,
    limits: Mapping[str, A] | None,
    requests: Mapping[str, A] | None,
    count: Callable[[str, A], int],
    claims: Iterable[str] = (),
) -> Counts:
    """Return which of the devices a container requests: by its limits, otherwise by its requests,
    and by the names of its claims.

    `count` converts the amount of a resource to a number.
    """
    counts = {
        device.name: 1
        for claim in claims
        for device in devices
        if device.claims and claim.endswith(device.claims)
    }
    for resource, amount in {**(requests or {}), **(limits or {})}.items():
        device = device_of(resource, devices)
        if device is not None and (number := count(resource, amount)):
            counts[device.name] = counts.get(device.name, 0) + number
    return counts


def devices_of_host(containers: Iterable[Counts], inits: Iterable[tuple[Counts, bool]]) -> Counts:
    """Return the devices of a host, as the scheduler and the kubelet count them for its pod.

    Containers and sidecars run together, so their devices add up. An init container uses the
    devices of the containers that start later, and counts only if it requests more, together with
    the sidecars before it. `inits` are the init containers in order, each with whether it is a
    sidecar.

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


def may_request(device: Device, resources: Resources | None) -> bool:
    """Return whether a container of a template requests a device, other than by a claim: an amount
    is not parsed, because a template may have tens of thousands, but 0 is none.
    """
    if resources is None:
        return False
    for amounts in (resources.limits or {}, resources.requests or {}):
        for name in device.named_in(amounts) if amounts else ():
            if amounts[name] not in (0, "0"):
                return True
    return False


def count_chips(container: Container | TemplateContainer) -> int:
    """Return the number of TPU chips that a container requests; an invalid amount counts as 0."""
    resources = container.resources
    if resources is None:
        return 0
    limits, requests = resources.limits, resources.requests
    counts = count_devices((TPU,), limits, requests, lambda _, amount: number_of(amount))
    return counts.get(TPU.name, 0)


def number_of(amount: object) -> int:
    """Return a number of devices from user input, 0 if it is invalid."""
    if isinstance(amount, bool) or not isinstance(amount, str | int | float):
        return 0
    try:
        return parse_count(amount)
    except ValueError:
        return 0


def _add(total: dict[str, int], counts: Counts) -> None:
    for name, number in counts.items():
        total[name] = total.get(name, 0) + number
