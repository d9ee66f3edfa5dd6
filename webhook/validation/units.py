"""Rules of units (worker groups that are one job) and of annotations without effect."""

from collections.abc import Callable, Iterator
from typing import Any, Final

from webhook.accelerators import profiles
from webhook.accelerators.devices import DEVICES, TPU
from webhook.api import names
from webhook.groups.annotations import (
    CLUSTER,
    COMPUTE_DOMAIN,
    DRAIN_SECONDS,
    HOST_NAMES,
    KUEUE_SLICES,
    NODE_LABELS,
    PROFILES,
    REPAIR,
    REPLICA,
    REPLICA_LABEL,
    RESTART,
    SCHEDULING_GROUP,
    SHARD_COUNT,
    SHARD_GROUP,
    SHARD_INDEX,
    TOPOLOGY_KEY,
    UNIT,
    WORKER_GROUP,
    OptIn,
    is_unit,
)
from webhook.validation.change import Update
from webhook.validation.cluster import Cluster, Group
from webhook.validation.field import at
from webhook.validation.finding import Fault


def unit_autoscaled(cluster: Cluster) -> Iterator[Fault]:
    """A worker group that is one job, and autoscales.

    Each pod receives the number of hosts of its unit on creation, and a job does not start if its
    pods have different numbers.

    https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    for group in cluster.groups if cluster.autoscaling else ():
        low, high = group.scale.min_replicas or 0, group.scale.max_replicas
        if group.is_unit and low != high:
            problem = f"group {group.name[:40]} is one job of a fixed size"
            text = f"{problem}: set minReplicas and maxReplicas equal"
            yield Fault(group.field / "minReplicas", text)


def annotation_without_effect(cluster: Cluster) -> Iterator[Fault]:
    """An annotation of the webhook that applies to no pod of the object.

    The value is valid, but no worker group is of the required kind, or the object is in no shard
    group or queue of Kueue, so all pods start without the effect of the annotation.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/
    """
    for row, why in _EFFECTS if cluster.groups else ():
        text = cluster.annotations.get(row.annotation, "")
        if text and not row.problem(text) and (reason := why(cluster, text)):
            yield Fault(cluster.annotation(row.annotation), f"no effect: {reason}")


_SEVERAL: Final = f"no unit has several hosts: set numOfHosts, or {UNIT.annotation} {WORKER_GROUP}"


def _no_unit(cluster: Cluster, text: str) -> str:
    units = UNIT.read({UNIT.annotation: text})
    known = {group.name for group in cluster.groups}
    unknown = [name for name, _ in units if name and name not in known]
    if unknown:
        return f"there is no group {unknown[0][:40]}: correct its name"
    asked = [group for group in cluster.groups if is_unit(units, group.name)]
    if asked and all(group.count(TPU) for group in asked):
        return "the unit of TPU slices is the replica: remove it"
    if asked and all(group.hosts * group.scale.desired == 1 for group in asked):
        return "no group has several pods: set replicas"
    return ""


def _no_host_names(cluster: Cluster, text: str) -> str:
    single = any(group.hosts <= 1 for group in cluster.groups)
    return "" if single or text != "true" else "all hosts have names, as numOfHosts is above 1"


def _no_several(cluster: Cluster, text: str) -> str:
    several = any(map(_has_several, cluster.groups))
    return "" if several or text == "false" else _SEVERAL


def _no_repair(cluster: Cluster, text: str) -> str:
    if cluster.settings.repairs is False and text != "false":
        return "repair is off: add repair to the setting installation.components"
    return _no_several(cluster, text)


def _no_pod_group(cluster: Cluster, text: str) -> str:
    return _no_several(cluster, text) if text == REPLICA else ""


def _no_profile(cluster: Cluster, text: str) -> str:
    rendezvous = [device for device in DEVICES if device.rendezvous]
    groups = [group for group in cluster.groups if any(map(group.count, rendezvous))]
    for name in PROFILES.read({PROFILES.annotation: text}):
        profile = profiles.BY_NAME.get(name)
        if profile is None:
            continue
        if profile.of_slice:
            if not any(group.count(TPU) for group in cluster.groups):
                return f"profile {name} is for TPUs, and no group asks for any"
        elif not groups:
            return f"profile {name} is for GPUs, and no group asks for any"
        elif not any(map(_has_several, groups)):
            return _SEVERAL
    return ""


def _has_several(group: Group) -> bool:
    return group.hosts > 1 or group.is_unit


def _own_labels(cluster: Cluster, text: str) -> str:
    override = names.RAY_OVERRIDE_LABELS
    own = all(group.first.sets(override) for group in cluster.groups)
    return f"all templates set {override}" if own and text != "false" else ""


def _own_drain(cluster: Cluster, text: str) -> str:
    name = names.RAY_DRAIN_TIMEOUT
    off = all(group.first.literal(name) == "0" for group in cluster.groups)
    return f"all templates set {name} to 0" if off and text != "0" else ""


def _no_domain(cluster: Cluster, text: str) -> str:
    with_gpus = [group for group in cluster.groups if group.has_gpus]
    if text == CLUSTER and cluster.head.has_gpus:
        return ""
    if not with_gpus:
        return "no worker group has GPUs or resource claims"
    if text == REPLICA and all(group.hosts == 1 for group in with_gpus):
        return "groups with GPUs have one host: write worker-group, or set numOfHosts"
    return ""


def _no_slices(cluster: Cluster, _: str) -> str:
    if cluster.kueue.slices and all(group.hosts <= 1 for group in cluster.groups):
        return "no replica has several hosts: set numOfHosts, or remove it"
    return cluster.kueue.unmet


def _no_shards(cluster: Cluster, _: str) -> str:
    alone = not cluster.annotations.get(SHARD_GROUP.annotation)
    return f"{SHARD_GROUP.annotation} is not set: add it, or remove this" if alone else ""


def _no_index(cluster: Cluster, text: str) -> str:
    return "" if cluster.owner else _no_shards(cluster, text)


_Effect = tuple[OptIn[Any], Callable[[Cluster, str], str]]

_OF_PODS: Final[tuple[_Effect, ...]] = (
    (UNIT, _no_unit),
    (HOST_NAMES, _no_host_names),
    (TOPOLOGY_KEY, _no_several),
    (PROFILES, _no_profile),
    (SCHEDULING_GROUP, _no_pod_group),
    (REPAIR, _no_repair),
    (RESTART, _no_repair),
    (REPLICA_LABEL, _own_labels),
    (NODE_LABELS, _own_labels),
    (DRAIN_SECONDS, _own_drain),
)
"""Opt-ins that take effect when pods are created."""
_EFFECTS: Final = (
    *_OF_PODS,
    (COMPUTE_DOMAIN, _no_domain),
    (KUEUE_SLICES, _no_slices),
    (SHARD_INDEX, _no_index),
    (SHARD_COUNT, _no_shards),
)
"""By annotation, the reason why it applies to no pod."""


def has_units(value: object) -> bool:
    """Return whether an object has the annotation of units."""
    return at(value, "metadata", "annotations", UNIT.annotation) is not None


def unit_resized(update: Update) -> Iterator[Fault]:
    """Another number of replicas of a worker group that is one job and has running pods.

    Variables of running pods cannot change: running pods keep the number of hosts that they were
    created with, and only new pods have the new number.

    https://docs.pytorch.org/docs/stable/elastic/run.html
    """
    for old, new in update.pairs():
        before, after = old.scale.desired, new.scale.desired
        if new.is_unit and old.is_unit and 0 < before != after > 0:
            running = f"{min(before, after)} running pods of group {new.name[:20]}"
            text = f"{running} keep NNODES={old.unit_hosts}: delete them all"
            yield Fault(new.field / "replicas", text)


def annotation_for_new_pods(update: Update) -> Iterator[Fault]:
    """An annotation of the webhook that was added or changed on a RayCluster with running pods.

    The annotation takes effect on pods when they are created; existing pods are not changed.

    https://kubernetes.io/docs/concepts/workloads/pods/#pod-update-and-replacement
    """
    running = any(group.scale.desired for group in update.old.groups)
    if not (update.standalone and running):
        return
    changed = [
        row.annotation
        for row, _ in _OF_PODS
        if row.read(update.old.annotations) != row.read(update.new.annotations)
        and update.new.annotations.get(row.annotation)
    ]
    if changed:
        more = f", as {len(changed) - 1} more do" if len(changed) > 1 else ""
        text = f"applies to pods that are created from now on{more}: delete those that run"
        yield Fault(update.new.annotation(changed[0]), text)
