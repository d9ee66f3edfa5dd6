"""Differences of two versions of an object: which updates only scale or queue it, and the part of a
cluster that KubeRay compares.
"""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from webhook.api import names
from webhook.validation.cluster import Cluster, Group
from webhook.validation.field import Field
from webhook.validation.ray_object import RayObject

# Values of `upgradeStrategy.type`.
# https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/apis/ray/v1/rayservice_types.go
RECREATE: Final = "Recreate"
NEW_CLUSTER: Final = "NewCluster"
INCREMENTAL: Final = "NewClusterWithIncrementalUpgrade"
NONE: Final = "None"

_ROLLOUT_FREE: Final = ("replicas", "minReplicas", "maxReplicas", "scaleStrategy")
_CLUSTER_AT: Final = {
    names.RAYCLUSTER_KIND: (),
    names.RAYJOB_KIND: ("rayClusterSpec",),
    names.RAYSERVICE_KIND: ("rayClusterConfig",),
    names.RAYCRONJOB_KIND: ("jobTemplate", "rayClusterSpec"),
}


def only_scaled(kind: str, old: object, new: object) -> bool:
    """Return whether an update changes only numbers of replicas and the pods to delete, among the
    fields that rules read.

    Ray's autoscaler sends such updates constantly, and KubeRay sends updates that only change
    finalizers.
    """
    if not isinstance(old, dict) or not isinstance(new, dict):
        return False
    before, after = old.get("metadata"), new.get("metadata")
    if not isinstance(before, dict) or not isinstance(after, dict):
        return False
    same = all(before.get(name) == after.get(name) for name in ("name", "labels", "annotations"))
    return same and _same(old.get("spec"), new.get("spec"), _CLUSTER_AT[kind])


def _same(old: object, new: object, way: tuple[str, ...]) -> bool:
    """Return whether two specs are equal except for the scale of the worker groups in the cluster
    at path `way`.
    """
    if not isinstance(old, dict) or not isinstance(new, dict):
        return old == new
    name = way[0] if way else "workerGroupSpecs"
    if old.keys() != new.keys() or any(key != name and old[key] != new[key] for key in old):
        return False
    before, after = old.get(name), new.get(name)
    return _same(before, after, way[1:]) if way else _same_groups(before, after)


def _same_groups(old: object, new: object) -> bool:
    if not isinstance(old, list) or not isinstance(new, list) or len(old) != len(new):
        return old == new
    return all(
        one == other or (type(one) is type(other) is dict and _unscaled(one) == _unscaled(other))
        for one, other in zip(old, new, strict=True)
    )


def _unscaled(group: dict[str, Any]) -> dict[str, Any]:
    return without(group, ("replicas", "scaleStrategy"))


def only_queued(kind: str, old: object, new: object) -> bool:
    """Return whether an update contains only the changes that Kueue makes when it admits or stops a
    queued object.

    Kueue changes `suspend` (of a RayService, that of its cluster) and the fields of templates that
    place pods. Kueue has admitted the object by then, and no user receives warnings.

    https://github.com/kubernetes-sigs/kueue/blob/v0.19.0/pkg/podset/podset.go
    """
    if not isinstance(old, dict) or not isinstance(new, dict) or not queued(new.get("metadata")):
        return False
    before, after, way = old.get("spec"), new.get("spec"), _CLUSTER_AT[kind]
    if not isinstance(before, dict) or not isinstance(after, dict):
        return False
    switched = _suspends(before, way) != _suspends(after, way)
    return switched and _unplaced(before, way) == _unplaced(after, way)


def _suspends(spec: object, way: tuple[str, ...]) -> list[bool]:
    """Return `suspend` of a spec and of each object on the path to its cluster."""
    if not isinstance(spec, dict):
        return []
    below = _suspends(spec.get(way[0]), way[1:]) if way else []
    return [spec.get("suspend") is True, *below]


def queued(metadata: object) -> bool:
    """Return whether an object is queued by Kueue, or was admitted by it."""
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return isinstance(labels, dict) and bool(labels.get(names.LABEL_KUEUE_QUEUE))


