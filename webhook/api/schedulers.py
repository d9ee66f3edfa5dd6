"""Placers: who decides on which nodes a pod runs, where that is not left to the scheduler alone."""

from collections.abc import Mapping

from webhook.api import names


def kueue_level(annotations: Mapping[str, str]) -> str:
    """Return the node label whose every value Kueue keeps a slice of pods within, or nothing.

    https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
    """
    for key in (names.KUEUE_SLICE_REQUIRED_TOPOLOGY, names.KUEUE_REQUIRED_TOPOLOGY):
        if level := annotations.get(key):
            return level
    return ""
