"""Locality: labels of Ray nodes for label selectors: zone and region, and by opt-ins replica, host
and any label of the Node.

A label that KubeRay maps to the same label of Ray is not set again.
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
    (names.RAY_NODE_ZONE, names.LABEL_ZONE, names.RAY_LABEL_ZONE, "the zone"),
    (names.RAY_NODE_REGION, names.LABEL_REGION, names.RAY_LABEL_REGION, "the region"),
)


def replica_edits(replica: Replica) -> list[Edit]:
    """Return zone and region for Ray's container, as references to pod fields, which are set at
    binding.

    If the pod has no such label, the value is empty, which Ray ignores.
    """
    if not replica.policy.zones:
        return []
    mapped = _mapped(replica)
    variables = [
        Variable(name, "", f"{what} of the Node, for Ray", field_path=f"metadata.labels['{key}']")
        for name, key, label, what in _PLACES
        if label not in mapped and key not in mapped
    ]
    return [*fill(replica.ray, variables)]


def host_edits(worker: Worker) -> list[Edit]:
    """Return replica, host and labels of the Node as labels of Ray."""
    replica, cluster, group = worker.replica, worker.replica.cluster, worker.replica.group
    asked = cluster.replica_label or cluster.node_labels or group.topology or group.label_mappings
    if not asked:
        return []
    mapped = _mapped(replica)
    identity = _identity_labels(worker) if cluster.replica_label else {}
    labels = {label: value for label, value in identity.items() if label not in mapped}
    variables: list[Variable] = []
    for key, label in sorted(_of_node(replica).items()):
        name = f"{names.NODE_LABEL}{len(variables)}"
        path, why = f"metadata.annotations['{key}']", "the Node's label, for Ray"
        variables.append(Variable(name, "", why, field_path=path))
        labels[label] = f"$({name})"
    edits: list[Edit] = [
        Warn(f"{each.node_label} is not passed on: the webhook's topology.nodeLabels lacks it")
        for each in cluster.node_labels
        if not _allowed(replica, each.node_label)
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


def _of_node(replica: Replica) -> dict[str, str]:
    """Return Ray labels by Node label: those that the RayCluster lists, and those of the group
    unless KubeRay delivers them.
    """
    native = _native(replica)
    mappings = [*replica.cluster.node_labels, *([] if native else replica.group.mappings)]
    taken = _mapped(replica) if native else set()
    return {
        each.node_label: each.map_to or each.node_label
        for each in mappings
        if _allowed(replica, each.node_label) and (each.map_to or each.node_label) not in taken
    }


def _allowed(replica: Replica, key: str) -> bool:
    allowed = replica.policy.node_labels
    return bool(key) and (allowed is None or key in allowed)


def _native(replica: Replica) -> bool:
    """Return whether KubeRay itself delivers labels of Nodes to this pod."""
    return replica.ray.variable(names.KUBERAY_NODE_LABELS) is not None


def _override(slot: Slot, variables: list[Variable], labels: dict[str, str]) -> list[Edit]:
    """Return the labels of Ray, preceded by the variables that they refer to."""
    text = msgspec.json.encode(labels).decode()
    given = slot.variable(names.RAY_OVERRIDE_LABELS)
    if given is not None and (given.value or given.value_from):
        if given.value == text:
            return []
        return [
            Warn(
                f"no labels for Ray by annotations: the template sets {names.RAY_OVERRIDE_LABELS}; "
                "use labels of the group"
            )
        ]
    why = "label selectors of Ray place work by these"
    return [*fill(slot, [*variables, Variable(names.RAY_OVERRIDE_LABELS, text, why)])]


def _mapped(replica: Replica) -> set[str]:
    """Return the labels in the mappings of the group: keys of Nodes, and of Ray."""
    native = _native(replica)
    return {
        name
        for mapping in replica.group.mappings
        if native or _allowed(replica, mapping.node_label)
        for name in (mapping.node_label, mapping.map_to)
        if name
    }