def _unplaced(spec: object, way: tuple[str, ...]) -> object:
    """Return a spec without `suspend` and without the fields that Kueue writes into the templates
    of the cluster at path `way`.
    """
    if not isinstance(spec, dict):
        return spec
    part = without(spec, ("suspend",))
    if way:
        return {**part, way[0]: _unplaced(part.get(way[0]), way[1:])}
    groups = part.get("workerGroupSpecs")
    if isinstance(groups, list):
        part["workerGroupSpecs"] = [_unplaced_group(group) for group in groups]
    return {**part, "headGroupSpec": _unplaced_group(part.get("headGroupSpec"))}


def _unplaced_group(group: object) -> object:
    return (
        {**group, "template": unplaced_template(group.get("template"))}
        if isinstance(group, dict)
        else group
    )


def unplaced_template(template: object) -> object:
    """Return a template without the fields that Kueue writes: labels other than those of
    identities, annotations, selectors, tolerations and scheduling gates.
    """
    if not isinstance(template, dict):
        return template
    part = dict(template)
    metadata, spec = part.pop("metadata", None), part.get("spec")
    if isinstance(metadata, dict):
        labels = metadata.get("labels")
        held = labels if isinstance(labels, dict) else {}
        rest = without(metadata, ("labels", "annotations"))
        if seat := {key: held[key] for key in names.SEAT_LABELS if key in held}:
            rest["labels"] = seat
        if rest:
            part["metadata"] = rest
    if isinstance(spec, dict):
        part["spec"] = without(spec, ("nodeSelector", "tolerations", "schedulingGates"))
    return part


def without(value: dict[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """Return a map without some of its keys."""
    return {key: item for key, item in value.items() if key not in keys}


def replicas_of(kind: str, value: Any) -> list[Any]:  # noqa: ANN401 - an object that may be garbage
    """Return `replicas` of all worker groups of an object."""
    held = value.get("spec")
    for name in _CLUSTER_AT[kind]:
        held = held.get(name) if isinstance(held, dict) else None
    groups = held.get("workerGroupSpecs") if isinstance(held, dict) else None
    listed = groups if isinstance(groups, list) else []
    return [group.get("replicas") for group in listed if isinstance(group, dict)]


def rollout_part(spec: object) -> dict[str, Any]:
    """Return the part of a RayCluster spec whose change makes KubeRay replace pods or clusters.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/util.go
    (`GenerateHashWithoutReplicasAndWorkersToDelete`)
    """
    if not isinstance(spec, dict):
        return {}
    part = without(spec, ("upgradeStrategy",))
    part["headGroupSpec"] = _rollout_group(spec.get("headGroupSpec"))
    groups = spec.get("workerGroupSpecs")
    part["workerGroupSpecs"] = (
        [_rollout_group(group) for group in groups] if isinstance(groups, list) else []
    )
    return part


def _rollout_group(group: object) -> object:
    if not isinstance(group, dict):
        return group
    part = without(group, _ROLLOUT_FREE)
    template = group.get("template")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        part["template"] = {
            **template,
            "spec": without(template["spec"], ("tolerations", "schedulingGates")),
        }
    return part


class Update(Struct):
    """The two versions of a cluster, standalone or in a RayService."""

    old: Cluster
    new: Cluster
    service: Field | None

    @property
    def standalone(self) -> bool:
        """Return whether users edit this RayCluster directly, and its pods run."""
        return not self.new.owner and not _suspended(self.old) and not _suspended(self.new)

    @property
    def recreates(self) -> bool:
        return (self.new.field / "upgradeStrategy" / "type").text == RECREATE

    def pairs(self) -> Iterator[tuple[Group, Group]]:
        """Yield the groups that exist in both versions, matched by name."""
        before = {group.name: group for group in reversed(self.old.groups)}
        return ((before[group.name], group) for group in self.new.groups if group.name in before)


def read_update(old: RayObject, new: RayObject) -> Update | None:
    """Return the view of an update, or None if update rules do not apply: the cluster of a RayJob
    is not updated with its RayJob.
    """
    if old.cluster is None or new.cluster is None or new.job is not None:
        return None
    return Update(old.cluster, new.cluster, new.service.field if new.service else None)


def _suspended(cluster: Cluster) -> bool:
    return (cluster.field / "suspend").flag
