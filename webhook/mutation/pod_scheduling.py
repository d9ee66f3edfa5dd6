"""Scheduling of pods, and of work on them: the hosts of a replica share a slice or NVLink domain,
exclusively; the claim of a ComputeDomain; the scheduling group; and labels of Ray nodes for label
selectors of Ray: zone and region, and by opt-ins replica, host and any label of the Node.

See docs/contributing/decisions/0009-anti-affinity-over-namespaces.md.
"""

from typing import Any, Final

import msgspec

from webhook.accelerators.devices import GPU
from webhook.api import names
from webhook.api.objects import Affinity
from webhook.groups import annotations, scheduling_groups
from webhook.groups.annotations import TOPOLOGY_KEY
from webhook.groups.compute_domains import domain_name, has_own
from webhook.mutation.edit import (
    APART,
    TOGETHER,
    AddClaim,
    AppendTerm,
    Edit,
    Note,
    SetField,
    SetLabel,
    Warn,
)
from webhook.mutation.ray_pod import Replica, Slot, Variable, Worker, fill


def affinity(replica: Replica) -> list[Edit]:
    """Return the required affinity terms of a multi-host replica, unless the pod has them already.

    Affinity: pods of this replica. Anti-affinity: pods of any other, in all clusters and
    namespaces, because they share node pools; the policy may restrict it to the pod's namespace.
    Replica names may be equal by chance, so the terms match the cluster too.
    """
    if replica.hosts == 1:
        return []
    placed = replica.slice.placed
    key = replica.cluster.topology_key or _usual_key(replica)
    if not key:
        return [Note(f"no affinity: {_why_none(replica)}")] if placed or replica.chips else []
    if problem := TOPOLOGY_KEY.problem(key):
        return [Warn(f"{TOPOLOGY_KEY.annotation}: {problem}")]
    mine = {names.LABEL_REPLICA_NAME: replica.name, names.LABEL_CLUSTER: replica.cluster.name}
    present = replica.pod.spec.affinity or Affinity()
    together = {"labelSelector": {"matchLabels": mine}, "topologyKey": key}
    edits: list[Edit] = []
    # A second call by the API server must not add the term again.
    if together not in present.together:
        why = "the hosts of this replica share one topology domain"
        edits.append(AppendTerm(TOGETHER, together, why))
    if replica.slice.parent and key == names.NODE_POOL:
        return edits  # sub-slices share the pool
    everywhere = replica.policy.apart == "all"
    apart = [_other(label, value, key, everywhere=everywhere) for label, value in mine.items()]
    why = "no host of another replica in that domain"
    return [*edits, *(AppendTerm(APART, term, why) for term in apart if term not in present.apart)]


def _usual_key(replica: Replica) -> str:
    """Return the node label within one value of which hosts with such devices are scheduled, or an
    empty text if the webhook sets none.
    """
    keys = (
        device.topology_key
        for device in replica.policy.devices
        if device.topology_key and replica.count(device)
    )
    return next(keys, "") if replica.slice.owns_pool else ""


def _why_none(replica: Replica) -> str:
    """Return why hosts with a usual key have no affinity by it."""
    if replica.slice.placed:
        return "Kueue chooses the nodes of these pods, without their affinity to other pods"
    return (
        f"a sub-slice shares its node pool; {TOPOLOGY_KEY.annotation} may name a label that keeps "
        "its hosts together"
    )


def _other(label: str, value: str, key: str, *, everywhere: bool) -> dict[str, Any]:
    # NotIn also matches pods without the label, so the term requires a replica name. It is that of
    # a worker, because anyone may write one on another pod, and KubeRay sets the type of its pods.
    expressions: list[dict[str, Any]] = [
        {"key": label, "operator": "NotIn", "values": [value]},
        {"key": names.LABEL_REPLICA_NAME, "operator": "Exists"},
        {"key": names.LABEL_NODE_TYPE, "operator": "In", "values": [names.NODE_TYPE_WORKER]},
    ]
    scope: dict[str, Any] = {"namespaceSelector": {}} if everywhere else {}
    return {"labelSelector": {"matchExpressions": expressions}, **scope, "topologyKey": key}


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


ZONES_SINCE: Final = (1, 35)
"""The first Kubernetes release that copies zone and region from the Node to the pod at binding.

https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4742-node-topology-downward-api
"""

_PLACES: Final = (
    (names.RAY_NODE_ZONE, names.LABEL_ZONE, "the zone"),
    (names.RAY_NODE_REGION, names.LABEL_REGION, "the region"),
)


def zone_labels(replica: Replica) -> list[Edit]:
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


def node_labels(worker: Worker) -> list[Edit]:
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
