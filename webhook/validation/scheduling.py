"""Rules of gang scheduling, by KubeRay's label or the webhook's annotation, of Kueue, and of
ComputeDomains.
"""

from collections.abc import Iterator
from typing import Final

from webhook.api import names
from webhook.api.formats import shorten
from webhook.api.objects import TemplateSpec
from webhook.api.quantity import read_number
from webhook.api.review import FORBIDDEN, NOT_SUPPORTED, REQUIRED
from webhook.groups.annotations import (
    CLUSTER,
    COMPUTE_DOMAIN,
    GRANULARITIES,
    NODE_LABELS,
    read_pairs,
)
from webhook.groups.compute_domains import has_own
from webhook.groups.scheduling_groups import NO_GANG, Gang, read_gang
from webhook.validation.cluster import ClusterSpec, GroupSpec
from webhook.validation.crd import INT32
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.ray_object import Job

_GATE: Final = "KubernetesWAS"


def gang_autoscaled(cluster: ClusterSpec) -> Iterator[Fault]:
    """Gang scheduling by the Kubernetes scheduler of a cluster that autoscales.

    With the feature gate KubernetesWAS on, KubeRay silently omits gang scheduling, as the scheduler
    needs a fixed number of pods. Other batch schedulers support both.

    https://github.com/ray-project/kuberay/pull/4962
    """
    if _has_kuberay_pod_group(cluster) and cluster.autoscaling:
        message = "no effect, as the cluster autoscales: remove it, or enableInTreeAutoscaling"
        yield Fault(_label(cluster), message)


def gang_other_scheduler(cluster: ClusterSpec) -> Iterator[Fault]:
    """Gang scheduling by the Kubernetes scheduler together with settings for another scheduler.

    With the feature gate KubernetesWAS on, the operator runs no other batch scheduler, and all pods
    of a gang must have the same scheduler.

    https://github.com/ray-project/kuberay/pull/4962
    """
    if not _has_kuberay_pod_group(cluster):
        return
    for label in names.OTHER_SCHEDULER_LABELS:
        if label in cluster.labels:
            message = f"no effect beside {names.LABEL_GANG}: remove one of the two"
            yield Fault((cluster.meta / "labels").key(label), message)
    for group in cluster.every_group:
        field = group.pod / "schedulerName"
        if field.text not in ("", "default-scheduler"):
            problem = f"schedulerName is {shorten(field.text)}"
            yield Fault(field, f"{problem}, but {names.LABEL_GANG} needs default-scheduler")


def gang_label_value(cluster: ClusterSpec) -> Iterator[Fault]:
    """A value of the gang scheduling label that only some schedulers accept.

    The Kubernetes scheduler expects `true`; Yunikorn and scheduler-plugins enable gang scheduling
    for any value, even `false`.

    https://github.com/ray-project/kuberay/pull/4962
    """
    value = cluster.labels.get(names.LABEL_GANG)
    if value is not None and value.lower() != "true":
        message = f"{shorten(value)!r} is true for some schedulers only: write true, or remove it"
        yield Fault(_label(cluster), message, NOT_SUPPORTED)


def scheduling_group_in_template(cluster: ClusterSpec) -> Iterator[Fault]:
    """A scheduling group in a pod template.

    All pods of the group stay Pending until the PodGroup is created, and with gang scheduling by
    the feature gate KubernetesWAS KubeRay replaces the scheduling group.

    https://kubernetes.io/docs/concepts/scheduling-eviction/workload-aware-scheduling/
    """
    message = f"set by hand: use {names.ANNOTATION_SCHEDULING_GROUP} or {names.LABEL_GANG}"
    if _has_kuberay_pod_group(cluster):
        message = f"with {names.LABEL_GANG}, KubeRay sets schedulingGroup: remove it"
    elif _gang(cluster).active:
        annotation = _annotation(cluster).token
        message = f"schedulingGroup is set, so {annotation} has no effect: remove one"
    for group in cluster.every_group:
        field = group.pod / "schedulingGroup"
        if field.given:
            yield Fault(field, message)


