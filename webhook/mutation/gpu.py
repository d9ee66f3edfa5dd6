"""GPU variables: the rendezvous of a multi-host replica, as torchrun, Lightning, vLLM and NCCL read it."""

from collections.abc import Callable
from typing import Final

from webhook.groups.naming import host_name
from webhook.kube import names
from webhook.mutation.edit import Edit, Warn
from webhook.mutation.worker import Slot, Variable, Worker, fill

MASTER_PORT: Final = "29500"
"""torchrun's default, which no port of Ray meets."""

NONE: Final = "none"
"""The profile that turns GPU variables off."""


def gpu(worker: Worker) -> list[Edit]:
    """Return the variables of a multi-host GPU replica, for all containers, and those of the profiles opted into.

    Never RANK, WORLD_SIZE, LOCAL_RANK or CUDA_VISIBLE_DEVICES: those belong to one process, and Ray sets them.
    """
    profiles = worker.cluster.gpu_profiles
    if worker.hosts == 1 or not worker.gpus or NONE in profiles:
        return []
    edits: list[Edit] = [
        Warn(f"{names.ANNOTATION_GPU_PROFILES}: unknown profile {profile[:20]!r}; known are {', '.join(sorted(_PROFILES))}, {NONE}")
        for profile in profiles
        if profile not in _PROFILES
    ]
    shared = _rendezvous(worker)
    chosen = [_PROFILES[profile] for profile in profiles if profile in _PROFILES]
    for slot in worker.slots:
        variables = list(shared)
        for profile in chosen:
            variables += profile(worker, slot)
        edits += fill(slot, variables)
    return edits


def _rendezvous(worker: Worker) -> tuple[Variable, ...]:
    return (
        Variable(names.NNODES, str(worker.hosts), "hosts of the replica", identity=True),
        Variable(names.NODE_RANK, str(worker.seat.host), "this host's place in its replica", identity=True),
        Variable(names.MASTER_ADDR, _master(worker), "host 0 of the replica"),
        Variable(names.MASTER_PORT, MASTER_PORT, "torchrun's default port"),
    )


def _master(worker: Worker) -> str:
    return f"{host_name(worker.name, worker.seat.replica, 0)}.{worker.service}.{worker.cluster.namespace}.svc"


def _torchrun(worker: Worker, slot: Slot) -> tuple[Variable, ...]:
    why = "profile torchrun: read in place of a flag"
    variables = (
        Variable(names.PET_NNODES, str(worker.hosts), why, identity=True),
        Variable(names.PET_NODE_RANK, str(worker.seat.host), why, identity=True),
        Variable(names.PET_MASTER_ADDR, _master(worker), why),
        Variable(names.PET_MASTER_PORT, MASTER_PORT, why),
    )
    if slot.gpus:
        return (*variables, Variable(names.PET_NPROC_PER_NODE, str(slot.gpus), why))
    return variables


def _vllm(_worker: Worker, _slot: Slot) -> tuple[Variable, ...]:
    return (Variable(names.VLLM_HOST_IP, "", "profile vllm: an address of its own for each host", field_path="status.podIP"),)


def _mnnvl(_worker: Worker, _slot: Slot) -> tuple[Variable, ...]:
    why = "profile mnnvl: NCCL over multi-node NVLink"
    switches = (names.NCCL_MNNVL_ENABLE, names.NCCL_CUMEM_ENABLE, names.NCCL_NVLS_ENABLE)
    return tuple(Variable(name, "1", why) for name in switches)


_PROFILES: Final[dict[str, Callable[[Worker, Slot], tuple[Variable, ...]]]] = {
    "mnnvl": _mnnvl,
    "torchrun": _torchrun,
    "vllm": _vllm,
}
