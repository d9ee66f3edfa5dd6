"""Rules of shard groups: RayClusters of a group have an index each, which the webhook writes on
creation.
"""

from collections.abc import Iterator
from typing import Final

from webhook.api import names
from webhook.api.review import FORBIDDEN
from webhook.groups.annotations import SHARD_COUNT, SHARD_GROUP, SHARD_INDEX, read_count, read_index
from webhook.validation.change import Update
from webhook.validation.finding import Fault
from webhook.validation.ray_object import RayObject

_COPIED: Final = (names.RAYJOB_KIND, names.RAYSERVICE_KIND)
"""Kinds whose annotations KubeRay copies to the RayClusters that it creates for them."""


def shard_index_beyond_count(ray_object: RayObject) -> Iterator[Fault]:
    """A shard index that is not below the number of shards.

    A program that distributes work by the number of shards never uses this shard.

    https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
    """
    field = ray_object.annotation(SHARD_INDEX.annotation)
    index = read_index(field.text.strip())
    count = read_count(ray_object.annotation(SHARD_COUNT.annotation).text.strip())
    if index is not None and count is not None and index >= count:
        yield Fault(field, f"{index}, but shard-count is {count}: lower it, or raise the other")


def shard_index_copied(ray_object: RayObject) -> Iterator[Fault]:
    """A shard index on a RayJob or RayService.

    KubeRay copies annotations to every RayCluster that it creates for the object. Two exist during
    an upgrade, and the second one would be refused because its index is in use.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/rayservice_controller.go
    """
    field = ray_object.annotation(names.ANNOTATION_SHARD_INDEX)
    if ray_object.kind in _COPIED and field.given:
        message = f"each cluster of a {ray_object.kind} gets its own index: remove the annotation"
        yield Fault(field, message, FORBIDDEN)


def shard_index_changed(update: Update) -> Iterator[Fault]:
    """Another shard index for a RayCluster that stays in its shard group.

    Its pods keep the previous index.

    https://kubernetes.io/docs/concepts/workloads/pods/#pod-update-and-replacement
    """
    old, new = update.old.annotations, update.new.annotations
    group, index = SHARD_GROUP.read(old), SHARD_INDEX.read(old)
    stays = update.service is None and group and SHARD_GROUP.read(new) == group
    field = update.new.annotation(names.ANNOTATION_SHARD_INDEX)
    if stays and read_index(index) is not None and field.given and SHARD_INDEX.read(new) != index:
        message = f"immutable: write {index} again, or remove the annotation from your manifest"
        yield Fault(field, message, FORBIDDEN)