def scheduling_group_obstacle(cluster: ClusterSpec) -> Iterator[Fault]:
    """A scheduling group whose preconditions are not met.

    The pods are scheduled one by one. The number of pods of an autoscaled cluster changes, so only
    replicas of several hosts and worker groups can be grouped, worker groups with their minimum
    number of pods; KubeRay and other schedulers create pod groups of their own; Kubernetes forbids
    a scheduling group together with `evictionResponders`; and a PodGroup whose pods differ in
    priority or scheduler is never scheduled.

    https://kubernetes.io/docs/concepts/scheduling-eviction/workload-aware-scheduling/
    """
    gang = _gang(cluster)
    if gang.unmet and gang.granularity in GRANULARITIES:
        yield Fault(_annotation(cluster), f"not grouped: {gang.unmet}")


def scheduling_group_not_served(cluster: ClusterSpec) -> Iterator[Fault]:
    """A scheduling group in a Kubernetes cluster whose API server serves no PodGroups.

    The API server silently drops the field from pods, and they are scheduled one by one.
    `ray-webhook validate` does not check this.

    https://kubernetes.io/docs/concepts/scheduling-eviction/workload-aware-scheduling/
    """
    if cluster.settings.pod_groups is False and _gang(cluster).active:
        message = (
            "no effect: the API server serves no PodGroups; turn on GenericWorkload and its API"
        )
        yield Fault(_annotation(cluster), message)


def _gang(cluster: ClusterSpec) -> Gang:
    """Return the gang that pod mutation derives from the same object."""
    if names.ANNOTATION_SCHEDULING_GROUP not in cluster.annotations:
        return NO_GANG
    templates = [_template(group) for group in cluster.every_group]
    return read_gang(
        cluster.annotations, cluster.labels, templates, autoscaling=cluster.autoscaling
    )


def _template(group: GroupSpec) -> TemplateSpec:
    pod = group.pod
    priority, scheduler = (pod / name for name in ("priorityClassName", "schedulerName"))
    return TemplateSpec(priority.text, scheduler.text, (pod / "evictionResponders").value)


def _annotation(cluster: ClusterSpec) -> Field:
    """Return the annotation that enables scheduling groups."""
    return cluster.annotation(names.ANNOTATION_SCHEDULING_GROUP)


def _has_kuberay_pod_group(cluster: ClusterSpec) -> bool:
    """Return whether KubeRay creates a PodGroup of Kubernetes, for which its gate must be on."""
    has_gang_label = cluster.labels.get(names.LABEL_GANG, "").lower() == "true"
    return has_gang_label and cluster.settings.enabled(_GATE)


def _label(cluster: ClusterSpec) -> Field:
    return (cluster.meta / "labels").key(names.LABEL_GANG)


_POD_SETS_MAX: Final = 18
"""Maximum pod sets of a Kueue Workload: head and worker groups.

https://github.com/kubernetes-sigs/kueue/blob/v0.19.0/pkg/controller/jobframework/constants.go
"""

_HEAD: Final = "head"
"""Kueue's name for the pod set of the head."""


def kueue_slices_missing(cluster: ClusterSpec) -> Iterator[Fault]:
    """A multi-host group of a queued cluster without annotations that keep the pods of a replica
    together.

    If the ResourceFlavor of the queue has a topology, Kueue may spread the hosts of one replica
    over the Kubernetes cluster; on a flavor without a topology, a Workload that requests a topology
    level is never admitted. Groups with `podset-required-topology` are exempt, because all their
    pods are kept together, and so are groups of 0 replicas: Kueue refuses a slice of more pods than
    the group has.

    https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
    """
    for group in _list_queued_groups(cluster):
        if not group.replicas or _has_slice_topology(group):
            continue
        if names.KUEUE_REQUIRED_TOPOLOGY not in group.annotations.strings:
            message = "where the queue's flavor has a topology: set this to a level of it"
            message += f", and podset-slice-size to {group.hosts}"
            yield Fault(group.annotations.key(names.KUEUE_SLICE_REQUIRED_TOPOLOGY), message)


def kueue_replicas_mixed(cluster: ClusterSpec) -> Iterator[Fault]:
    """Several multi-host replicas in one group of a queued cluster, each a slice of Kueue.

    Kueue assigns to each topology domain as many pods of the group as a slice has, but has no
    information about which pods form one replica, so hosts of two replicas may be exchanged. A
    separate group per replica prevents this.

    https://github.com/kubernetes-sigs/kueue/blob/v0.19.0/pkg/controller/jobs/raycluster/common.go
    (`BuildPodSets`)
    """
    for group in _list_queued_groups(cluster):
        replicas = group.scale.desired
        several = replicas > 1 and _has_slice_topology(group)
        if several and replicas * group.hosts > _slice_size(group):
            advice = "whose hosts Kueue may mix: use a group for each replica"
            yield Fault(group.field / "replicas", f"replicas is {replicas}, {advice}")


