"""Locality: Ray learns where its nodes are, so that label selectors place work: zone and region,
and by an opt-in replica and host.

Where KubeRay maps a label to the same one of Ray, nothing is said twice.
"""

from typing import Final

import msgspec

from webhook.groups.optins import REPLICA_LABEL
from webhook.kube import names
from webhook.mutation.edit import Edit, Warn
from webhook.mutation.worker import Replica, Variable, Worker, fill

ZONES_SINCE: Final = (1, 35)
"""The first Kubernetes that copies zone and region from the Node to the pod, when it binds it.

https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4742-node-topology-downward-api
"""

_PLACES: Final = (
    (names.RAY_NODE_ZONE, names.LABEL_ZONE, names.RAY_LABEL_ZONE, "the zone"),
    (names.RAY_NODE_REGION, names.LABEL_REGION, names.RAY_LABEL_REGION, "the region"),
)


def replica_edits(replica: Replica) -> list[Edit]:
    """Return zone and region for Ray's container, as fields of the pod: they are known when it
    is bound.

    A pod without the label gives an empty value, which Ray takes for none.
    """
    if not replica.policy.zones or not replica.pod.spec.containers:
        return []
    mapped = _mapped(replica)
    variables = [
        Variable(
            name,
            "",
            f"{what} of the Node, for Ray",
            field_path=f"metadata.labels['{key}']",
        )
        for name, key, label, what in _PLACES
        if label not in mapped and key not in mapped
    ]
    return [*fill(replica.slots[replica.ray_slot], variables)]


def host_edits(worker: Worker) -> list[Edit]:
    """Return replica and host as labels of Ray, by the names that they have on the pod."""
    replica = worker.replica
    if not replica.cluster.replica_label or not replica.pod.spec.containers:
        return []
    labels = {names.LABEL_REPLICA_INDEX: str(replica.index)}
    if replica.hosts > 1:
        labels[names.LABEL_REPLICA_NAME] = replica.name
        labels[names.LABEL_HOST_INDEX] = str(worker.host)
    mapped = _mapped(replica)
    labels = {label: value for label, value in labels.items() if label not in mapped}
    if not labels:
        return []
    text = msgspec.json.encode(labels).decode()
    slot = replica.slots[replica.ray_slot]
    given = slot.variable(names.RAY_OVERRIDE_LABELS)
    if given is not None and (given.value or given.value_from):
        if given.value == text:
            return []
        return [
            Warn(
                f"{REPLICA_LABEL.annotation} has no effect: the template sets "
                f"{names.RAY_OVERRIDE_LABELS}; use labels of the group instead"
            )
        ]
    why = "label selectors of Ray place work on one replica"
    return [*fill(slot, [Variable(names.RAY_OVERRIDE_LABELS, text, why)])]


def _mapped(replica: Replica) -> set[str]:
    """Return the labels that KubeRay gives Ray: of Nodes, and what they become."""
    return {
        name
        for mapping in replica.group.mappings
        for name in (mapping.node_label, mapping.map_to)
        if name
    }
