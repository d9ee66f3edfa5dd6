"""TPU variables: who this host is in its slice, and where the others are, as Ray and libtpu read them."""

from functools import lru_cache
from typing import Final

from webhook.groups.naming import slice_name
from webhook.groups.topology import TopologyError, accelerator_type, is_v7x, parse_topology
from webhook.kube import names
from webhook.mutation.edit import Edit, Warn
from webhook.mutation.worker import Slot, Variable, VariableSet, Worker, fill, replica_addresses

PROCESS_PORT: Final = 8471
"""The port of the first TPU process of a host; the next processes have the next ports."""

_WHY_ID: Final = "this host's place in its slice"
_HOST_IP: Final = Variable(
    names.TPU_DEVICE_PLUGIN_HOST_IP, "", "where the TPU device plugin of the node listens", field_path="status.hostIP"
)
_PLUGIN_ADDRESS: Final = Variable(
    names.TPU_DEVICE_PLUGIN_ADDR,
    f"$({names.TPU_DEVICE_PLUGIN_HOST_IP}):2112",
    "libtpu asks the device plugin for metrics there",
    after=names.TPU_DEVICE_PLUGIN_HOST_IP,
)


def tpu(worker: Worker) -> list[Edit]:
    """Return the variables of a TPU host, for all its containers; nothing for a pod that asks for no TPU.

    On a v7x host each container with chips is one process, so its id and port are its own; containers without chips get
    them only when there is one such process.
    """
    if not worker.chips:
        return []
    processes = [slot for slot in worker.slots if slot.chips]
    count = len(processes) if worker.v7x else 1
    shared, warning = _slice(
        worker.name,
        worker.seat.replica,
        worker.hosts,
        worker.service,
        worker.topology,
        worker.accelerator,
        worker.group.desired > 1,
        count,
    )
    edits: list[Edit] = [warning] if warning else []
    for slot in worker.slots:
        ordinal = processes.index(slot) if count > 1 and slot.chips else 0
        edits += fill(slot, _process(worker, slot, ordinal, count))
        edits += shared.fill(slot)
    return edits


def _process(worker: Worker, slot: Slot, ordinal: int, count: int) -> list[Variable]:
    """Return the variables that belong to one TPU process."""
    if count > 1 and not slot.chips:
        return []
    number = str(worker.seat.host * count + ordinal)
    variables = [Variable(names.TPU_WORKER_ID, number, _WHY_ID, placeholder="0", identity=True)]
    if worker.v7x and slot.chips:
        port = str(PROCESS_PORT + ordinal)
        variables.append(Variable(names.TPU_PROCESS_PORT, port, "this container's TPU process", identity=True))
    return variables


@lru_cache(maxsize=256)
def _slice(
    group: str, replica: int, hosts: int, service: str, topology: str, accelerator: str, several: bool, count: int
) -> tuple[VariableSet, Warn | None]:
    """Return the variables that all containers of all hosts of a replica share; kept, because the hosts come one by one.

    `several` tells that the group has more replicas, `count` is the number of TPU processes on a host.
    """
    why = "the slice's name: Ray schedules onto whole slices by it"
    variables = [Variable(names.TPU_NAME, slice_name(group, replica), why, identity=several)]
    addresses = replica_addresses(group, replica, hosts, service)
    if hosts > 1:
        text, why = ",".join(addresses), "all hosts of the slice, in host order"
        variables.append(Variable(names.TPU_WORKER_HOSTNAMES, text, why, placeholder="localhost", identity=True))
    known, warning = _topology(topology, accelerator)
    variables += (*known, _HOST_IP, _PLUGIN_ADDRESS)
    if is_v7x(accelerator):
        text = ",".join(f"{host}:{PROCESS_PORT + ordinal}" for host in addresses for ordinal in range(count))
        variables.append(Variable(names.TPU_PROCESS_ADDRESSES, text, "every TPU process of the slice", identity=True))
    return VariableSet(variables), warning


def _topology(topology: str, accelerator: str) -> tuple[list[Variable], Warn | None]:
    if not topology:
        return [], None
    try:
        parse_topology(topology)
        kind = accelerator_type(accelerator, topology)
    except TopologyError as error:
        return [], Warn(f"{names.TPU_TOPOLOGY} left out: {error}")
    variables = [Variable(names.TPU_TOPOLOGY, topology, "the topology that the pod selects")]
    if kind is not None:
        variables.append(Variable(names.TPU_ACCELERATOR_TYPE, kind, "generation and TensorCores of the slice"))
    return variables, None
