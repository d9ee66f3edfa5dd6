"""Schedulers that choose the nodes of a pod instead of, or together with, the default scheduler."""

from collections.abc import Mapping

from webhook.api import names


def kueue_level(annotations: Mapping[str, str]) -> str:
    """Return the node label within one value of which Kueue keeps each slice of pods, or an empty
    text.

    https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
    """
    for key in (names.KUEUE_SLICE_REQUIRED_TOPOLOGY, names.KUEUE_REQUIRED_TOPOLOGY):
        if level := annotations.get(key):
            return level
    return ""