def kueue_slice_size(cluster: ClusterSpec) -> Iterator[Fault]:
    """A slice size for Kueue that splits replicas.

    Kueue keeps the pods of a slice in one topology domain. A slice that is not a whole number of
    replicas splits a replica. Without a queue, which Kueue may add, this is a warning.

    https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
    """
    for group in cluster.groups:
        field = group.annotations.key(names.KUEUE_SLICE_SIZE)
        if not field.given or group.hosts < 1:
            continue
        size = _slice_size(group)
        if size < 1 or size % group.hosts:
            size_text = shorten(field.text)
            message = f"{size_text!r}: write numOfHosts, which is {group.hosts}, or a multiple"
            yield Fault(field, message, doubtful=not cluster.kueue.queued)


def kueue_too_many_groups(cluster: ClusterSpec) -> Iterator[Fault]:
    """More worker groups than a Kueue Workload can have.

    Kueue refuses the cluster: a Workload has at most 18 pod sets, and the head is one. Before Kueue
    0.19 the maximum was 10.

    https://github.com/kubernetes-sigs/kueue/blob/v0.19.0/pkg/controller/jobs/raycluster/raycluster_webhook.go
    """
    field = cluster.field / "workerGroupSpecs"
    if cluster.kueue.queued and field.size >= _POD_SETS_MAX:
        most = _POD_SETS_MAX - 1
        message = (
            f"{field.size} worker groups: a Kueue workload contains at most {most} and the head"
        )
        yield Fault(field, message)


def kueue_group_named_head(cluster: ClusterSpec) -> Iterator[Fault]:
    """A worker group of a queued cluster with the name of Kueue's pod set of the head.

    Kueue refuses the cluster.

    https://github.com/kubernetes-sigs/kueue/blob/v0.19.0/pkg/controller/jobs/raycluster/raycluster_webhook.go
    """
    for group in cluster.groups if cluster.kueue.queued else ():
        if group.name == _HEAD:
            message = f"groupName is {_HEAD}, as Kueue calls the head's pods: use another name"
            yield Fault(group.field / "groupName", message, FORBIDDEN)


def kueue_autoscaling_not_elastic(cluster: ClusterSpec) -> Iterator[Fault]:
    """A queued cluster that autoscales and is no elastic job of Kueue.

    Kueue refuses the object: it reserves the resources of a cluster once. An elastic job, which
    Kueue resizes, needs the feature gate ElasticJobsViaWorkloadSlices, on by default since 0.18.

    https://github.com/kubernetes-sigs/kueue/blob/v0.19.0/pkg/controller/jobs/raycluster/raycluster_webhook.go
    """
    elastic = cluster.annotations.get(names.KUEUE_ELASTIC_JOB) == "true"
    if cluster.kueue.queued and cluster.autoscaling and not elastic:
        message = (
            f"Kueue refuses it without annotation {names.KUEUE_ELASTIC_JOB}: add it, or write false"
        )
        yield Fault(cluster.field / "enableInTreeAutoscaling", message, FORBIDDEN)


def kueue_job_not_shut_down(job: Job) -> Iterator[Fault]:
    """A queued RayJob whose cluster stays after the job has finished, or that names an existing
    cluster beside its own.

    Kueue refuses the RayJob: the cluster would hold the resources of the queue, or have none. A
    RayJob with a selector alone is accepted since Kueue 0.15.

    https://github.com/kubernetes-sigs/kueue/blob/v0.19.0/pkg/controller/jobs/rayjob/rayjob_webhook.go
    """
    if job.cluster is None or not job.cluster.kueue.queued:
        return
    if job.selects:
        message = "Kueue refuses a selector beside rayClusterSpec: remove one of the two"
        yield Fault(job.selector, message, FORBIDDEN)
    elif not job.shutdown:
        field = job.field / "shutdownAfterJobFinishes"
        yield Fault(field, "Kueue refuses a RayJob that keeps its cluster: write true", REQUIRED)


