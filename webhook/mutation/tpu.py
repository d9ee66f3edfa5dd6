"""TPU variables for Ray and libtpu: the worker id of a host in its slice, the addresses of the
other hosts, and in a job of several slices the slice id and the address of the coordinator.
"""

from typing import Final

from webhook.accelerators.profiles import PROCESSES, SHAPE
from webhook.accelerators.slices import TopologyError, accelerator_type, chips_of, parse_topology
from webhook.api import names
from webhook.groups.naming import host_name, slice_name
from webhook.groups.slice_jobs import NUMBER_DIGITS, SliceJob
from webhook.mutation.edit import Edit, Note, Warn
from webhook.mutation.ray_pod import Replica, Variable, Worker, fill, in_multi_slice

PROCESS_PORT: Final = 8471
"""The port of the first TPU process of a host; the next processes have consecutive ports."""

COORDINATOR_PORT: Final = 8081
"""The port of the coordinator: libtpu's default is 8080, the port of KubeRay's metrics."""

_WHY_ID: Final = "index of the host in its slice"
_HOST_IP: Final = Variable(
    names.TPU_DEVICE_PLUGIN_HOST_IP,
    "",
    "where the TPU device plugin of the node listens",
    field_path="status.hostIP",
)
_PLUGIN_ADDRESS: Final = Variable(
    names.TPU_DEVICE_PLUGIN_ADDR,
    f"$({names.TPU_DEVICE_PLUGIN_HOST_IP}):2112",
    "libtpu asks the device plugin for metrics there",
    after=names.TPU_DEVICE_PLUGIN_HOST_IP,
)


def replica_edits(replica: Replica) -> list[Edit]:
    """Return the common variables of all hosts of a slice, for all containers; none for a pod that
    requests no TPU.

    On a v7x host each container with chips is a process with its own port.
    """
    if not replica.chips:
        return []
    variables, notes = _slice(replica)
    edits: list[Edit] = list(notes)
    for slot in replica.slots:
        if slot.ordinal is not None:
            port, why = str(PROCESS_PORT + slot.ordinal), "this container's TPU process"
            edits += fill(slot, [Variable(names.TPU_PROCESS_PORT, port, why, identity=True)])
        edits += fill(slot, variables)
    return edits


def host_edits(worker: Worker) -> list[Edit]:
    """Return the worker id of a host in its slice, for all containers.

    With several processes on a v7x host, each has its own worker id, and other containers have
    none.
    """
    replica = worker.replica
    if not replica.chips:
        return []
    count = len(replica.processes) or 1
    edits: list[Edit] = []
    for slot in replica.slots if count == 1 else replica.processes:
        number = str(worker.host * count + (slot.ordinal or 0))
        edits += fill(slot, (Variable(names.TPU_WORKER_ID, number, _WHY_ID),))
    return edits


def _slice(replica: Replica) -> tuple[list[Variable], list[Warn | Note]]:
    why = "the slice's name: Ray uses it to schedule onto whole slices"
    name = slice_name(replica.group_name, replica.index)
    # Two slices of one name are one to Ray; a single replica may have any name.
    variables = [Variable(names.TPU_NAME, name, why, identity=replica.group.desired > 1)]
    # A single host has no name that resolves.
    hosts = replica.addresses() if replica.hosts > 1 else ["localhost"]
    if replica.hosts > 1:
        addresses, why = ",".join(hosts), "all hosts of the slice, in host order"
        variables.append(Variable(names.TPU_WORKER_HOSTNAMES, addresses, why))
    topology_variables, notes = _topology(replica)
    variables += (*topology_variables, _HOST_IP, _PLUGIN_ADDRESS)
    if replica.slice.v7x:
        addresses, why = (
            _format_addresses(hosts, len(replica.processes)),
            "every TPU process of the slice",
        )
        variables.append(Variable(names.TPU_PROCESS_ADDRESSES, addresses, why))
    variables += _profiles(replica, hosts)
    return variables, notes


def _format_addresses(hosts: list[str], count: int) -> str:
    """Return the addresses of so many processes or devices of each host."""
    return ",".join(f"{host}:{PROCESS_PORT + number}" for host in hosts for number in range(count))


