"""Differences of two versions of an object: which updates only scale or queue it, and the part of a
cluster that KubeRay compares.
"""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

from webhook.api import names
from webhook.validation.cluster import ClusterSpec, GroupSpec
from webhook.validation.field import Field, at
from webhook.validation.ray_object import RayObject

# Values of `upgradeStrategy.type`.
# https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/apis/ray/v1/rayservice_types.go
RECREATE: Final = "Recreate"
NEW_CLUSTER: Final = "NewCluster"
INCREMENTAL: Final = "NewClusterWithIncrementalUpgrade"
NONE: Final = "None"

_CLUSTER_AT: Final = {
    names.RAYCLUSTER_KIND: (),
    names.RAYJOB_KIND: ("rayClusterSpec",),
    names.RAYSERVICE_KIND: ("rayClusterConfig",),
    names.RAYCRONJOB_KIND: ("jobTemplate", "rayClusterSpec"),
}

Mask = Any
"""The fields that a comparison ignores: `IGNORED`, a map with a mask for each field, or a list with
the mask of its elements; None compares everything.
"""

IGNORED: Final = "ignored"
_REST: Final = "*"
"""The key of the mask of all fields that a map of masks does not name."""


def _ignore_fields(*fields: str) -> dict[str, Mask]:
    return dict.fromkeys(fields, IGNORED)


def _within(way: tuple[str, ...], mask: Mask, **others: Mask) -> Mask:
    """Return the mask of a spec whose cluster is at path `way`."""
    for name in reversed(way):
        mask = {**others, name: mask}
    return mask


_SCALED: Final = {
    kind: {
        "metadata": {**dict.fromkeys(("name", "labels", "annotations")), _REST: IGNORED},
        "spec": _within(way, {"workerGroupSpecs": [_ignore_fields("replicas", "scaleStrategy")]}),
        _REST: IGNORED,
    }
    for kind, way in _CLUSTER_AT.items()
}

QUEUED_TEMPLATE: Final = {
    "metadata": {
        "labels": {**dict.fromkeys(names.IDENTITY_LABELS), _REST: IGNORED},
        "annotations": IGNORED,
    },
    "spec": _ignore_fields("nodeSelector", "tolerations", "schedulingGates"),
}
"""The fields that Kueue writes into a template.

https://github.com/kubernetes-sigs/kueue/blob/v0.19.0/pkg/podset/podset.go
"""
_QUEUED_CLUSTER: Final = {
    "suspend": IGNORED,
    "headGroupSpec": {"template": QUEUED_TEMPLATE},
    "workerGroupSpecs": [{"template": QUEUED_TEMPLATE}],
}
_QUEUED: Final = {
    kind: {"spec": _within(way, _QUEUED_CLUSTER, suspend=IGNORED), _REST: IGNORED}
    for kind, way in _CLUSTER_AT.items()
}

_ROLLOUT_GROUP: Final = {
    **_ignore_fields("replicas", "minReplicas", "maxReplicas", "scaleStrategy"),
    "template": {"spec": _ignore_fields("tolerations", "schedulingGates")},
}
ROLLOUT: Final = {
    "upgradeStrategy": IGNORED,
    "headGroupSpec": _ROLLOUT_GROUP,
    "workerGroupSpecs": [_ROLLOUT_GROUP],
}
"""The fields of a RayCluster spec whose change does not make KubeRay replace pods or clusters.

https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/util.go
(`GenerateHashWithoutReplicasAndWorkersToDelete`)
"""


def same(old: object, new: object, mask: Mask) -> bool:
    """Return whether two values differ only in the fields that a mask ignores."""
    if mask is None or mask is IGNORED:
        return mask is IGNORED or old == new
    if isinstance(mask, list):
        if not isinstance(old, list) or not isinstance(new, list):
            return old == new
        return len(old) == len(new) and all(
            old_item == new_item or same(old_item, new_item, mask[0])
            for old_item, new_item in zip(old, new, strict=True)
        )
    old, new = {} if old is None else old, {} if new is None else new
    if not isinstance(old, dict) or not isinstance(new, dict):
        return old == new
    rest = mask.get(_REST)
    for key in mask if rest is IGNORED else old.keys() | new.keys():
        below = mask.get(key, rest)
        if below is IGNORED:
            continue
        old_value, new_value = old.get(key), new.get(key)
        if old_value != new_value if below is None else not same(old_value, new_value, below):
            return False
    return True


def only_scaled(kind: str, old: object, new: object) -> bool:
    """Return whether an update changes only numbers of replicas and the pods to delete, among the
    fields that rules read.

    Ray's autoscaler sends such updates constantly, and KubeRay sends updates that only change
    finalizers.
    """
    return same(old, new, _SCALED[kind])


def only_queued(kind: str, old: object, new: object) -> bool:
    """Return whether an update contains only the changes that Kueue makes when it admits or stops a
    queued object.

    Kueue changes `suspend` (of a RayService, that of its cluster) and the fields of templates that
    place pods. Kueue has admitted the object by then, and no user receives warnings.
    """
    # Anyone may change these fields; only of a queued object they are Kueue's.
    if not at(new, "metadata", "labels", names.LABEL_KUEUE_QUEUE):
        return False
    return _suspends(kind, old) != _suspends(kind, new) and same(old, new, _QUEUED[kind])


def _suspends(kind: str, value: object) -> list[bool]:
    """Return `suspend` of the spec and of each object on the path to its cluster."""
    way = ("spec", *_CLUSTER_AT[kind])
    return [at(value, *way[:depth], "suspend") is True for depth in range(1, len(way) + 1)]


def replicas_of(kind: str, value: object) -> list[Any]:
    """Return `replicas` of all worker groups of an object."""
    group_specs = at(value, "spec", *_CLUSTER_AT[kind], "workerGroupSpecs")
    groups = group_specs if isinstance(group_specs, list) else []
    return [group.get("replicas") for group in groups if isinstance(group, dict)]


class Update(Struct):
    """The two versions of a cluster, standalone or in a RayService."""

    old: ClusterSpec
    new: ClusterSpec
    service: Field | None

    @property
    def standalone(self) -> bool:
        """Return whether users edit this RayCluster directly, and its pods run."""
        return not self.new.owner and not _is_suspended(self.old) and not _is_suspended(self.new)

    @property
    def recreates(self) -> bool:
        return (self.new.field / "upgradeStrategy" / "type").text == RECREATE

    @property
    def in_place(self) -> bool:
        """Return whether the pods of a RayCluster that users edit directly keep running."""
        return self.standalone and not self.recreates

    def pairs(self) -> Iterator[tuple[GroupSpec, GroupSpec]]:
        """Yield the groups of both versions, matched by name, if their pods keep running."""
        old_groups = {group.name: group for group in reversed(self.old.groups)}
        groups = self.new.groups if self.in_place else []
        return ((old_groups[group.name], group) for group in groups if group.name in old_groups)


def read_update(old: RayObject, new: RayObject) -> Update | None:
    """Return the view of an update, or None if update rules do not apply: the cluster of a RayJob
    is not updated with its RayJob.
    """
    if old.cluster is None or new.cluster is None or new.job is not None:
        return None
    return Update(old.cluster, new.cluster, new.service.field if new.service else None)


def _is_suspended(cluster: ClusterSpec) -> bool:
    return (cluster.field / "suspend").flag
