"""Locality: labels of Ray nodes for label selectors: zone and region, and by opt-ins replica, host
and any label of the Node.

Where KubeRay itself delivers labels of the Node, the webhook delivers none.
"""

from typing import Final

import msgspec

from webhook.api import names
from webhook.mutation.edit import Edit, Warn
from webhook.mutation.ray_pod import Replica, Slot, Variable, Worker, fill

ZONES_SINCE: Final = (1, 35)
"""The first Kubernetes release that copies zone and region from the Node to the pod at binding.

https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4742-node-topology-downward-api
"""

_PLACES: Final = (
    (names.RAY_NODE_ZONE, names.LABEL_ZONE, "the zone"),
    (names.RAY_NODE_REGION, names.LABEL_REGION, "the region"),
)


def replica_edits(replica: Replica) -> list[Edit]:
    """Return zone and region for Ray's container, as references to pod fields, which are set at
    binding.

    If the pod has no such label, the value is empty, which Ray ignores.
    """
    if not replica.policy.zones or _has_kuberay_labels(replica):
        return []
    variables = [
        Variable(name, "", f"{place} of the Node, for Ray", field_path=f"metadata.labels['{key}']")
        for name, key, place in _PLACES
    ]
    return [*fill(replica.ray, variables)]


def host_edits(worker: Worker) -> list[Edit]:
    """Return replica, host and labels of the Node as labels of Ray."""
    replica, cluster = worker.replica, worker.replica.cluster
    if not (cluster.replica_label or cluster.node_labels):
        return []
    if _has_kuberay_labels(replica):
        reason = f"KubeRay sets {names.KUBERAY_NODE_LABELS}; use its labels"
        return [Warn(f"no labels for Ray by annotations: {reason}")]
    labels = _identity_labels(worker) if cluster.replica_label else {}
    variables: list[Variable] = []
    allowed = [
        node_label for node_label in cluster.node_labels if _is_allowed(replica, node_label.node)
    ]
    # Sorted, so that a second call yields the same names of variables.
    for key, label in sorted({node_label.node: node_label.ray for node_label in allowed}.items()):
        name = f"{names.NODE_LABEL}{len(variables)}"
        path, why = f"metadata.annotations['{key}']", "the Node's label, for Ray"
        variables.append(Variable(name, "", why, field_path=path))
        labels[label] = f"$({name})"
    edits: list[Edit] = [
        Warn(f"{node_label.node} is not passed on: the webhook's topology.nodeLabels lacks it")
        for node_label in cluster.node_labels
        if node_label not in allowed
    ]
    if labels:
        edits += _override(replica.ray, variables, labels)
    return edits


def _identity_labels(worker: Worker) -> dict[str, str]:
    replica = worker.replica
    labels = {names.LABEL_REPLICA_INDEX: str(replica.index)}
    if replica.hosts > 1:
        labels[names.LABEL_REPLICA_NAME] = replica.name
        labels[names.LABEL_HOST_INDEX] = str(worker.host)
    return labels


def _is_allowed(replica: Replica, key: str) -> bool:
    allowed = replica.policy.node_labels
    return allowed is None or key in allowed


def _has_kuberay_labels(replica: Replica) -> bool:
    """Return whether KubeRay itself delivers labels of Nodes to this pod."""
    return replica.ray.variable(names.KUBERAY_NODE_LABELS) is not None


def _override(slot: Slot, variables: list[Variable], labels: dict[str, str]) -> list[Edit]:
    """Return the labels of Ray, preceded by the variables that they refer to."""
    json_text = msgspec.json.encode(labels).decode()
    variable = slot.variable(names.RAY_OVERRIDE_LABELS)
    # The variable is one JSON text; that of the user may be a reference, which cannot be merged.
    if variable is not None and (variable.value or variable.value_from):
        if variable.value == json_text:
            return []
        return [
            Warn(
                f"no labels for Ray by annotations: the template sets {names.RAY_OVERRIDE_LABELS}; "
                "use labels of the group"
            )
        ]
    why = "label selectors of Ray place work by these"
    return [*fill(slot, [*variables, Variable(names.RAY_OVERRIDE_LABELS, json_text, why)])]
