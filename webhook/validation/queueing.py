"""Rules of Kueue: clusters that it refuses, and slices that keep hosts of a replica together."""

from collections.abc import Iterator
from typing import Final

from webhook.api import names
from webhook.api.review import FORBIDDEN
from webhook.groups.annotations import KUEUE_SLICES
from webhook.validation.cluster import Cluster, Group
from webhook.validation.finding import Fault
from webhook.validation.rule import deny, warn

_POD_SETS_MAX: Final = 18
"""Maximum pod sets of a Kueue Workload: head and worker groups.

https://github.com/kubernetes-sigs/kueue/blob/v0.19.0/pkg/controller/jobframework/constants.go
"""

_HEAD: Final = "head"
"""Kueue's name for the pod set of the head."""


def kueue_slices_missing(cluster: Cluster) -> Iterator[Fault]:
    """A multi-host group of a queued cluster without annotations that keep the pods of a replica
    together.

    If the ResourceFlavor of the queue has a topology, Kueue may spread the hosts of one replica
    over the Kubernetes cluster; on a flavor without a topology, a Workload that requests a topology
    level is never admitted. Groups with `podset-required-topology` are exempt, because all their
    pods are kept together, and so are groups of 0 replicas: Kueue refuses a slice of more pods than
    the group has.

    https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
    """
    for group in cluster.groups if cluster.kueue.queued else ():
        together = names.KUEUE_REQUIRED_TOPOLOGY in group.annotations.strings
        if group.hosts > 1 and group.replicas and not (together or _sliced(cluster, group)):
            text = (
                "where the queue's flavor has a topology: set this to a level of it, and "
                f"podset-slice-size to {group.hosts}"
            )
            yield Fault(group.annotations.key(names.KUEUE_SLICE_REQUIRED_TOPOLOGY), text)


def kueue_slices_without_effect(cluster: Cluster) -> Iterator[Fault]:
    """An annotation that adds Kueue slices to an object whose templates Kueue does not read.

    Kueue reads the templates of queued objects only: not those of a RayCluster without a queue, and
    those of a RayJob or RayService before their RayCluster exists.

    https://kueue.sigs.k8s.io/docs/tasks/run/rayclusters/
    """
    if cluster.kueue.unmet:
        yield Fault(cluster.annotation(KUEUE_SLICES.annotation), cluster.kueue.unmet)


def kueue_replicas_mixed(cluster: Cluster) -> Iterator[Fault]:
    """Several multi-host replicas in one group of a queued cluster, each a slice of Kueue.

    Kueue assigns to each topology domain as many pods of the group as a slice has, but has no
    information about which pods form one replica, so hosts of two replicas may be exchanged. A
    separate group per replica prevents this.

    https://github.com/kubernetes-sigs/kueue/blob/v0.19.0/pkg/controller/jobs/raycluster/common.go
    (`BuildPodSets`)
    """
    for group in cluster.groups if cluster.kueue.queued else ():
        replicas = group.scale.desired
        several = group.hosts > 1 and replicas > 1 and _sliced(cluster, group)
        if several and replicas * group.hosts > _slice_size(group):
            text = (
                f"replicas is {replicas}, whose hosts Kueue may mix: use a group for each replica"
            )
            yield Fault(group.field / "replicas", text)


def kueue_slice_size(cluster: Cluster) -> Iterator[Fault]:
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
            yield Fault(
                field,
                f"{field.text[:20]!r}: write numOfHosts, which is {group.hosts}, or a multiple",
                doubtful=not cluster.kueue.queued,
            )


def kueue_too_many_groups(cluster: Cluster) -> Iterator[Fault]:
    """More worker groups than a Kueue Workload can have.

    Kueue refuses the cluster: a Workload has at most 18 pod sets, and the head is one. Before Kueue
    0.19 the maximum was 10.

    https://github.com/kubernetes-sigs/kueue/blob/v0.19.0/pkg/controller/jobs/raycluster/raycluster_webhook.go
    """
    field = cluster.field / "workerGroupSpecs"
    if cluster.kueue.queued and field.size >= _POD_SETS_MAX:
        most = _POD_SETS_MAX - 1
        yield Fault(
            field,
            f"{field.size} worker groups: a Kueue workload contains at most {most} and the head",
        )


def kueue_group_named_head(cluster: Cluster) -> Iterator[Fault]:
    """A worker group of a queued cluster with the name of Kueue's pod set of the head.

    Kueue refuses the cluster.

    https://github.com/kubernetes-sigs/kueue/blob/v0.19.0/pkg/controller/jobs/raycluster/raycluster_webhook.go
    """
    for group in cluster.groups if cluster.kueue.queued else ():
        if group.name == _HEAD:
            yield Fault(
                group.field / "groupName",
                f"groupName is {_HEAD}, as Kueue calls the head's pods: use another name",
                FORBIDDEN,
            )


def _sliced(cluster: Cluster, group: Group) -> bool:
    """Return whether Kueue has the topology level that keeps the pods of a slice together."""
    return cluster.kueue.slices or bool(
        group.annotations.strings.keys()
        & {names.KUEUE_SLICE_REQUIRED_TOPOLOGY, names.KUEUE_SLICE_CONSTRAINTS}
    )


def _slice_size(group: Group) -> int:
    """Return the pods of a slice: those of a replica unless an annotation gives a number, 0 if the
    annotation is not a number.
    """
    field = group.annotations.key(names.KUEUE_SLICE_SIZE)
    text = field.text if field.given else str(group.hosts)
    return int(text) if text.isascii() and text.isdigit() and len(text) < len(str(2**31)) else 0


QUEUEING: Final = (
    warn(kueue_slices_missing),
    warn(kueue_slices_without_effect),
    warn(kueue_replicas_mixed),
    deny(kueue_slice_size),
    warn(kueue_too_many_groups),
    deny(kueue_group_named_head),
)
