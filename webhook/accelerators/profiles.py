"""Profiles: environment variables of frameworks for the hosts of a replica.

To add a profile, add its variables to `webhook/api/names.py` and a row to `PROFILES`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from webhook.api import names
from webhook.api.formats import nearest, shorten

HOSTS: Final = "hosts"
RANK: Final = "rank"
MASTER: Final = "master"
DEVICES: Final = "devices"
SHAPE: Final = "shape"
PROCESSES: Final = "processes"

MASTER_PORT: Final = "29500"
"""torchrun's default, which Ray does not use."""

NEURON_PORT: Final = "41000"
"""The port of the Neuron runtime on host 0, as in AWS' examples; torchrun uses another port."""

NONE: Final = "none"
"""Used instead of profile names to disable all rendezvous variables."""

_HOLE: Final = re.compile(r"\{(\w+)\}")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Setting(Struct, frozen=True, gc=False):
    """A variable of a profile.

    The value may refer to `{hosts}`, the number of hosts; `{rank}`, the host index, which must come
    last; `{master}`, the address of host 0; `{devices}`, the devices of a container; in profiles of
    slices, to `{shape}`, the sizes of the slice, and `{processes}`, the address of each device; and
    to another variable by its name, such as `{MASTER_ADDR}`, with the value of the user if there is
    one. Without a value, the variable refers to the pod field at `field_path`. `identity` marks a
    value that is specific to the replica: a different value set by the user causes a warning.
    """

    variable: str
    value: str = ""
    why: str = ""
    identity: bool = False
    field_path: str = ""

    @property
    def holes(self) -> frozenset[str]:
        """Return the names that the value refers to."""
        return frozenset(_HOLE.findall(self.value))

    def filled(self, known: Mapping[str, str]) -> str | None:
        """Return the value, or None if a name that it refers to has no value."""
        return self.value.format_map(known) if self.holes <= known.keys() else None


class Profile(Struct, frozen=True, gc=False):
    """A named list of variables, with a description.

    Profiles of slices apply to hosts of TPU slices, the others to hosts with a rendezvous.
    """

    name: str
    purpose: str
    settings: tuple[Setting, ...]
    of_slice: bool = False


RENDEZVOUS: Final = Profile(
    "",
    "where the hosts of a replica meet",
    (
        Setting(names.NNODES, "{hosts}", "hosts of the replica", identity=True),
        Setting(names.NODE_RANK, "{rank}", "this host's rank in its replica"),
        Setting(names.MASTER_ADDR, "{master}", "host 0 of the replica"),
        Setting(names.MASTER_PORT, MASTER_PORT, "torchrun's default port"),
    ),
)
"""Variables of every replica whose devices need a rendezvous, before those of its profiles."""

_TORCHRUN: Final = "profile torchrun: read in place of a flag"
_TORCH_TPU: Final = "profile torch-tpu: TorchTPU builds its slice from it"
_EFA: Final = "profile efa: libfabric over EFA"
_MNNVL: Final = "profile mnnvl: NCCL over multi-node NVLink"

Profiles = tuple[Profile, ...]

# https://docs.pytorch.org/docs/stable/elastic/run.html
# https://docs.vllm.ai/en/stable/configuration/env_vars.html
# https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html
# https://awsdocs-neuron.readthedocs-hosted.com/en/latest/neuron-runtime/nrt-troubleshoot.html
PROFILES: Final[Profiles] = (
    Profile(
        "efa",
        "NCCL and Neuron over AWS' Elastic Fabric Adapter",
        (
            Setting(names.FI_PROVIDER, "efa", _EFA),
            Setting(names.FI_EFA_USE_DEVICE_RDMA, "1", _EFA),
            Setting(names.FI_EFA_FORK_SAFE, "1", _EFA),
        ),
    ),
    Profile(
        "mnnvl",
        "NCCL over multi-node NVLink",
        (
            Setting(names.NCCL_MNNVL_ENABLE, "1", _MNNVL),
            Setting(names.NCCL_CUMEM_ENABLE, "1", _MNNVL),
            Setting(names.NCCL_NVLS_ENABLE, "1", _MNNVL),
        ),
    ),
    Profile(
        "neuron",
        "the Neuron runtime of all hosts meets at host 0",
        (
            Setting(
                names.NEURON_RT_ROOT_COMM_ID,
                f"{{{names.MASTER_ADDR}}}:{NEURON_PORT}",
                "profile neuron: the root of collective communication",
                identity=True,
            ),
        ),
    ),
    Profile(
        "torch-tpu",
        "TorchTPU builds its slice from these, one process for each device",
        (
            Setting(names.TORCH_TPU_TOPOLOGY, "{shape}", _TORCH_TPU),
            Setting(
                names.TORCH_TPU_SLICEBUILDER_ADDRESSES, "{processes}", _TORCH_TPU, identity=True
            ),
        ),
        of_slice=True,
    ),
    Profile(
        "torchrun",
        "torchrun finds its arguments in the environment",
        (
            Setting(names.PET_NNODES, f"{{{names.NNODES}}}", _TORCHRUN, identity=True),
            Setting(names.PET_NODE_RANK, "{rank}", _TORCHRUN),
            Setting(names.PET_MASTER_ADDR, f"{{{names.MASTER_ADDR}}}", _TORCHRUN),
            Setting(names.PET_MASTER_PORT, f"{{{names.MASTER_PORT}}}", _TORCHRUN),
            Setting(names.PET_NPROC_PER_NODE, "{devices}", _TORCHRUN),
        ),
    ),
    Profile(
        "vllm",
        "vLLM on each host listens at the address of its pod",
        (
            Setting(
                names.VLLM_HOST_IP,
                why="profile vllm: an address of its own for each host",
                field_path="status.podIP",
            ),
        ),
    ),
)
"""The built-in profiles."""

