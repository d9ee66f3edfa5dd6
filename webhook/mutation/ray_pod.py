"""A Ray pod as the mutators see it: its replica, its host, and the variables that its containers
have and lack.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct

from webhook.accelerators.devices import (
    IDENTITIES,
    TPU,
    Counts,
    Device,
    count_devices,
    devices_of_host,
)
from webhook.accelerators.slices import Slice, read_slice
from webhook.api import names
from webhook.api.objects import (
    ALWAYS,
    Container,
    EnvVar,
    Pod,
    Resources,
    WorkerGroup,
    ray_container,
)
from webhook.api.paths import dotted, pointer
from webhook.api.quantity import parse_count
from webhook.api.review import INVALID, Cause, Denied
from webhook.groups.group_config import RayClusterConfig
from webhook.groups.identity import HostIdentity
from webhook.groups.naming import headless_service, host_name, host_prefix
from webhook.mutation.edit import SetEnv, Warn
from webhook.mutation.policy import DEFAULT_POLICY, Policy

_NO_RESOURCES: Final = Resources()

HEAD_SEAT: Final = HostIdentity(-1, 0, "")
"""Stands for the place of a head, which is in no worker group."""

HEAD_GROUP: Final = WorkerGroup(group_name=names.HEAD_GROUP, replicas=1)
"""The group that a head is in by its label, as if it were one of workers."""


class Slot(Struct, gc=False):
    """One container or init container: where it is in the pod, which variables it has, which
    devices it asks for.

    `env` gives the index of each name in `variables`. `passing` tells that it ends before the
    containers start, so that it borrows their devices and adds none.
    """

    path: str
    name: str
    variables: list[EnvVar]
    env: dict[str, int]
    devices: Counts
    passing: bool
    resources: Resources | None = None

    def variable(self, name: str) -> EnvVar | None:
        """Return the entry that counts for a variable: of several, the kubelet takes the last."""
        index = self.env.get(name)
        return None if index is None else self.variables[index]


class Variable(Struct, frozen=True, gc=False):
    """A variable that a container should have.

    `identity` marks a value that only this pod can have, so that another one set by hand is worth a
    warning; those in IDENTITIES always are. The value may refer to the variable `after`.
    """

    name: str
    value: str
    why: str
    identity: bool = False
    field_path: str = ""
    after: str = ""


class Replica(Struct, gc=False):
    """What all hosts of a replica share, read from one of its pods: they come from one template.

    `holder` is that of the reservation, where the identity is new to the pod; it is the one thing
    here that hosts do not share. `ray_slot` is the index of Ray's container among the slots.
    `service` is the headless service under which the pod's host name resolves. `devices` are those
    of one host; `processes`
    are the containers of a v7x host that each run a TPU process. `slice` is the TPU slice that its
    hosts form. A head is a replica of one host in a group of its own.
    """

    pod: Pod
    index: int
    name: str
    holder: str
    cluster: RayClusterConfig
    group: WorkerGroup
    slots: list[Slot]
    ray_slot: int
    service: str
    devices: Counts
    processes: list[Slot]
    slice: Slice
    policy: Policy

    @property
    def assigned(self) -> bool:
        """Return whether the identity is new to the pod, not carried by it."""
        return bool(self.holder)

    @property
    def head(self) -> bool:
        """Return whether this is the head of its RayCluster, which has no seat."""
        return self.index == HEAD_SEAT.replica

    @property
    def ray(self) -> Container:
        """Ray's container."""
        return (self.pod.spec.containers or [Container()])[self.ray_slot]

    @property
    def group_name(self) -> str:
        """The name of the group."""
        return self.group.group_name

    @property
    def hosts(self) -> int:
        """The number of hosts."""
        return self.group.num_of_hosts

    def count(self, device: Device) -> int:
        """Return how many devices of a kind a host has."""
        return self.devices.get(device.name, 0)

    @property
    def in_unit(self) -> bool:
        """Return whether its worker group is the unit."""
        return self.group_name in self.cluster.units

    @property
    def unit_hosts(self) -> int:
        """The number of hosts of its unit."""
        return self.hosts * self.group.desired if self.in_unit else self.hosts

    @property
    def first_host(self) -> str:
        """The name of the host of rank 0 of its unit."""
        return host_name(self.group_name, 0 if self.in_unit else self.index, 0)

    @property
    def v7x(self) -> bool:
        """Return whether its hosts are those of a TPU v7x."""
        return self.slice.v7x

    @property
    def multi_slice(self) -> bool:
        """Return whether the user asked for a job over several TPU slices, in any container."""
        return self.count(TPU) > 0 and any(in_multi_slice(slot) for slot in self.slots)

    @property
    def needs_names(self) -> bool:
        """Return whether other hosts must reach these by name."""
        asked = self.in_unit or self.cluster.host_names
        return not self.head and (self.hosts > 1 or asked or self.multi_slice)

    def ordinal(self, slot: Slot) -> int | None:
        """Return the place of a container among the TPU processes of its v7x host, or None."""
        for ordinal, process in enumerate(self.processes):
            if process is slot:
                return ordinal
        return None

    def slot(self, path: str) -> Slot:
        """Return the container at a path. Raises KeyError when there is none."""
        for slot in self.slots:
            if slot.path == path:
                return slot
        raise KeyError(path)

    def addresses(self) -> list[str]:
        """Return the addresses of all hosts, in host order."""
        prefix, service = host_prefix(self.group_name, self.index), self.service
        return [f"{prefix}{host}.{service}" for host in range(self.hosts)]