def _list_queued_groups(cluster: ClusterSpec) -> list[GroupSpec]:
    """Return the groups of several hosts of a queued cluster."""
    return [group for group in cluster.groups if cluster.kueue.queued and group.hosts > 1]


def _has_slice_topology(group: GroupSpec) -> bool:
    """Return whether Kueue has the topology level that keeps the pods of a slice together."""
    levels = (names.KUEUE_SLICE_REQUIRED_TOPOLOGY, names.KUEUE_SLICE_CONSTRAINTS)
    return any(level in group.annotations.strings for level in levels)


def _slice_size(group: GroupSpec) -> int:
    """Return the pods of a slice: those of a replica unless an annotation gives a number, 0 if the
    annotation is not a number.
    """
    field = group.annotations.key(names.KUEUE_SLICE_SIZE)
    size_text = field.text if field.given else str(group.hosts)
    return read_number(size_text.lstrip("0"), INT32[1]) or 0


def compute_domain_not_kept(cluster: ClusterSpec) -> Iterator[Fault]:
    """A ComputeDomain in a Kubernetes cluster where ComputeDomains are not managed.

    Pods are created without the claim, and NCCL falls back to the network. `ray-webhook validate`
    does not check this.

    https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-cds.html
    """
    if cluster.settings.no_domains and _unit(cluster):
        yield Fault(_domain(cluster), f"no effect: {cluster.settings.no_domains}")


def compute_domain_head_outside(cluster: ClusterSpec) -> Iterator[Fault]:
    """A head with GPUs in a cluster whose workers are in ComputeDomains.

    The GPUs of the head do not share memory with those of the workers, and work that spans both
    falls back to the network.

    https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-cds.html
    """
    if _unit(cluster) not in ("", CLUSTER) and cluster.head.has_gpus:
        message = "the head has GPUs and is outside: write cluster, or take the GPUs from the head"
        yield Fault(_domain(cluster), message)


def compute_domain_claimed(cluster: ClusterSpec) -> Iterator[Fault]:
    """A claim of a ComputeDomain in a template, together with the annotation that adds one.

    A node is in one ComputeDomain at a time, so such pods keep their own claim and get no other.

    https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-cds.html
    """
    for group in cluster.every_group if _unit(cluster) else ():
        if has_own(group.claims):
            message = f"claims a ComputeDomain already: remove it or {COMPUTE_DOMAIN.annotation}"
            yield Fault(group.pod / "resourceClaims", message)


def compute_domain_shared_node(cluster: ClusterSpec) -> Iterator[Fault]:
    """Pods of a ComputeDomain that must share a node.

    A node is in one ComputeDomain at a time and has one channel for one pod, so the webhook places
    these pods on separate nodes. With an affinity for the same node, they stay Pending.

    https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/dra-cds.html
    """
    for group in cluster.groups if _unit(cluster) else ():
        field = group.pod / "affinity" / "podAffinity"
        for term in (field / "requiredDuringSchedulingIgnoredDuringExecution").items():
            key = term / "topologyKey"
            if key.text == names.LABEL_HOSTNAME and group.has_gpus:
                yield Fault(key, "pods of a ComputeDomain never share a node: remove this term")


def _unit(cluster: ClusterSpec) -> str:
    value = COMPUTE_DOMAIN.read(cluster.annotations)
    return "" if COMPUTE_DOMAIN.problem(value) else value


def _domain(cluster: ClusterSpec) -> Field:
    return cluster.annotation(COMPUTE_DOMAIN.annotation)


def node_label_not_allowed(cluster: ClusterSpec) -> Iterator[Fault]:
    """A Node label that the webhook is not configured to copy.

    Ray nodes start without the label, and placement groups that need it find no node. `ray-webhook
    validate` does not check this.

    https://docs.ray.io/en/latest/ray-core/scheduling/labels.html
    """
    allowed = cluster.settings.node_labels
    for node_label in read_pairs(NODE_LABELS.read(cluster.annotations)):
        if allowed is not None and node_label.node not in allowed:
            message = (
                f"{shorten(node_label.node)} is not passed on: add it to the webhook's node labels"
            )
            yield Fault(cluster.annotation(NODE_LABELS.annotation), message)
