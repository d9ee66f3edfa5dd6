"""A worker pod as the mutators see it: the pod, its seat, its cluster, and what follows from them."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from msgspec import Struct

from webhook.groups.clusters import ClusterFacts
from webhook.groups.naming import headless_service, host_name
from webhook.groups.seat import Seat
from webhook.groups.topology import is_v7x
from webhook.kube import names
from webhook.kube.objects import Container, EnvVar, Pod, WorkerGroup
from webhook.kube.paths import dotted
from webhook.kube.quantity import parse_count
from webhook.kube.review import INVALID, Cause, Denied
from webhook.mutation.edit import SetEnv, Warn

_NO_ENV: Final[list[EnvVar]] = []


class Slot(Struct, gc=False):
    """One container or init container: where it is in the pod, which variables it has, which devices it asks for."""

    path: str
    container: Container
    env: dict[str, int]
    chips: int
    gpus: int

    def variable(self, name: str) -> EnvVar | None:
        """Return the entry that counts for a variable: of several, the kubelet takes the last."""
        index = self.env.get(name)
        return None if index is None else (self.container.env or _NO_ENV)[index]


class Variable(Struct, frozen=True, gc=False):
    """A variable that a container should have.

    `placeholder` is a value that counts as unset. `identity` marks a value that only this pod can have, so that another one
    set by hand is worth a warning. The value may refer to the variable `after`.
    """

    name: str
    value: str
    why: str
    placeholder: str = ""
    identity: bool = False
    field_path: str = ""
    after: str = ""


class Worker(Struct, gc=False):
    """A worker pod with its seat.

    `assigned` tells that the seat is new to the pod, not carried by it. `service` is the headless service under which the pod's
    host name resolves. `chips` and `gpus` are those of the whole host; `accelerator` and `topology` are the TPU the pod selects
    nodes by, or nothing.
    """

    pod: Pod
    seat: Seat
    assigned: bool
    cluster: ClusterFacts
    group: WorkerGroup
    slots: list[Slot]
    service: str
    chips: int
    gpus: int
    accelerator: str
    topology: str

    @property
    def name(self) -> str:
        """The name of the group."""
        return self.group.group_name

    @property
    def hosts(self) -> int:
        """The hosts of a replica."""
        return self.group.num_of_hosts

    @property
    def v7x(self) -> bool:
        """Tell whether this is a host of a TPU v7x."""
        return is_v7x(self.accelerator)

    @property
    def multi_slice(self) -> bool:
        """Tell whether the user asked for a job over several TPU slices, in any container."""
        return self.chips > 0 and any(in_multi_slice(slot) for slot in self.slots)

    def addresses(self) -> tuple[str, ...]:
        """Return the addresses of all hosts of this replica, in host order."""
        return replica_addresses(self.name, self.seat.replica, self.hosts, self.service)


def in_multi_slice(slot: Slot) -> bool:
    """Tell whether a container takes part in a job over several slices: the user set MEGASCALE_NUM_SLICES in it."""
    variable = slot.variable(names.MEGASCALE_NUM_SLICES)
    return variable is not None and (bool(variable.value) or variable.value_from is not None)


def make_worker(pod: Pod, seat: Seat, cluster: ClusterFacts, group: WorkerGroup, *, assigned: bool) -> Worker:
    """Return the view of a worker pod. Raises Denied for a number of devices that is not whole."""
    spec = pod.spec
    slots = [_slot(f"/spec/containers/{i}", container) for i, container in enumerate(spec.containers or ())]
    slots += [_slot(f"/spec/initContainers/{i}", container) for i, container in enumerate(spec.init_containers or ())]
    selector = spec.node_selector or {}
    return Worker(
        pod=pod,
        seat=seat,
        assigned=assigned,
        cluster=cluster,
        group=group,
        slots=slots,
        service=spec.subdomain or headless_service(cluster.name),
        chips=sum([slot.chips for slot in slots]),
        gpus=sum([slot.gpus for slot in slots]),
        accelerator=selector.get(names.NODE_TPU_ACCELERATOR, ""),
        topology=selector.get(names.NODE_TPU_TOPOLOGY, ""),
    )


@lru_cache(maxsize=256)
def replica_addresses(group: str, replica: int, hosts: int, service: str) -> tuple[str, ...]:
    """Return the addresses of a replica's hosts; kept, because each host of a replica asks for the same ones."""
    return tuple(f"{host_name(group, replica, host)}.{service}" for host in range(hosts))


def fill(slot: Slot, variables: Iterable[Variable]) -> list[SetEnv | Warn]:
    """Return the edits that give a container its variables, and warnings for values of the user that cannot be right.

    A value that the user set stays: then there is no edit.
    """
    edits: list[SetEnv | Warn] = []
    env, path = slot.env, slot.path
    for variable in variables:
        index = env.get(variable.name)
        if index is None:
            after = env.get(variable.after, -1) if variable.after else -1
            edits.append(SetEnv(path, variable.name, variable.value, variable.why, -1, variable.field_path, after))
        elif (edit := _over(slot, index, variable)) is not None:
            edits.append(edit)
    return edits


class VariableSet:
    """Variables that several containers of several pods get: the edits of a container that has none of them are kept."""

    __slots__ = ("_fresh", "_names", "_variables")

    def __init__(self, variables: Iterable[Variable]) -> None:
        self._variables = tuple(variables)
        self._names = frozenset([variable.name for variable in self._variables])
        self._fresh: dict[str, list[SetEnv | Warn]] = {}

    def fill(self, slot: Slot) -> list[SetEnv | Warn]:
        """Return what `fill` returns for these variables."""
        if not self._names.isdisjoint(slot.env):
            return fill(slot, self._variables)
        edits = self._fresh.get(slot.path)
        if edits is None:
            edits = self._fresh[slot.path] = fill(slot, self._variables)
        return edits


def _over(slot: Slot, index: int, variable: Variable) -> SetEnv | Warn | None:
    """Return what is to be done about a variable that the container has."""
    current = (slot.container.env or _NO_ENV)[index]
    if current.value_from is not None or current.value == variable.value:
        return None
    if not current.value or current.value == variable.placeholder:
        return SetEnv(slot.path, variable.name, variable.value, variable.why, index, variable.field_path)
    if variable.identity:
        where = slot.container.name or slot.path
        return Warn(f"{variable.name}, set by hand in container {where}, is wrong for this pod: remove it from the template")
    return None


def _slot(path: str, container: Container) -> Slot:
    env = {variable.name: i for i, variable in enumerate(container.env)} if container.env else {}
    chips = gpus = 0
    if container.resources is not None:
        limits, requests = container.resources.limits, container.resources.requests
        amounts = {**requests, **limits} if limits and requests else limits or requests or {}
        for key, amount in amounts.items():
            if key == names.RESOURCE_TPU:
                chips += _count(path, key, amount)
            elif key.endswith(names.RESOURCE_GPU_SUFFIX) or key.startswith(names.RESOURCE_MIG_PREFIX):
                gpus += _count(path, key, amount)
    return Slot(path, container, env, chips, gpus)


def _count(path: str, key: str, amount: str | float) -> int:
    try:
        return parse_count(amount)
    except ValueError as error:
        raise Denied(Cause(INVALID, str(error), f"{dotted(path)}.resources[{key}]")) from None
