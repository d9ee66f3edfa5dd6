"""Annotations by which autoscalers of nodes leave the nodes of pods alone.

https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md
https://karpenter.sh/docs/concepts/disruption/#pod-level-controls
"""

from typing import Final

from webhook.api import names
from webhook.groups.annotations import ALL, HEADS, KEEP_NODES, REPLICAS
from webhook.mutation.edit import Edit, Note, SetAnnotation, Warn
from webhook.mutation.ray_pod import Replica

_KEYS: Final = {names.SAFE_TO_EVICT: "false", names.DO_NOT_DISRUPT: "true"}
_AUTOPILOT: Final = frozenset(
    {"autopilot", "autopilot-spot", "Accelerator", "Balanced", "Performance", "Scale-Out"}
)
"""Compute classes whose pods run on GKE Autopilot, which refuses `safe-to-evict: "false"` beside
pod affinity.

https://cloud.google.com/kubernetes-engine/docs/concepts/autopilot-compute-classes
"""


def replica_edits(replica: Replica) -> list[Edit]:
    """Return both annotations for a head without fault tolerance of the GCS, or a host of a
    multi-host group, as configured; none if the template has one of them.
    """
    scope = replica.cluster.keep_nodes or replica.policy.keep_nodes
    if problem := KEEP_NODES.problem(scope):
        return [Warn(f"{KEEP_NODES.annotation}: {problem}")]
    if scope not in (ALL, HEADS if replica.head else REPLICAS):
        return []
    # With fault tolerance, workers survive the loss of the head.
    if replica.cluster.gcs_fault_tolerant if replica.head else replica.hosts <= 1:
        return []
    if not _KEYS.keys().isdisjoint(replica.pod.annotations):
        return []
    selector = replica.pod.spec.node_selector or {}
    if selector.get(names.NODE_COMPUTE_CLASS) in _AUTOPILOT:
        return [Note("nodes are not kept: GKE Autopilot refuses the annotation")]
    why = "its Ray cluster ends with it" if replica.head else "its replica ends with it"
    return [SetAnnotation(key, value, why) for key, value in _KEYS.items()]