def _topology(replica: Replica) -> tuple[list[Variable], list[Warn | Note]]:
    """Return topology and accelerator type, or why they are omitted."""
    topology, chips = replica.slice.topology, 0
    variables: list[Variable] = []
    notes: list[Warn | Note] = []
    if topology:
        try:
            parse_topology(topology)
        except TopologyError as error:
            return [], [Warn(f"{names.TPU_TOPOLOGY} left out: {error}")]
        chips = chips_of(topology)
        variables.append(Variable(names.TPU_TOPOLOGY, topology, _why_topology(replica)))
    elif replica.slice.placed:
        chips = replica.chips * replica.hosts
        message = (
            f"{names.TPU_TOPOLOGY} left out: no topology is the only one of {chips} chips; name "
            "it by"
        )
        notes.append(Note(f"{message} {names.ANNOTATION_SLICE_TOPOLOGY}"))
    kind = accelerator_type(replica.slice.accelerator, chips) if chips else None
    if kind is not None:
        variables.append(
            Variable(names.TPU_ACCELERATOR_TYPE, kind, "generation and TensorCores of the slice")
        )
    return variables, notes


def _why_topology(replica: Replica) -> str:
    if replica.slice.annotated:
        return "the topology that the annotation names"
    selected = replica.slice.selected
    return "the topology that the pod selects" if selected else "the level or the chips say so"


def _profiles(replica: Replica, hosts: list[str]) -> list[Variable]:
    """Return the variables of the chosen profiles of slices; none while the topology is unknown."""
    profiles = replica.profiles(of_slice=True)
    if not profiles or not replica.slice.readable:
        return []
    sizes = [*parse_topology(replica.slice.topology), 1][:3]
    values_by_hole = {
        SHAPE: ",".join(map(str, [*sizes, 2] if replica.slice.v7x else sizes)),
        PROCESSES: _format_addresses(hosts, replica.slice.devices(replica.chips)),
    }
    return [
        Variable(setting.variable, value, setting.why, identity=setting.identity)
        for profile in profiles
        for setting in profile.settings
        if (value := setting.filled(values_by_hole)) is not None
    ]


def multi_slice_edits(replica: Replica) -> list[Edit]:
    """Return the variables of a slice, for each container in which the user set
    MEGASCALE_NUM_SLICES.

    JAX requires all of them if any is set, so a container without the number of slices gets none.
    """
    if not replica.multi_slice:
        return []
    edits: list[Edit] = []
    for slot in replica.slots:
        if in_multi_slice(slot):
            variable = slot.variable(names.MEGASCALE_NUM_SLICES)
            number = (variable and variable.value) or ""
            job = _job(replica, number)
            edits += _multi_slice_warnings(replica, number, job)
            edits += fill(slot, _multi_slice(replica, job, slot.ordinal or 0))
    return edits


def _job(replica: Replica, number: str) -> SliceJob:
    """Return the part of a group in its job; a group that shares no job has all slices."""
    job = replica.cluster.slices.get(replica.group_name)
    if job is not None and job.number == number:
        return job
    return SliceJob(number, 0, replica.group_name)


def _multi_slice(replica: Replica, job: SliceJob, ordinal: int) -> tuple[Variable, ...]:
    coordinator = f"{host_name(job.coordinator, 0, 0)}.{replica.service}"
    if replica.slice.v7x:
        coordinator += f":{COORDINATOR_PORT}"
    several, number = replica.group.desired > 1, str(job.first + replica.index)
    port, why = str(COORDINATOR_PORT + ordinal), "8080 is KubeRay's metrics port"
    return (
        Variable(names.MEGASCALE_SLICE_ID, number, "the slice of this replica", identity=several),
        Variable(names.MEGASCALE_COORDINATOR_ADDRESS, coordinator, "host 0 of slice 0 coordinates"),
        Variable(names.MEGASCALE_PORT, port, why),
    )


def _multi_slice_warnings(replica: Replica, number: str, job: SliceJob) -> list[Warn]:
    """Return a warning for groups that cannot be a job, and for a slice id that is not less than
    the number of slices, or belongs to another group: indices may have gaps after a scale-down.
    """
    if len(number) > NUMBER_DIGITS:
        return [
            Warn(
                f"{names.MEGASCALE_NUM_SLICES} {number[:NUMBER_DIGITS]}… is not a number of "
                "slices: write how many replicas there are"
            )
        ]
    warnings = [Warn(f"{names.MEGASCALE_NUM_SLICES}: {job.problem}")] if job.problem else []
    spans = replica.group_name in replica.cluster.slices and not job.problem
    if spans and replica.index >= replica.group.desired:
        problem = (
            f"replica index {replica.index} is not below {replica.group.desired}, and slice ids "
            "run on in the next group"
        )
    elif number.isdecimal() and replica.index >= int(number):
        problem = (
            f"{names.MEGASCALE_SLICE_ID} {replica.index} is not below "
            f"{names.MEGASCALE_NUM_SLICES} {number}"
        )
    else:
        return warnings
    return [*warnings, Warn(f"{problem}: delete this replica once a lower index is free")]
