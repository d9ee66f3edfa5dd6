"""Kueue: whether it queues a RayCluster, whether the webhook writes slices into the templates, and
whether Kueue chooses the nodes of the pods.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct

from webhook.api import names
from webhook.api.objects import Strings
from webhook.groups.annotations import KUEUE_SLICES


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
    and annotations KubeRay copies. `owner` is the kind of that owner, or empty. `asked`: the
    RayCluster has the annotation for slices.
    """

    queued: bool = False
    owner: str = ""
    asked: bool = False

    @property
    def slices(self) -> bool:
        """Return whether the webhook writes slices into the templates when the RayCluster is
        created.
        """
        return self.asked and not self.unmet

    @property
    def unmet(self) -> str:
        """Return why the annotation has no effect, and how to fix it, or an empty text."""
        if not self.asked:
            return ""
        if self.owner:
            why = f"Kueue reads the templates of a {self.owner} before its RayCluster exists"
            return f"{why}: write Kueue's annotations into them"
        if not self.queued:
            return f"Kueue queues what has the label {names.LABEL_KUEUE_QUEUE}: add it"
        return ""

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


def read_kueue(annotations: Strings, labels: Strings, owner: str = "") -> Kueue:
    """Return the effects of Kueue on an object with these annotations and labels, which is part of
    an object of kind `owner`, or was created for one according to its label.
    """
    queued = bool(labels.get(names.LABEL_KUEUE_QUEUE))
    asked = KUEUE_SLICES.read(annotations) == "true"
    if not (queued or asked):
        return NO_KUEUE
    return Kueue(queued, owner or labels.get(names.LABEL_ORIGIN_KIND, ""), asked)
