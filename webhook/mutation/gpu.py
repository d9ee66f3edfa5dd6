"""GPU variables: the rendezvous of a multi-host replica, as torchrun, Lightning, vLLM and NCCL read it."""

from collections.abc import Callable
from typing import Final

from webhook.groups.naming import host_name
from webhook.kube import names
from webhook.mutation.edit import Edit, Warn
from webhook.mutation.worker import Replica, Slot, Variable, Worker, fill

MASTER_PORT: Final = "29500"
"""torchrun's default, which no port of Ray meets."""

NONE: Final = "none"
"""The profile that turns GPU variables off."""

TORCHRUN: Final = "torchrun"
_WHY_TORCHRUN: Final = "profile torchrun: read in place of a flag"


def shared(replica: Replica) -> list[Edit]:
    """Return the variables that all hosts of a multi-host GPU replica have, for all containers, and those of its profiles.

    Never RANK, WORLD_SIZE, LOCAL_RANK or CUDA_VISIBLE_DEVICES: those belong to one process, and Ray sets them.
    """
    if not _rendezvous(replica):
        return []
    profiles = replica.cluster.gpu_profiles
    edits: list[Edit] = [
        Warn(f"{names.ANNOTATION_GPU_PROFILES}: unknown profile {profile[:20]!r}; known are {', '.join(sorted(_PROFILES))}, {NONE}")
        for profile in profiles
        if profile not in _PROFILES
    ]
    master = f"{host_name(replica.group_name, replica.index, 0)}.{replica.service}.{replica.cluster.namespace}.svc"
    chosen = [_PROFILES[profile] for profile in profiles if profile in _PROFILES]
    for slot in replica.slots:
        variables = [
            Variable(names.NNODES, str(replica.hosts), "hosts of the replica", identity=True),
            Variable(names.MASTER_ADDR, master, "host 0 of the replica"),
            Variable(names.MASTER_PORT, MASTER_PORT, "torchrun's default port"),
        ]
        for profile in chosen:
            variables += profile(replica, slot, _given(slot, names.MASTER_ADDR, master))
        edits += fill(slot, variables)
    return edits


def own(worker: Worker) -> list[Edit]:
    """Return the place of a host in its replica, for all containers."""
    replica = worker.replica
    if not _rendezvous(replica):
        return []
    rank = str(worker.host)
    variables = [Variable(names.NODE_RANK, rank, "this host's place in its replica", identity=True)]
    if TORCHRUN in replica.cluster.gpu_profiles:
        variables.append(Variable(names.PET_NODE_RANK, rank, _WHY_TORCHRUN, identity=True))
    return [edit for slot in replica.slots for edit in fill(slot, variables)]


def _rendezvous(replica: Replica) -> bool:
    return replica.hosts > 1 and replica.gpus and NONE not in replica.cluster.gpu_profiles


def _given(slot: Slot, name: str, value: str) -> str:
    """Return the value that the user gave a variable, else `value`: torchrun has to meet where everybody else does."""
    variable = slot.variable(name)
    return (variable and variable.value) or value


def _torchrun(replica: Replica, slot: Slot, master: str) -> tuple[Variable, ...]:
    variables = (
        Variable(names.PET_NNODES, str(replica.hosts), _WHY_TORCHRUN, identity=True),
        Variable(names.PET_MASTER_ADDR, master, _WHY_TORCHRUN),
        Variable(names.PET_MASTER_PORT, _given(slot, names.MASTER_PORT, MASTER_PORT), _WHY_TORCHRUN),
    )
    if slot.gpus:
        return (*variables, Variable(names.PET_NPROC_PER_NODE, str(slot.gpus), _WHY_TORCHRUN))
    return variables


def _vllm(_replica: Replica, _slot: Slot, _master: str) -> tuple[Variable, ...]:
    return (Variable(names.VLLM_HOST_IP, "", "profile vllm: an address of its own for each host", field_path="status.podIP"),)


def _mnnvl(_replica: Replica, _slot: Slot, _master: str) -> tuple[Variable, ...]:
    why = "profile mnnvl: NCCL over multi-node NVLink"
    switches = (names.NCCL_MNNVL_ENABLE, names.NCCL_CUMEM_ENABLE, names.NCCL_NVLS_ENABLE)
    return tuple(Variable(name, "1", why) for name in switches)


_PROFILES: Final[dict[str, Callable[[Replica, Slot, str], tuple[Variable, ...]]]] = {
    "mnnvl": _mnnvl,
    TORCHRUN: _torchrun,
    "vllm": _vllm,
}
