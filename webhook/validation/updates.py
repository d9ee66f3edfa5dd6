"""Rules of upgrade strategies, and of updates of a running cluster that are allowed but have
unexpected effects.
"""

from collections.abc import Iterator
from typing import Any, Final

from webhook.api import names
from webhook.api.formats import shorten
from webhook.api.review import FORBIDDEN, NOT_SUPPORTED
from webhook.validation.change import (
    INCREMENTAL,
    NONE,
    QUEUED_TEMPLATE,
    RECREATE,
    ROLLOUT,
    Update,
    same,
)
from webhook.validation.cluster import ClusterSpec
from webhook.validation.finding import Fault


def upgrade_strategy_unknown(cluster: ClusterSpec) -> Iterator[Fault]:
    """An unknown upgrade strategy.

    KubeRay refuses the whole RayCluster and creates no pods.
    """
    kind = cluster.field / "upgradeStrategy" / "type"
    if kind.given and kind.text not in (RECREATE, NONE):
        yield Fault(
            kind, f"{shorten(str(kind.value))!r}: write {RECREATE} or {NONE}", NOT_SUPPORTED
        )


def upgrade_strategy_not_own(cluster: ClusterSpec) -> Iterator[Fault]:
    """An upgrade strategy on a RayCluster that a RayJob or RayService owns.

    The owner decides when its cluster is replaced, so KubeRay refuses a cluster with its own
    strategy.
    """
    kind = cluster.field / "upgradeStrategy" / "type"
    if kind.given and cluster.owner in (names.RAYJOB_KIND, names.RAYSERVICE_KIND):
        message = f"the {cluster.owner} that owns this cluster replaces it: remove upgradeStrategy"
        yield Fault(kind, message, FORBIDDEN)


_STARTED_WITH: Final = ("template", "rayStartParams", "resources", "labels")
"""Fields of a group that its pods read only when they are created."""


def group_removed(update: Update) -> Iterator[Fault]:
    """A worker group removed or renamed.

    KubeRay no longer manages the group's pods, which continue to run, and Ray's autoscaler exits
    when it finds them. A group that was scaled to 0 before can be removed.

    https://github.com/ray-project/kuberay/issues/1739
    """
    if not update.in_place:
        return
    group_names = {group.name for group in update.new.groups}
    for group in update.old.groups:
        if group.name in group_names or not group.scale.desired:
            continue
        yield Fault(
            update.new.field / "workerGroupSpecs",
            f"pods of group {shorten(group.name)} keep running, unmanaged: scale it to 0 "
            "before you remove it",
        )


def group_reordered(update: Update) -> Iterator[Fault]:
    """Worker groups in another order while the cluster autoscales.

    The autoscaler patches replicas by the group's index in the list, so it may briefly scale the
    wrong group.

    https://github.com/ray-project/kuberay/issues/5143
    """
    if not update.old.autoscaling or update.service is not None:
        return
    # Reversed: of several groups with a name, the first counts, as in KubeRay.
    old_indices = {group.name: group.field.token for group in reversed(update.old.groups)}
    for group in update.new.groups:
        if group.name and old_indices.get(group.name, group.field.token) != group.field.token:
            yield Fault(
                group.field,
                f"group {shorten(group.name)} moved, and the autoscaler goes by index: add "
                "new groups at the end",
            )
            return


def num_of_hosts_changed(update: Update) -> Iterator[Fault]:
    """Another number of hosts for a group with running pods.

    With more hosts, KubeRay regards every replica as incomplete and deletes it; with fewer, old
    replicas keep all their hosts.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/raycluster_controller.go
    (`reconcileMultiHostWorkerGroup`)
    """
    for old, new in update.pairs():
        if old.scale.desired and new.hosts != old.hosts:
            more = new.hosts > old.hosts
            effect = "so KubeRay deletes every replica" if more else "which running replicas keep"
            message = f"numOfHosts was {old.hosts}, {effect}: add a new group instead"
            yield Fault(new.field / "numOfHosts", message)


def pods_stay_old(update: Update) -> Iterator[Fault]:
    """An edit of a group that does not change its running pods.

    KubeRay never compares pods with their template. Unless the upgrade strategy is Recreate, only
    new pods have the change.

    https://github.com/ray-project/kuberay/issues/4051
    """
    if not update.in_place:
        return
    # Kueue itself writes these fields when it admits the RayCluster.
    masks = {"template": QUEUED_TEMPLATE} if update.new.kueue.queued else {}
    for old, new in ((update.old.head, update.new.head), *update.pairs()):
        running = new is update.new.head or old.scale.desired > 0
        for name in _STARTED_WITH if running else ():
            field = new.field / name
            if not same((old.field / name).value, field.value, masks.get(name)):
                message = (
                    f"running pods do not change: use upgradeStrategy {RECREATE}, or a RayService"
                )
                yield Fault(field, message)
                break


def recreate_deletes_pods(update: Update) -> Iterator[Fault]:
    """An edit that makes KubeRay delete all pods of the cluster.

    The upgrade strategy is Recreate: the head and all workers are deleted, and running work is
    lost.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/raycluster_controller.go
    """
    if update.standalone and update.recreates and (changed := _list_changed_fields(update)):
        yield Fault(
            update.new.field / changed[0],
            f"all pods are deleted at once, by upgradeStrategy {RECREATE}: a RayService has no gap",
        )


def service_starts_new_cluster(update: Update) -> Iterator[Fault]:
    """An edit that makes a RayService start a second cluster.

    Both clusters run until the new one replaces the old one, and need capacity. Adding a group at
    the end, or changing replicas, does not start a new cluster.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/rayservice_controller.go
    """
    changed = new_cluster_fields(update)
    if update.service is None or not changed:
        return
    kind = (update.service / "upgradeStrategy" / "type").text
    message = "no effect: the upgradeStrategy of this RayService is None"
    if kind != NONE:
        grows = "grows step by step" if kind == INCREMENTAL else "starts at full size"
        message = f"a second cluster {grows} beside the old one: check that it fits"
    yield Fault(update.new.field / changed[0], message)


def new_cluster_fields(update: Update) -> list[str]:
    """Return the fields whose change makes a RayService start another RayCluster."""
    changed = _list_changed_fields(update) if update.service is not None else []
    return [] if changed == ["workerGroupSpecs"] and _is_append_only(update) else changed


def starts_second(update: Update | None) -> bool:
    """Return whether an update makes a RayService start a second RayCluster beside the old one."""
    if update is None or update.service is None or not new_cluster_fields(update):
        return False
    return (update.service / "upgradeStrategy" / "type").text != NONE


def _list_changed_fields(update: Update) -> list[str]:
    """Return the names of the fields whose change makes KubeRay replace pods or clusters."""
    old, new = (
        {**cluster.field.map, "workerGroupSpecs": _groups(cluster)}
        for cluster in (update.old, update.new)
    )
    every = sorted(old.keys() | new.keys())
    return [name for name in every if not same(old.get(name), new.get(name), ROLLOUT.get(name))]


def _is_append_only(update: Update) -> bool:
    """Return whether the only change of the worker groups is that groups were appended."""
    old, new = _groups(update.old), _groups(update.new)
    return len(new) > len(old) and same(old, new[: len(old)], ROLLOUT["workerGroupSpecs"])


def _groups(cluster: ClusterSpec) -> list[Any]:
    groups = (cluster.field / "workerGroupSpecs").value
    return groups if isinstance(groups, list) else []
