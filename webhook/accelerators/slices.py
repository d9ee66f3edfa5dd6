"""TPU slices: the slice that the hosts of a replica form, from any notation in a template."""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from webhook.accelerators.topology import (
    Generation,
    TopologyError,
    chips_of,
    generation_of,
    is_v7x,
    listed_with,
    parse_topology,
)
from webhook.api import names

# A level of GKE's topology: a slice or a partition of a given shape.
# https://cloud.google.com/kubernetes-engine/docs/how-to/tpu-dynamic-slicing
_LEVEL: Final = re.compile(
    r"cloud\.google\.com/gke-tpu-(?:slice|partition)-([0-9]+(?:x[0-9]+){1,2})-id"
)
_LEVELS: Final = (
    names.KUEUE_SLICE_REQUIRED_TOPOLOGY,
    names.KUEUE_REQUIRED_TOPOLOGY,
)


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
    annotations: Mapping[str, str],
    selector: Mapping[str, str],
    chips: int,
    *,
    placed: bool,
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
    inferred = "" if named or selected or not placed else _inferred(accelerator, annotations, chips)
    return Slice(
        accelerator=accelerator,
        topology=named or selected or inferred,
        selected=selected,
        annotated=bool(named),
        placed=placed,
        unchecked=annotations.get(names.ANNOTATION_SKIP_TPU_CHECK) == "true",
    )


def _inferred(accelerator: str, annotations: Mapping[str, str], chips: int) -> str:
    """Return the only possible topology of a slice with so many chips, or an empty text."""
    for key in _LEVELS:
        level = _LEVEL.fullmatch(annotations.get(key, ""))
        if level and chips_of(level[1]) == chips:
            return level[1]
    listed = listed_with(generation_of(accelerator), chips)
    return listed[0] if len(listed) == 1 else ""
