"""Kueue: whether it queues a RayCluster, and whether it chooses the nodes of the pods."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from webhook.api import names
from webhook.api.objects import Strings


def kueue_level(annotations: Mapping[str, str]) -> str:
    """Return the node label within one value of which Kueue keeps each slice of pods, or an empty
    text.

    https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
    """
    for key in (names.KUEUE_SLICE_REQUIRED_TOPOLOGY, names.KUEUE_REQUIRED_TOPOLOGY):
        if level := annotations.get(key):
            return level
    return ""


class Kueue(Struct, frozen=True, gc=False):
    """The effects of Kueue on a RayCluster.

    `queued`: Kueue admits the RayCluster, or the RayJob or RayService that owns it, whose labels
    and annotations KubeRay copies.
    """

    queued: bool = False

    def places(self, annotations: Mapping[str, str], gates: Iterable[str]) -> bool:
        """Return whether Kueue's topology-aware scheduling chooses the nodes of pods with these
        annotations and scheduling gates.

        Kueue adds the gate when it admits a workload. Until then, annotations of the template
        request it, which have an effect only in a queue.

        https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
        """
        return names.KUEUE_GATE_TOPOLOGY in gates or (
            self.queued and any(key in annotations for key in names.KUEUE_TOPOLOGIES)
        )


NO_KUEUE: Final = Kueue()


def read_kueue(labels: Strings) -> Kueue:
    """Return the effects of Kueue on an object with these labels."""
    return Kueue(queued=True) if labels.get(names.LABEL_KUEUE_QUEUE) else NO_KUEUE