class Worker(Struct, frozen=True, gc=False):
    """One host of a replica."""

    replica: Replica
    host: int

    @property
    def rank(self) -> int:
        """Its place among the hosts of its unit."""
        first = self.replica.index * self.replica.hosts if self.replica.in_unit else 0
        return first + self.host

    @property
    def host_name(self) -> str:
        """The name by which its peers find it."""
        return f"{host_prefix(self.replica.group_name, self.replica.index)}{self.host}"


def in_multi_slice(slot: Slot) -> bool:
    """Return whether a container takes part in a job over several slices: the user set
    MEGASCALE_NUM_SLICES in it.
    """
    variable = slot.variable(names.MEGASCALE_NUM_SLICES)
    return variable is not None and (bool(variable.value) or variable.value_from is not None)


def read_replica(
    pod: Pod,
    seat: HostIdentity,
    cluster: RayClusterConfig,
    group: WorkerGroup,
    *,
    holder: str = "",
    policy: Policy = DEFAULT_POLICY,
) -> Replica:
    """Return what a pod says of its replica. Raises Denied for variables or devices that cannot be
    read.
    """
    spec = pod.spec
    main = [
        _slot(pointer("spec", "containers", i), container, passing=False)
        for i, container in enumerate(spec.containers or ())
    ]
    inits = [
        _slot(
            pointer("spec", "initContainers", i),
            container,
            passing=container.restart_policy != ALWAYS,
        )
        for i, container in enumerate(spec.init_containers or ())
    ]
    slots = main + inits
    devices = devices_of_host(
        [slot.devices for slot in main], [(slot.devices, not slot.passing) for slot in inits]
    )
    chips = devices.get(TPU.name, 0) * group.num_of_hosts
    placed = cluster.kueue.places(pod.annotations, pod.gates)
    whole = read_slice(pod.annotations, spec.node_selector or {}, chips, placed=placed)
    return Replica(
        pod=pod,
        index=seat.replica,
        name=seat.name,
        holder=holder,
        cluster=cluster,
        group=group,
        slots=slots,
        ray_slot=ray_container((slot.name, slot.env) for slot in main),
        service=spec.subdomain or headless_service(cluster.name),
        devices=devices,
        processes=[slot for slot in slots if slot.devices.get(TPU.name) and not slot.passing]
        if whole.v7x
        else [],
        slice=whole,
        policy=policy,
    )


def fill(slot: Slot, variables: Iterable[Variable]) -> list[SetEnv | Warn]:
    """Return the edits that give a container its variables, and warnings for values of the user
    that cannot be right.

    A value that the user set stays: then there is no edit.
    """
    edits: list[SetEnv | Warn] = []
    env, path = slot.env, slot.path
    for variable in variables:
        index = env.get(variable.name)
        if index is None:
            after = env.get(variable.after, -1) if variable.after else -1
            edits.append(
                SetEnv(
                    path,
                    variable.name,
                    variable.value,
                    variable.why,
                    -1,
                    variable.field_path,
                    after,
                )
            )
        elif (edit := _over(slot, index, variable)) is not None:
            edits.append(edit)
    return edits


def _over(slot: Slot, index: int, variable: Variable) -> SetEnv | Warn | None:
    """Return what is to be done about a variable that the container has."""
    current = slot.variables[index]
    if current.value_from is not None or (
        current.value == variable.value and not variable.field_path
    ):
        return None
    if not current.value or current.value == IDENTITIES.get(variable.name):
        after = slot.env.get(variable.after, -1)  # the kubelet resolves only what comes before
        return SetEnv(
            slot.path,
            variable.name,
            variable.value,
            variable.why,
            index,
            variable.field_path,
            after if after > index else -1,
        )
    if variable.identity or variable.name in IDENTITIES:
        where = slot.name or slot.path
        return Warn(
            f"{variable.name}, set by hand in container {where}, is wrong for this pod: remove it "
            "from the template"
        )
    return None


def _slot(path: str, container: Container, *, passing: bool) -> Slot:
    try:
        variables = container.variables()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Denied(
            Cause(INVALID, f"not a list of variables: {error}", f"{dotted(path)}.env")
        ) from None
    resources = container.resources or _NO_RESOURCES
    limits, requests, claims = resources.limits, resources.requests, resources.claimed
    devices = count_devices(limits, requests, partial(_count, path), claims)
    env = {variable.name: i for i, variable in enumerate(variables)}
    return Slot(path, container.name, variables, env, devices, passing, container.resources)


def _count(path: str, key: str, amount: str | float) -> int:
    try:
        return parse_count(amount)
    except ValueError as error:
        raise Denied(Cause(INVALID, str(error), f"{dotted(path)}.resources[{key}]")) from None
