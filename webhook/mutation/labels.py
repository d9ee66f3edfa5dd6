"""Labels of an assigned identity, equal to KubeRay's, so that a later KubeRay release adopts the
pod.

https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
(`DefaultWorkerPodTemplate`)
"""

from webhook.accelerators.devices import TPU
from webhook.api import names
from webhook.api.formats import LABEL_VALUE_MAX
from webhook.groups.naming import slice_name
from webhook.mutation.edit import (
    Edit,
    SetAnnotation,
    SetLabel,
    Warn,
)
from webhook.mutation.ray_pod import Replica, Worker


def replica_edits(replica: Replica) -> list[Edit]:
    """Return the labels of the replica: index, and name if it has several hosts; none if the pod
    carries its identity.
    """
    if not replica.assigned:
        return []
    edits: list[Edit] = [
        SetLabel(names.LABEL_REPLICA_INDEX, str(replica.index), "the replica of the assigned seat")
    ]
    if replica.hosts > 1 and (replica.cluster.repair or replica.cluster.restart):
        edits += _seat(replica)
    if replica.hosts > 1:
        edits.append(SetLabel(names.LABEL_REPLICA_NAME, replica.name, "the replica's name"))
    if replica.count(TPU) and names.LABEL_LEGACY_REPLICA_INDEX not in replica.pod.labels:
        value = slice_name(replica.group_name, replica.index)
        if len(value) > LABEL_VALUE_MAX:
            edits.append(
                Warn(
                    f"label {names.LABEL_LEGACY_REPLICA_INDEX} left out: the group name is too "
                    "long for it"
                )
            )
        else:
            edits.append(
                SetLabel(
                    names.LABEL_LEGACY_REPLICA_INDEX,
                    value,
                    "Ray's first autoscaler deletes a slice by it",
                )
            )
    return edits


def _seat(replica: Replica) -> list[Edit]:
    """Return the annotation that distinguishes an assigned identity from one of KubeRay: their
    labels are equal.
    """
    if names.ANNOTATION_SEAT in replica.pod.annotations:
        return []
    return [SetAnnotation(names.ANNOTATION_SEAT, names.SEAT_ASSIGNED, "the seat is not of KubeRay")]


def host_edits(worker: Worker) -> list[Edit]:
    """Return the holder of the reservation of an assigned identity, and the host index in a
    multi-host group.
    """
    replica = worker.replica
    if not replica.assigned:
        return []
    edits: list[Edit] = [
        SetAnnotation(names.ANNOTATION_HOLDER, replica.holder, "the holder of its reservation")
    ]
    if replica.hosts > 1:
        index = str(worker.host)
        edits.append(SetLabel(names.LABEL_HOST_INDEX, index, "the host of the assigned seat"))
    return edits