_OWN_HOLES: Final = (
    HOSTS,
    RANK,
    MASTER,
    DEVICES,
    *(setting.variable for setting in RENDEZVOUS.settings),
)
_OF_PROCESSES: Final = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "CUDA_VISIBLE_DEVICES")
"""Variables of a single process, which Ray sets."""


def add_profiles(variables_by_name: Mapping[str, Mapping[str, str]]) -> Profiles:
    """Return the built-in profiles, and those of the configuration. Raises ValueError if one is
    invalid.
    """
    return (*PROFILES, *(own_profile(*entry) for entry in variables_by_name.items()))


def own_profile(name: str, variables: Mapping[str, str]) -> Profile:
    """Return a profile of the configuration. Raises ValueError if it is invalid."""
    if not _NAME.fullmatch(name) or name == NONE:
        msg = f"{name!r} is not a name of a profile: use lower-case letters, digits and '-'"
        raise ValueError(msg)
    if any(name == profile.name for profile in PROFILES):
        msg = f"profile {name} exists: use another name"
        raise ValueError(msg)
    settings = [_own_setting(name, *entry) for entry in variables.items()]
    return Profile(name, "a profile of the settings", tuple(settings))


def _own_setting(profile: str, variable: str, value: str) -> Setting:
    where = f"{variable or repr(variable)} of profile {profile}"
    if not _VARIABLE.fullmatch(variable) or variable in _OF_PROCESSES:
        msg = f"{where}: no variable that a profile can set"
        raise ValueError(msg)
    setting = Setting(variable, value, f"profile {profile}")
    for hole in setting.holes:
        if hole not in _OWN_HOLES:
            near = nearest(hole, _OWN_HOLES)
            meant = f" (did you mean {near}?)" if near else ""
            msg = f"{where}: {{{hole}}} is unknown{meant}; known are {', '.join(_OWN_HOLES)}"
            raise ValueError(msg)
    if RANK in setting.holes and len(setting.holes) > 1:
        msg = f"{where}: {{{RANK}}} stands beside no other"
        raise ValueError(msg)
    if set(_HOLE.sub("", value)) & set("{}"):
        msg = f"{where}: braces are for names, such as {{{HOSTS}}}"
        raise ValueError(msg)
    return setting


def check_names(chosen: Sequence[str], profiles: Profiles) -> str:
    """Return the problem of chosen names, or an empty text."""
    valid_names = (*sorted(profile.name for profile in profiles), NONE)
    unknown = [shorten(name) for name in chosen if name not in valid_names]
    if unknown:
        listed_names = ", ".join(map(repr, unknown[:3]))
        return f"unknown profile {listed_names}; known are {', '.join(valid_names)}"
    if NONE in chosen and len(set(chosen)) > 1:
        return f"{NONE!r} disables the other profiles: remove it, or the others"
    return ""


def choose(chosen: Sequence[str], profiles: Profiles, *, of_slice: bool) -> list[Profile]:
    """Return the profiles with the chosen names, either those of slices or those of hosts with a
    rendezvous; none if NONE is chosen.
    """
    if not chosen or NONE in chosen:
        return []
    profile_by_name = {
        profile.name: profile for profile in profiles if profile.of_slice == of_slice
    }
    return [profile_by_name[name] for name in dict.fromkeys(chosen) if name in profile_by_name]


def list_devices(profiles: Iterable[Profile]) -> bool:
    """Return whether profiles list every device of a slice."""
    return any(PROCESSES in setting.holes for profile in profiles for setting in profile.settings)
