"""TPU slices: topologies such as `2x2x2`, their number of hosts and accelerator type; and the slice
that the hosts of a replica form, from any notation in a template.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Final, NamedTuple

from msgspec import Struct

from webhook.api import names
from webhook.api.formats import nearest

_TOPOLOGY: Final = re.compile(r"[1-9][0-9]{0,4}(x[1-9][0-9]{0,4}){1,2}")


class TopologyError(ValueError):
    """A topology that is invalid, or that does not fit the chips and hosts of its group."""


class Generation(NamedTuple):
    """A TPU generation: its name in accelerator types, and TensorCores per chip, which those types
    count.
    """

    name: str
    cores: int


# From values of the node label cloud.google.com/gke-tpu-accelerator to generations.
# https://github.com/ray-project/ray/blob/master/python/ray/_private/accelerators/tpu.py
GENERATIONS: Final = {
    "tpu-v4-podslice": Generation("v4", 2),
    "tpu-v5-lite-device": Generation("v5litepod", 1),
    "tpu-v5-lite-podslice": Generation("v5litepod", 1),
    "tpu-v5p-slice": Generation("v5p", 2),
    "tpu-v6e-slice": Generation("v6e", 1),
}
_KNOWN_PREFIX: Final = re.compile(
    r"(tpu-?)?(v4|v5-?lite|v5litepod|v5e|v5p|v5|v6e|v6|v7x?)(?![0-9a-z])|tpu-?7x?(?![0-9a-z])"
)
_V7X: Final = Generation("tpu7x", 2)
_V7X_PREFIX: Final = "tpu7x"


_SMALL: Final = ((2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4))
_FLAT: Final = frozenset(
    ((1, 1), (2, 2), (2, 4), (2, 8), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16))
)
_FOURS: Final = (4, 8, 12, 16, 20, 24)

# https://github.com/ray-project/ray/blob/master/python/ray/_private/accelerators/tpu.py
# (`VALID_TPU_TOPOLOGY`)
LISTED: Final[dict[str, frozenset[tuple[int, ...]]]] = {
    "v4": frozenset((*_SMALL, *product(_FOURS[:3], _FOURS[:3], _FOURS[:4]))),
    "v5p": frozenset((*_SMALL, *product(_FOURS[:4], _FOURS[:4], _FOURS))),
    "v5litepod": _FLAT,
    "v6e": _FLAT,
    "tpu7x": frozenset(
        (*_SMALL, (4, 4, 4), (4, 4, 8), (4, 8, 8), (8, 8, 8), (8, 8, 16), (8, 16, 16))
    ),
}
"""The topologies of each generation that Ray lists."""

_SIZES: Final = {
    "x".join(map(str, sizes)): sizes for topologies in LISTED.values() for sizes in topologies
}
"""The sizes of these topologies by their text."""


def parse_topology(text: str) -> tuple[int, ...]:
    """Return the sizes of a topology such as `4x4` or `2x2x2`. Raises TopologyError if it is
    invalid.
    """
    sizes = _SIZES.get(text)
    if sizes is not None:
        return sizes
    if not _TOPOLOGY.fullmatch(text):
        msg = (
            f"{text!r} is not a TPU topology: write two or three positive numbers joined by x, "
            "such as 4x4 or 2x2x2"
        )
        raise TopologyError(msg)
    return tuple(int(size) for size in text.split("x"))


def hosts_of(text: str, chips_per_host: int) -> int:
    """Return the number of hosts of a topology.

    Raises TopologyError if it is invalid, or if its chips do not divide evenly over hosts.
    """
    chips = prod(parse_topology(text))
    if chips_per_host < 1:
        msg = (
            f"a host of a TPU slice needs at least one chip, not {chips_per_host}: set the limit "
            "google.com/tpu"
        )
        raise TopologyError(msg)
    hosts, rest = divmod(chips, chips_per_host)
    # Rounded down, as in Google's webhook, a wrong number of hosts would pass.
    if rest or not hosts:
        msg = (
            f"topology {text} has {chips} chips, which do not divide over hosts of "
            f"{chips_per_host}: "
            f"set google.com/tpu to the chips of one host"
        )
        raise TopologyError(msg)
    return hosts


def chips_of(text: str) -> int:
    """Return the number of chips of a topology, 0 if it is invalid."""
    try:
        return prod(parse_topology(text))
    except TopologyError:
        return 0


def list_topologies(generation: Generation | None, chips: int) -> Sequence[str]:
    """Return the listed topologies of a generation with so many chips."""
    return _BY_CHIPS[generation.name].get(chips, ()) if generation else ()


def _group_by_chips(topologies: frozenset[tuple[int, ...]]) -> Mapping[int, Sequence[str]]:
    topologies_by_chips: dict[int, list[str]] = {}
    for sizes in sorted(topologies):
        topologies_by_chips.setdefault(prod(sizes), []).append("x".join(map(str, sizes)))
    return topologies_by_chips


_BY_CHIPS: Final = {name: _group_by_chips(topologies) for name, topologies in LISTED.items()}
"""The listed topologies of each generation by their chips."""


def advice(generation: Generation | None, chips: int, otherwise: str) -> str:
    """Return advice for a message: the topologies of a generation with so many chips."""
    fitting = list_topologies(generation, chips)
    return f"use topology {' or '.join(fitting[:2])}" if fitting else otherwise


def generation_of(accelerator: str) -> Generation | None:
    """Return the generation for a value of the node label `cloud.google.com/gke-tpu-accelerator`,
    if known.
    """
    return _V7X if is_v7x(accelerator) else GENERATIONS.get(accelerator)


def nearest_accelerator(accelerator: str) -> str:
    """Return the accelerator that an invalid name of a known generation stands for, such as
    tpu-v4-podslice for tpu-v4 or tpu_v4_podslice; empty for any other name.
    """
    name = accelerator.lower().replace("_", "-")
    match = _KNOWN_PREFIX.match(name)
    if match is None:
        return ""
    if "7" in match[0]:
        return _V7X_PREFIX
    name = name if name.startswith("tpu") else f"tpu-{name}"
    return nearest(name, GENERATIONS, 0)


def is_v7x(accelerator: str) -> bool:
    """Return whether an accelerator is a TPU v7x (Ironwood), whose hosts may run a process per NUMA
    node.
    """
    return accelerator.startswith(_V7X_PREFIX)


def accelerator_type(accelerator: str, chips: int) -> str | None:
    """Return the accelerator type of a slice with so many chips, such as `v4-16`, or None for an
    unknown generation.
    """
    generation = generation_of(accelerator)
    return None if generation is None else f"{generation.name}-{chips * generation.cores}"


# A level of GKE's topology: a slice or a partition of a given shape.
# https://cloud.google.com/kubernetes-engine/docs/how-to/tpu-dynamic-slicing
_LEVEL: Final = re.compile(
    r"cloud\.google\.com/gke-tpu-(?:slice|partition)-([0-9]+(?:x[0-9]+){1,2})-id"
)
_LEVELS: Final = (names.KUEUE_SLICE_REQUIRED_TOPOLOGY, names.KUEUE_REQUIRED_TOPOLOGY)


class Slice(Struct, frozen=True, gc=False):
    """The slice that the hosts of a replica form; its topology is empty if unknown.

    `selected` is the topology in the node selector of the pods: that of the slice, or of the
    `parent` that it is a part of. `annotated`: an annotation contains the slice. `placed`: Kueue
    chooses its nodes. `unchecked`: the user disabled topology checks.
    """

    accelerator: str = ""
    topology: str = ""
    selected: str = ""
    annotated: bool = False
    placed: bool = False
    unchecked: bool = False

    @property
    def parent(self) -> str:
        """Return the topology that this slice is a part of; empty for a slice of its own."""
        return self.selected if self.annotated and self.selected != self.topology else ""

    @property
    def owns_pool(self) -> bool:
        """Return whether the slice consists of exactly one node pool, neither partitioned nor
        joined.
        """
        return not (
            self.placed or self.parent or (self.annotated and (self.v7x or not self.selected))
        )

    @property
    def v7x(self) -> bool:
        """Return whether the accelerator is TPU v7x."""
        return is_v7x(self.accelerator)

    def devices(self, chips: int) -> int:
        """Return the number of devices of so many chips; a chip of v7x has two."""
        return chips * 2 if self.v7x else chips

    @property
    def generation(self) -> Generation | None:
        return generation_of(self.accelerator)

    @property
    def readable(self) -> bool:
        """Return whether the topology is known and valid."""
        try:
            parse_topology(self.topology)
        except TopologyError:
            return False
        return True

    @property
    def too_large(self) -> bool:
        """Return whether the slice does not fit into its parent. Raises TopologyError for an
        invalid topology.
        """
        if not self.parent:
            return False
        part, whole = parse_topology(self.topology), parse_topology(self.parent)
        return len(part) != len(whole) or any(
            size > most for size, most in zip(part, whole, strict=True)
        )


def read_slice(
    annotations: Mapping[str, str], selector: Mapping[str, str], chips: int, *, placed: bool
) -> Slice:
    """Return the slice of a template whose replicas have `chips` chips over all hosts; `placed` if
    Kueue chooses the nodes.

    The topology is taken from the annotation, otherwise from the node selector. If Kueue chooses
    nodes and neither is present, the topology is derived from the shape in the topology level of
    Kueue's annotation, or from the number of chips, if a single topology of the generation has as
    many.

    https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/tpu.html
    """
    accelerator = selector.get(names.NODE_TPU_ACCELERATOR, "")
    selected = selector.get(names.NODE_TPU_TOPOLOGY, "")
    named = annotations.get(names.ANNOTATION_SLICE_TOPOLOGY, "")
    inferred = (
        "" if named or selected or not placed else _infer_topology(accelerator, annotations, chips)
    )
    return Slice(
        accelerator=accelerator,
        topology=named or selected or inferred,
        selected=selected,
        annotated=bool(named),
        placed=placed,
        unchecked=annotations.get(names.ANNOTATION_SKIP_TPU_CHECK) == "true",
    )


def _infer_topology(accelerator: str, annotations: Mapping[str, str], chips: int) -> str:
    """Return the only possible topology of a slice with so many chips, or an empty text."""
    for key in _LEVELS:
        level = _LEVEL.fullmatch(annotations.get(key, ""))
        if level and chips_of(level[1]) == chips:
            return level[1]
    listed = list_topologies(generation_of(accelerator), chips)
    return listed[0] if len(listed) == 1 else ""
