"""A Ray pod as input of the mutators: its replica, its host, the variables of its containers, and
the settings that apply to all pods.
"""

from collections.abc import Iterable
from functools import partial
from typing import Final, Literal

import msgspec
from msgspec import Struct

from webhook.accelerators.devices import (
    DEVICES,
    IDENTITIES,
    TPU,
    Counts,
    Device,
    Devices,
    count_devices,
    devices_of_host,
)
from webhook.accelerators.profiles import PROFILES, Profile, Profiles, choose
from webhook.accelerators.slices import Slice, read_slice
from webhook.api import names
from webhook.api.formats import format_pointer
from webhook.api.objects import (
    ALWAYS,
    Container,
    EnvVar,
    Pod,
    PodSpec,
    Resources,
    WorkerGroup,
    ray_container,
)
from webhook.api.quantity import parse_count
from webhook.api.review import INVALID, Cause, Denied
from webhook.groups.annotations import NONE
from webhook.groups.group_config import RayClusterConfig
from webhook.groups.identity import HostIdentity
from webhook.groups.naming import headless_service, host_name, host_prefix
from webhook.mutation.edit import SetEnv, Warn

_NO_CONTAINERS: Final = (Container(),)
_NO_RESOURCES: Final = Resources()

HEAD_IDENTITY: Final = HostIdentity(-1, 0, "")
"""A placeholder for the head, which is in no worker group."""

HEAD_GROUP: Final = WorkerGroup(group_name=names.HEAD_GROUP, replicas=1)
"""The group of a head according to its label, in the form of a worker group."""


ApartFrom = Literal["all", "own"]


class Policy(Struct, frozen=True, gc=False):
    """Settings for all pods.

    `pod_groups`: the API server serves PodGroups; otherwise it drops `spec.schedulingGroup`
    silently. `published`: this webhook creates the PodGroups. `apart`: the namespaces of replicas
    from which a pod has exclusive placement: all, or its own. `drain_seconds`: the drain timeout of
    workers of RayClusters without the annotation; 0 disables the drain. `zones`: Ray nodes get zone
    and region, which are labels of pods on Kubernetes 1.35 and later. `no_domains`: why
    ComputeDomains are not created, so that pods that refer to one would stay pending; empty if they
    are. `node_labels`: the labels of Nodes that are copied to pods; None for all. `keep_nodes`: the
    pods whose nodes autoscalers leave alone, in RayClusters without the annotation.
    `raise_wait_gcs_ready`: the init container that waits for the head gets more resources.
    `devices` and `profiles`: those that pods can request.
    """

    pod_groups: bool = True
    published: bool = True
    apart: ApartFrom = "all"
    drain_seconds: int = 0
    zones: bool = False
    no_domains: str = ""
    node_labels: frozenset[str] | None = None
    keep_nodes: str = NONE
    raise_wait_gcs_ready: bool = True
    devices: Devices = DEVICES
    profiles: Profiles = PROFILES


DEFAULT_POLICY: Final = Policy()
"""The settings for files: every feature is on, and the Kubernetes version is unknown."""


class Slot(Struct, gc=False):
    """A container or init container: its path, its variables, and its devices.

    `env` contains the index of each name in `variables`. `passing`: the container ends before the
    regular containers start, so it uses their devices and adds none. `ordinal` is the position of
    the container among the TPU processes of its v7x host.
    """

    path: str
    container: Container
    variables: list[EnvVar]
    env: dict[str, int]
    devices: Counts
    passing: bool
    ordinal: int | None = None

    @property
    def name(self) -> str:
        return self.container.name

    def variable(self, name: str) -> EnvVar | None:
        """Return the effective entry of a variable: of several, the kubelet uses the last."""
        index = self.env.get(name)
        return None if index is None else self.variables[index]


class Variable(Struct, frozen=True, gc=False):
    """A variable for a container.

    `identity` marks a value that is specific to this pod: a different value set by the user causes
    a warning; variables in IDENTITIES are always specific. The value may refer to the variable
    `after`.
    """

    name: str
    value: str
    why: str
    identity: bool = False
    field_path: str = ""
    after: str = ""


class Replica(Struct, gc=False):
    """The common properties of all hosts of a replica, read from one of its pods: they have the
    same template.

    `holder` is that of the reservation, if the identity is new to the pod, not in its labels; only
    this field differs between hosts. A head is a replica of 1 host in a group of its own, without
    an identity. `ray` is Ray's container. `service` is the headless service under which the pod's
    host name resolves. `devices`
    are those of a host, `chips` the TPU chips among them; `processes` are the containers of a v7x
    host that each run a TPU process. `slice` is the TPU slice of its hosts. `multi_slice`: it is a
    slice of a job over several. `needs_names`: other hosts must reach these by host name.
    """

    pod: Pod
    index: int
    name: str
    holder: str
    head: bool
    cluster: RayClusterConfig
    group: WorkerGroup
    group_name: str
    hosts: int
    slots: list[Slot]
    ray: Slot
    service: str
    devices: Counts
    chips: int
    processes: list[Slot]
    slice: Slice
    multi_slice: bool
    needs_names: bool
    policy: Policy

    @property
    def first_host(self) -> str:
        """Return the host name of host 0."""
        return host_name(self.group_name, self.index, 0)

    def count(self, device: Device) -> int:
        return self.devices.get(device.name, 0)

    def profiles(self, *, of_slice: bool) -> list[Profile]:
        """Return the chosen profiles: those of TPU slices, or of hosts with a rendezvous."""
        return choose(self.cluster.profiles, self.policy.profiles, of_slice=of_slice)

    def addresses(self) -> list[str]:
        prefix, service = host_prefix(self.group_name, self.index), self.service
        return [f"{prefix}{host}.{service}" for host in range(self.hosts)]


