"""TPU variables: who this host is in its slice, and where the others are, as Ray and libtpu read them."""

from typing import Final

from webhook.groups.naming import slice_name
from webhook.groups.topology import TopologyError, accelerator_type, parse_topology
from webhook.kube import names
from webhook.mutation.edit import Edit, Warn
from webhook.mutation.worker import Slot, Variable, Worker, put

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
    shared, warnings = _slice(worker)
    processes = [slot for slot in worker.slots if slot.chips]
    count = len(processes) if worker.v7x else 1
    if worker.v7x:
        shared.append(_process_addresses(worker, count))
    edits: list[Edit] = list(warnings)
    for slot in worker.slots:
        ordinal = processes.index(slot) if worker.v7x and slot.chips else 0
        for variable in (*_process(worker, slot, ordinal, count), *shared):
            edit = put(slot, variable)
            if edit is not None:
                edits.append(edit)
    return edits


def _process(worker: Worker, slot: Slot, ordinal: int, count: int) -> list[Variable]:
    """Return the variables that belong to one TPU process."""
    if count > 1 and not slot.chips:
        return []
    variables = [Variable(names.TPU_WORKER_ID, str(worker.seat.host * count + ordinal), _WHY_ID, placeholder="0", identity=True)]
    if worker.v7x and slot.chips:
        variables.append(
            Variable(names.TPU_PROCESS_PORT, str(PROCESS_PORT + ordinal), "this container's TPU process", identity=True)
        )
    return variables


def _slice(worker: Worker) -> tuple[list[Variable], list[Warn]]:
    """Return the variables that all containers of a host share."""
    variables = [
        Variable(
            names.TPU_NAME,
            slice_name(worker.name, worker.seat.replica),
            "the slice's name: Ray schedules onto whole slices by it",
            identity=worker.group.desired > 1,
        )
    ]
    if worker.hosts > 1:
        variables.append(
            Variable(
                names.TPU_WORKER_HOSTNAMES,
                ",".join(worker.addresses()),
                "all hosts of the slice, in host order",
                placeholder="localhost",
                identity=True,
            )
        )
    warnings = []
    if topology := worker.topology:
        try:
            parse_topology(topology)
            kind = accelerator_type(worker.accelerator, topology)
        except TopologyError as error:
            warnings.append(Warn(f"{names.TPU_TOPOLOGY} left out: {error}"))
        else:
            variables.append(Variable(names.TPU_TOPOLOGY, topology, "the topology that the pod selects"))
            if kind is not None:
                variables.append(Variable(names.TPU_ACCELERATOR_TYPE, kind, "generation and TensorCores of the slice"))
    variables += (_HOST_IP, _PLUGIN_ADDRESS)
    return variables, warnings


def _process_addresses(worker: Worker, count: int) -> Variable:
    addresses = (f"{host}:{PROCESS_PORT + ordinal}" for host in worker.addresses() for ordinal in range(count))
    return Variable(names.TPU_PROCESS_ADDRESSES, ",".join(addresses), "every TPU process of the slice", identity=True)
