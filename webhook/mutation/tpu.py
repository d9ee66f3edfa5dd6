"""TPU variables: who this host is in its slice, and where the others are, as Ray and libtpu read them."""

from typing import Final

from webhook.accelerators.devices import TPU
from webhook.accelerators.topology import TopologyError, accelerator_type, parse_topology
from webhook.groups.naming import slice_name
from webhook.kube import names
from webhook.mutation.edit import Edit, Warn
from webhook.mutation.worker import Replica, Variable, Worker, fill

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


def shared(replica: Replica) -> list[Edit]:
    """Return the variables that all hosts of a slice have, for all containers; nothing for a pod that asks for no TPU.

    On a v7x host each container with chips is one process, with a port of its own.
    """
    if not replica.count(TPU):
        return []
    variables, warnings = _slice(replica)
    edits: list[Edit] = list(warnings)
    for slot in replica.slots:
        ordinal = replica.ordinal(slot)
        if ordinal is not None:
            port = str(PROCESS_PORT + ordinal)
            edits += fill(slot, [Variable(names.TPU_PROCESS_PORT, port, "this container's TPU process", identity=True)])
        edits += fill(slot, variables)
    return edits


def own(worker: Worker) -> list[Edit]:
    """Return the place of a host in its slice, for all containers.

    With several processes on a v7x host, each has a place of its own, and other containers have none.
    """
    replica = worker.replica
    if not replica.count(TPU):
        return []
    count = len(replica.processes) or 1
    slots = replica.slots if count == 1 else replica.processes
    edits: list[Edit] = []
    for ordinal, slot in enumerate(slots):
        number = str(worker.host * count + (0 if count == 1 else ordinal))
        edits += fill(slot, (Variable(names.TPU_WORKER_ID, number, _WHY_ID),))
    return edits


def _slice(replica: Replica) -> tuple[list[Variable], list[Warn]]:
    why = "the slice's name: Ray schedules onto whole slices by it"
    name = slice_name(replica.group_name, replica.index)
    variables = [Variable(names.TPU_NAME, name, why, identity=replica.group.desired > 1)]
    addresses = replica.addresses()
    if replica.hosts > 1:
        text, why = ",".join(addresses), "all hosts of the slice, in host order"
        variables.append(Variable(names.TPU_WORKER_HOSTNAMES, text, why))
    known, warnings = _topology(replica.topology, replica.accelerator)
    variables += (*known, _HOST_IP, _PLUGIN_ADDRESS)
    if replica.v7x:
        hosts = addresses if replica.hosts > 1 else ["localhost"]  # a host alone has no name that resolves
        text = ",".join(f"{host}:{PROCESS_PORT + ordinal}" for host in hosts for ordinal in range(len(replica.processes)))
        variables.append(Variable(names.TPU_PROCESS_ADDRESSES, text, "every TPU process of the slice"))
    return variables, warnings


def _topology(topology: str, accelerator: str) -> tuple[list[Variable], list[Warn]]:
    if not topology:
        return [], []
    try:
        parse_topology(topology)
        kind = accelerator_type(accelerator, topology)
    except TopologyError as error:
        return [], [Warn(f"{names.TPU_TOPOLOGY} left out: {error}")]
    variables = [Variable(names.TPU_TOPOLOGY, topology, "the topology that the pod selects")]
    if kind is not None:
        variables.append(Variable(names.TPU_ACCELERATOR_TYPE, kind, "generation and TensorCores of the slice"))
    return variables, []