class Worker(Struct, frozen=True, gc=False):
    """A host of a replica."""

    replica: Replica
    host: int

    @property
    def host_name(self) -> str:
        return f"{host_prefix(self.replica.group_name, self.replica.index)}{self.host}"


def in_multi_slice(slot: Slot) -> bool:
    """Return whether a container takes part in a multi-slice TPU job: the user set
    MEGASCALE_NUM_SLICES in it.
    """
    variable = slot.variable(names.MEGASCALE_NUM_SLICES)
    return variable is not None and (bool(variable.value) or variable.value_from is not None)


def read_replica(
    pod: Pod,
    identity: HostIdentity,
    cluster: RayClusterConfig,
    group: WorkerGroup,
    *,
    holder: str = "",
    policy: Policy = DEFAULT_POLICY,
) -> Replica:
    """Return the replica of a pod. Raises Denied for variables or devices that cannot be
    decoded.
    """
    spec, hosts, name = pod.spec, group.num_of_hosts, group.group_name
    main, inits = _slots_of(spec, policy.devices)
    slots = main + inits
    devices = devices_of_host(
        [slot.devices for slot in main], [(slot.devices, not slot.passing) for slot in inits]
    )
    chips = devices.get(TPU.name, 0)
    placed = cluster.kueue.places(pod.annotations, pod.gates)
    whole = read_slice(pod.annotations, spec.node_selector or {}, chips * hosts, placed=placed)
    head = identity.replica == HEAD_IDENTITY.replica
    multi_slice = chips > 0 and any(map(in_multi_slice, slots))
    return Replica(
        pod=pod,
        index=identity.replica,
        name=identity.name,
        holder=holder,
        head=head,
        cluster=cluster,
        group=group,
        group_name=name,
        hosts=hosts,
        slots=slots,
        ray=main[ray_container((slot.name, slot.env) for slot in main)],
        service=spec.subdomain or headless_service(cluster.name),
        devices=devices,
        chips=chips,
        processes=_number_processes(slots) if whole.v7x else [],
        slice=whole,
        multi_slice=multi_slice,
        needs_names=not head and (hosts > 1 or multi_slice),
        policy=policy,
    )


def _slots_of(spec: PodSpec, devices: Devices) -> tuple[list[Slot], list[Slot]]:
    """Return the containers and the init containers. Raises Denied."""
    main = [
        _slot(f"/spec/containers/{i}", container, devices, passing=False)
        for i, container in enumerate(spec.containers or _NO_CONTAINERS)
    ]
    inits = [
        _slot(
            f"/spec/initContainers/{i}",
            container,
            devices,
            passing=container.restart_policy != ALWAYS,
        )
        for i, container in enumerate(spec.init_containers or ())
    ]
    return main, inits


def _number_processes(slots: list[Slot]) -> list[Slot]:
    """Return the containers with TPUs, each with its ordinal."""
    processes = [slot for slot in slots if slot.devices.get(TPU.name) and not slot.passing]
    for ordinal, slot in enumerate(processes):
        slot.ordinal = ordinal
    return processes


def fill(slot: Slot, variables: Iterable[Variable]) -> list[SetEnv | Warn]:
    """Return the edits that add variables to a container, and warnings for values of the user that
    cannot be right.

    Values set by the user are kept, without an edit.
    """
    edits: list[SetEnv | Warn] = []
    env, path = slot.env, slot.path
    for variable in variables:
        index = env.get(variable.name)
        if index is None:
            after = env.get(variable.after, -1) if variable.after else -1
            edits.append(_set(path, variable, -1, after))
        elif (edit := _over(slot, index, variable)) is not None:
            edits.append(edit)
    return edits


def _set(path: str, each: Variable, slot: int, after: int) -> SetEnv:
    return SetEnv(
        path,
        each.name,
        value=each.value,
        why=each.why,
        slot=slot,
        field_path=each.field_path,
        after=after,
    )


def _over(slot: Slot, index: int, variable: Variable) -> SetEnv | Warn | None:
    """Return the edit or warning for a variable that the container already has."""
    current = slot.variables[index]
    # The value is known only to the kubelet, so it can be neither right nor wrong here.
    if current.value_from is not None or (
        current.value == variable.value and not variable.field_path
    ):
        return None
    if not current.value or current.value == IDENTITIES.get(variable.name):
        # The kubelet resolves only references to preceding entries.
        after = slot.env.get(variable.after, -1)
        return _set(slot.path, variable, index, after if after > index else -1)
    if variable.identity or variable.name in IDENTITIES:
        where = slot.name or slot.path
        return Warn(
            f"{variable.name}, set by hand in container {where}, is wrong for this pod: remove it "
            "from the template"
        )
    return None


def _slot(path: str, container: Container, devices: Devices, *, passing: bool) -> Slot:
    try:
        variables = container.variables()
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Denied(
            Cause(INVALID, f"not a list of variables: {error}", f"{format_pointer(path)}.env")
        ) from None
    resources = container.resources or _NO_RESOURCES
    limits, requests, claims = resources.limits, resources.requests, resources.claimed
    counts = count_devices(devices, limits, requests, partial(_count, path), claims=claims)
    env = {variable.name: i for i, variable in enumerate(variables)}
    return Slot(path, container, variables=variables, env=env, devices=counts, passing=passing)


def _count(path: str, key: str, amount: str | float) -> int:
    try:
        return parse_count(amount)
    except ValueError as error:
        raise Denied(
            Cause(INVALID, str(error), f"{format_pointer(path)}.resources[{key}]")
        ) from None
