"""Fields that can be set only at creation of a pod: the claim of a ComputeDomain, the scheduling
group, and the resize policy.
"""

from typing import Any, Final

from webhook.accelerators.devices import GPU
from webhook.api import names
from webhook.api.objects import Affinity
from webhook.groups import annotations, scheduling_groups
from webhook.groups.compute_domains import domain_name, has_own
from webhook.mutation.edit import (
    APART,
    AddClaim,
    AppendResizeRule,
    AppendTerm,
    Edit,
    Note,
    SetField,
    SetLabel,
    Warn,
)
from webhook.mutation.ray_pod import Replica

_NODE_TYPES: Final = [names.NODE_TYPE_HEAD, names.NODE_TYPE_WORKER]
_PODS: Final = {
    "matchExpressions": [
        {"key": names.LABEL_COMPUTE_DOMAIN, "operator": "Exists"},
        {"key": names.LABEL_NODE_TYPE, "operator": "In", "values": _NODE_TYPES},
    ]
}


def compute_domain(replica: Replica) -> list[Edit]:
    """Return the claim for every container with GPUs, or for all containers if GPUs are claimed,
    and the term that schedules pods of ComputeDomains on separate nodes.
    """
    domains, pod = replica.cluster.domains, replica.pod
    if not (domains.head if replica.head else replica.group_name in domains.groups):
        return []
    if has_own(pod.spec.resource_claims or []):
        return [Note("no ComputeDomain: the pod template claims one itself")]
    if replica.policy.no_domains:
        return [Warn(f"no ComputeDomain: {replica.policy.no_domains}")]
    slots = [slot for slot in replica.slots if slot.devices.get(GPU.name)]
    if not slots:  # GPUs are requested by claims
        slots = replica.slots[: len(pod.spec.containers or ())]
    cluster = replica.cluster
    template = domain_name(
        domains.scope, cluster.name, uid=cluster.uid, group=replica.group_name, replica=replica.name
    )
    why = "the GPUs of the ComputeDomain share memory over NVLink"
    paths = tuple([slot.path for slot in slots])
    edits: list[Edit] = [AddClaim(names.CLAIM_COMPUTE_DOMAIN, template, paths, why)]
    if names.LABEL_COMPUTE_DOMAIN not in pod.labels:
        edits.append(
            SetLabel(names.LABEL_COMPUTE_DOMAIN, domains.scope, "pods of ComputeDomains find it")
        )
    term: dict[str, Any] = {"labelSelector": _PODS, "topologyKey": names.LABEL_HOSTNAME}
    if replica.policy.apart == "all":
        term["namespaceSelector"] = {}
    present = pod.spec.affinity or Affinity()
    # Kueue chooses the nodes of such pods, without their affinity to other pods.
    if not replica.slice.placed and term not in present.apart:
        why = "a node is in one ComputeDomain, and has one channel for one pod"
        edits.append(AppendTerm(APART, term, why))
    return edits


_WHY: Final = {
    annotations.CLUSTER: "all pods of the RayCluster are scheduled together",
    annotations.WORKER_GROUP: "the pods of one group are scheduled together",
    annotations.REPLICA: "the hosts of a replica are scheduled together",
}


def scheduling_group(replica: Replica) -> list[Edit]:
    """Return the scheduling group of a RayCluster with gang scheduling, unless the pod has one or
    another scheduler has its own.
    """
    gang, spec = replica.cluster.gang, replica.pod.spec
    if not (gang.granularity or gang.unmet) or spec.scheduling_group is not None:
        return []
    if gang.unmet:
        return [Warn(f"no scheduling group: {gang.unmet}")]
    name = _pod_group(replica)
    if not name:
        return []
    if problem := scheduling_groups.find_incompatible_field(
        spec.scheduler_name, spec.eviction_responders
    ):
        return [Warn(f"no scheduling group: {problem}")]
    # Such an API server drops the field without an error, and the pods would start ungrouped.
    if not replica.policy.pod_groups:
        reason = "the API server serves no PodGroups; turn on GenericWorkload and scheduling.k8s.io"
        return [Warn(f"no scheduling group: {reason}")]
    edits: list[Edit] = [
        SetField("schedulingGroup", {"podGroupName": name}, _WHY[gang.granularity])
    ]
    # A pod that names a missing PodGroup is not scheduled.
    if not replica.policy.published:
        edits.append(Warn(f"pending until you create this PodGroup: {name}"))
    return edits


def _pod_group(replica: Replica) -> str:
    """Return the name of the PodGroup of a pod, or an empty text if it is in none."""
    cluster, granularity = replica.cluster, replica.cluster.gang.granularity
    if granularity == annotations.CLUSTER:
        return scheduling_groups.cluster_pod_group(cluster.name)
    if granularity == annotations.WORKER_GROUP:
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


_RESTART: Final = "RestartContainer"


def resize_policy(replica: Replica) -> list[Edit]:
    """Return the missing entries of Ray's container, if `ray.io/ippr` lists its group.

    Entries of the user are kept. Kubernetes rejects a restart policy for a pod with `restartPolicy:
    Never`, and Ray rejects it for any resize.
    """
    if replica.group_name not in replica.cluster.resizable:
        return []
    ray = replica.ray
    rules = {rule.resource_name: rule.restart_policy for rule in ray.container.resize_policy or ()}
    problem = f"Ray resizes nothing with {_RESTART}"
    # The API server refuses such a pod. KubeRay sets Never with `autoscalerOptions.version: v2`.
    if replica.pod.spec.restart_policy == "Never":
        problem = f"{_RESTART} cannot be with restartPolicy Never"
    edits: list[Edit] = []
    for resource in ("cpu", "memory"):
        if resource not in rules:
            edits.append(AppendResizeRule(ray.path, resource, "Ray resizes it in place"))
        elif rules[resource] == _RESTART:
            edits.append(Warn(f"resizePolicy {resource}: {problem}: remove it from the template"))
    return edits
