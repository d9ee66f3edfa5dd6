"""Scheduling group: the PodGroup of a pod, scheduled all or none. The group can be set only at
creation of a pod.

https://kubernetes.io/docs/concepts/scheduling-eviction/workload-aware-scheduling/
"""

from typing import Final

from webhook.groups import annotations, scheduling_groups
from webhook.mutation.edit import Edit, SetField, Warn
from webhook.mutation.ray_pod import Replica

_WHY: Final = {
    annotations.CLUSTER: "all pods of the RayCluster are scheduled together",
    annotations.WORKER_GROUP: "the pods of one group are scheduled together",
    annotations.REPLICA: "the hosts of a replica are scheduled together",
}


def replica_edits(replica: Replica) -> list[Edit]:
    """Return the scheduling group of a RayCluster with gang scheduling, unless the pod has one or
    another scheduler has its own.
    """
    name = _pod_group(replica)
    spec = replica.pod.spec
    if spec.scheduling_group is not None:
        return []
    if replica.cluster.gang.obstacle:
        return [Warn(f"no scheduling group: {replica.cluster.gang.obstacle}")]
    if not name:
        return []
    if problem := scheduling_groups.excluded(spec.scheduler_name, spec.eviction_responders):
        return [Warn(f"no scheduling group: {problem}")]
    if not replica.policy.pod_groups:
        return [
            Warn(
                "no scheduling group: the API server serves no PodGroups; turn on GenericWorkload "
                "and scheduling.k8s.io"
            )
        ]
    edits: list[Edit] = [
        SetField("schedulingGroup", {"podGroupName": name}, _WHY[replica.cluster.gang.granularity])
    ]
    if not replica.policy.published:
        edits.append(Warn(f"pending until you create this PodGroup: {name}"))
    return edits


def _pod_group(replica: Replica) -> str:
    """Return the name of the PodGroup of a pod, or an empty text if it is in none."""
    cluster = replica.cluster
    asked = cluster.gang
    if not asked.active:
        return ""
    if asked.granularity == annotations.CLUSTER:
        return scheduling_groups.cluster_pod_group(cluster.name)
    if asked.granularity == annotations.WORKER_GROUP or replica.in_unit:
        return (
            scheduling_groups.head_pod_group(cluster.name)
            if replica.head
            else scheduling_groups.group_pod_group(cluster.name, replica.group_name)
        )
    return (
        scheduling_groups.replica_pod_group(cluster.name, replica.group_name, replica.name)
        if replica.hosts > 1
        else ""
    )
