"""Placers: who decides on which nodes a pod runs, where that is not left to the scheduler alone."""

from collections.abc import Iterable, Mapping

from webhook.kube import names


def kueue_places(annotations: Mapping[str, str], gates: Iterable[str]) -> bool:
    """Tell whether Kueue's topology-aware scheduling chooses the nodes of pods with these.

    A user asks for it by annotations of the template; Kueue adds the gate, and an annotation where
    there is none, when it admits the workload.

    https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
    """
    return names.KUEUE_GATE_TOPOLOGY in gates or any(
        key in annotations for key in names.KUEUE_TOPOLOGIES
    )


def kueue_level(annotations: Mapping[str, str]) -> str:
    """Return the node label whose every value Kueue keeps a slice of pods within, or nothing.

    https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
    """
    for key in (names.KUEUE_SLICE_REQUIRED_TOPOLOGY, names.KUEUE_REQUIRED_TOPOLOGY):
        if level := annotations.get(key):
            return level
    return ""
