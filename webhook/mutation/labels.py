"""Labels of an assigned seat: those KubeRay itself would write, so that a later KubeRay adopts the pod."""

from webhook.groups.naming import slice_name
from webhook.kube import names
from webhook.kube.shapes import LABEL_VALUE_MAX
from webhook.mutation.edit import Edit, SetLabel, Warn
from webhook.mutation.worker import Worker


def labels(worker: Worker) -> list[Edit]:
    """Return the seat labels, three for a multi-host group and the index alone otherwise; none for a carried seat.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    (`DefaultWorkerPodTemplate`)
    """
    if not worker.assigned:
        return []
    seat = worker.seat
    edits: list[Edit] = [SetLabel(names.LABEL_REPLICA_INDEX, str(seat.replica), "the replica of the assigned seat")]
    if worker.hosts > 1:
        edits.append(SetLabel(names.LABEL_REPLICA_NAME, seat.name, "the replica's name"))
        edits.append(SetLabel(names.LABEL_HOST_INDEX, str(seat.host), "the host of the assigned seat"))
    if worker.chips and names.LABEL_LEGACY_REPLICA_INDEX not in worker.pod.labels:
        value = slice_name(worker.name, seat.replica)
        if len(value) > LABEL_VALUE_MAX:
            edits.append(Warn(f"label {names.LABEL_LEGACY_REPLICA_INDEX} left out: the group name is too long for it"))
        else:
            edits.append(SetLabel(names.LABEL_LEGACY_REPLICA_INDEX, value, "Ray's first autoscaler deletes a slice by it"))
    return edits
