"""Rules of the annotations of the webhook: those without effect, and those for new pods."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from webhook.accelerators.devices import TPU
from webhook.api import names
from webhook.groups.annotations import (
    ALL,
    CLUSTER,
    COMPUTE_DOMAIN,
    DRAIN_SECONDS,
    HEADS,
    KEEP_NODES,
    NODE_LABELS,
    PROFILES,
    REPAIR,
    REPLICA,
    REPLICA_LABEL,
    REPLICAS,
    RESTART,
    SCHEDULING_GROUP,
    SHARD_COUNT,
    SHARD_GROUP,
    SHARD_INDEX,
    TOPOLOGY_KEY,
    OptIn,
)
from webhook.validation.change import Update
from webhook.validation.cluster import ClusterSpec
from webhook.validation.finding import Fault


def annotation_without_effect(cluster: ClusterSpec) -> Iterator[Fault]:
    """An annotation of the webhook that applies to no pod of the object.

    The value is valid, but no worker group is of the required kind, or the object is in no shard
    group or queue of Kueue, so all pods start without the effect of the annotation.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/
    """
    for row, why in _EFFECTS if cluster.groups else ():
        value = cluster.annotations.get(row.annotation, "")
        if not value or row.problem(value, cluster.settings.profiles):
            continue
        if reason := why(cluster, value):
            yield Fault(cluster.annotation(row.annotation), f"no effect: {reason}")


_SEVERAL: Final = "no group has several hosts: set numOfHosts"


def _no_several(cluster: ClusterSpec, text: str) -> str:
    several = any(group.hosts > 1 for group in cluster.groups)
    return "" if several or text == "false" else _SEVERAL


def _no_repair(cluster: ClusterSpec, text: str) -> str:
    if cluster.settings.repairs is False and text != "false":
        return "repair is off: add repair to the setting installation.components"
    return _no_several(cluster, text)


def _no_pod_group(cluster: ClusterSpec, text: str) -> str:
    return _no_several(cluster, text) if text == REPLICA else ""


def _no_profile(cluster: ClusterSpec, text: str) -> str:
    groups = [group for group in cluster.groups if group.rendezvous]
    chosen = PROFILES.read({PROFILES.annotation: text})
    for profile in cluster.settings.profiles:
        if profile.name not in chosen:
            continue
        if profile.of_slice:
            if not any(group.count(TPU) for group in cluster.groups):
                return f"profile {profile.name} is for TPUs, and no group asks for any"
        elif not groups:
            return f"profile {profile.name} is for GPUs, and no group asks for any"
        elif all(group.hosts == 1 for group in groups):
            return _SEVERAL
    return ""


def _own_labels(cluster: ClusterSpec, text: str) -> str:
    override = names.RAY_OVERRIDE_LABELS
    is_overridden = all(group.first.sets(override) for group in cluster.groups)
    return f"all templates set {override}" if is_overridden and text != "false" else ""


def _own_drain(cluster: ClusterSpec, text: str) -> str:
    name = names.RAY_DRAIN_TIMEOUT
    off = all(group.first.literal(name) == "0" for group in cluster.groups)
    return f"all templates set {name} to 0" if off and text != "0" else ""


def _no_kept(cluster: ClusterSpec, text: str) -> str:
    head = "" if not cluster.gcs_fault_tolerant else "the head's GCS is fault tolerant"
    replicas = "" if any(group.hosts > 1 for group in cluster.groups) else _SEVERAL
    return {HEADS: head, REPLICAS: replicas, ALL: head and replicas}.get(text, "")


def _no_domain(cluster: ClusterSpec, text: str) -> str:
    with_gpus = [group for group in cluster.groups if group.has_gpus]
    if text == CLUSTER and cluster.head.has_gpus:
        return ""
    if not with_gpus:
        return "no worker group has GPUs or resource claims"
    if text == REPLICA and all(group.hosts == 1 for group in with_gpus):
        return "groups with GPUs have one host: write worker-group, or set numOfHosts"
    return ""


def _no_shards(cluster: ClusterSpec, _: str) -> str:
    alone = not cluster.annotations.get(SHARD_GROUP.annotation)
    return f"{SHARD_GROUP.annotation} is not set: add it, or remove this" if alone else ""


def _no_index(cluster: ClusterSpec, text: str) -> str:
    return "" if cluster.owner else _no_shards(cluster, text)


_Effect = tuple[OptIn[Any], Callable[[ClusterSpec, str], str]]

_OF_PODS: Final[tuple[_Effect, ...]] = (
    (TOPOLOGY_KEY, _no_several),
    (PROFILES, _no_profile),
    (SCHEDULING_GROUP, _no_pod_group),
    (REPAIR, _no_repair),
    (RESTART, _no_repair),
    (REPLICA_LABEL, _own_labels),
    (NODE_LABELS, _own_labels),
    (DRAIN_SECONDS, _own_drain),
    (KEEP_NODES, _no_kept),
)
"""Opt-ins that take effect when pods are created."""
_EFFECTS: Final = (
    *_OF_PODS,
    (COMPUTE_DOMAIN, _no_domain),
    (SHARD_INDEX, _no_index),
    (SHARD_COUNT, _no_shards),
)
"""By annotation, the reason why it applies to no pod."""


def annotation_for_new_pods(update: Update) -> Iterator[Fault]:
    """An annotation of the webhook that was added or changed on a RayCluster with running pods.

    The annotation takes effect on pods when they are created; existing pods are not changed.

    https://kubernetes.io/docs/concepts/workloads/pods/#pod-update-and-replacement
    """
    running = any(group.scale.desired for group in update.old.groups)
    if not (update.standalone and running):
        return
    for row, _ in _OF_PODS:
        old_values, new_values = (cluster.annotations for cluster in (update.old, update.new))
        if row.read(old_values) != row.read(new_values) and new_values.get(row.annotation):
            message = "applies to pods that are created from now on: delete those that run"
            yield Fault(update.new.annotation(row.annotation), message)
