"""Shards: a RayCluster that is of a shard group gets its index, which it keeps; every other RayCluster passes untouched."""

from base64 import b64encode
from typing import Final, Protocol

from webhook.admission.errors import BadReview
from webhook.groups.shards import INDEX_LIMIT, Holder, ShardKey, WantedIndex, read_index
from webhook.kube import names
from webhook.kube.objects import Bare, ObjectMeta
from webhook.kube.paths import pointer
from webhook.kube.review import ALLOWED, DUPLICATE, FORBIDDEN, INVALID, AdmissionRequest, Answer, Cause, Denied
from webhook.kube.shapes import LABEL_VALUE_ADVICE, LABEL_VALUE_MAX, is_label_value
from webhook.mutation.fold import Operation, encode

PATH: Final = pointer("metadata", "annotations", names.ANNOTATION_SHARD_INDEX)

_LATE: Final = "pods that are there already have no shard variables: they were created before"
_MOVED: Final = "pods that are there already keep the shard variables of the former shard group"


class IndexClaims(Protocol):
    """Gives the indices of shard groups. Deciding and recording are one call: no two RayClusters get one index."""

    async def claim(self, wanted: WantedIndex, now: float) -> int | Holder:
        """Take an index, or return who else has the given one."""

    def preview(self, wanted: WantedIndex, now: float) -> int | Holder:
        """Return what `claim` would, and take no index."""


class ShardHandler:
    """Answers reviews of RayClusters."""

    def __init__(self, claims: IndexClaims) -> None:
        self._claims = claims

    async def __call__(self, request: AdmissionRequest[Bare], now: float) -> Answer:
        """Return the answer. Raises Denied or BadReview. A dry run, and a RayCluster that is refused, hold no index."""
        if request.sub_resource or request.operation not in ("CREATE", "UPDATE"):
            return ALLOWED
        if request.object is None:
            msg = f"request.object is missing: a {request.operation} carries the RayCluster"
            raise BadReview(msg)
        new = request.object.metadata
        old = request.old_object.metadata if request.old_object and request.operation == "UPDATE" else ObjectMeta()
        group, index = _shard(new)
        if not group or new.deletion_timestamp or (new.labels or {}).get(names.LABEL_IGNORE) == "true":
            return ALLOWED
        before, kept = _shard(old)
        if group == before and index and index == kept:
            return ALLOWED
        if group == before and read_index(kept) is not None:
            return _kept(index, kept)
        if not is_label_value(group):
            if group == before:
                return ALLOWED
            raise Denied(_no_group(group))
        given = "" if before and index == kept else index
        return await self._told(request, ShardKey(request.namespace or new.namespace or "default", group), given, now)

    async def _told(self, request: AdmissionRequest[Bare], key: ShardKey, given: str, now: float) -> Answer:
        """Return the answer that gives an index, or trusts the given one, and remember it."""
        name = request.name or (request.object.metadata.name if request.object else "") or ""
        created = request.operation == "CREATE"
        wanted = WantedIndex(key, name, read_index(given) if given else None, created)
        if given and wanted.given is None:
            raise Denied(_no_index(given))
        index = self._claims.preview(wanted, now) if request.dry_run else await self._claims.claim(wanted, now)
        if isinstance(index, Holder):
            raise Denied(_taken(given, key.group, index.name))
        return Answer((), None if given else _written(str(index)), () if created else (_warning(request),))


def _shard(meta: ObjectMeta) -> tuple[str, str]:
    """Return shard group and shard index as written; nothing for what is not there."""
    annotations = meta.annotations or {}
    return annotations.get(names.ANNOTATION_SHARD_GROUP, ""), annotations.get(names.ANNOTATION_SHARD_INDEX, "")


def _kept(index: str, kept: str) -> Answer:
    """Return the answer that puts a lost index back: a PUT, or KubeRay's update for a RayService, drops it."""
    if not index:
        return Answer((), _written(kept))
    text = f"the shard index is immutable: write {kept} again, or remove the annotation from what you apply"
    raise Denied(Cause(FORBIDDEN, text, _field(names.ANNOTATION_SHARD_INDEX)))


def _written(index: str) -> bytes:
    # The annotation of the group is there, so `metadata.annotations` is.
    return b64encode(encode([Operation("add", PATH, index)]))


def _warning(request: AdmissionRequest[Bare]) -> str:
    former, current = (_shard(each.metadata)[0] if each else "" for each in (request.old_object, request.object))
    return _MOVED if former and former != current else _LATE


def _no_group(group: str) -> Cause:
    text = f"{group[:LABEL_VALUE_MAX]!r} cannot name a shard group: {LABEL_VALUE_ADVICE}"
    return Cause(INVALID, text, _field(names.ANNOTATION_SHARD_GROUP))


def _no_index(given: str) -> Cause:
    text = f"{given[:40]!r} is no shard index: remove the annotation to get one, or write a number from 0 to {INDEX_LIMIT - 1}"
    return Cause(INVALID, text, _field(names.ANNOTATION_SHARD_INDEX))


def _taken(index: str, group: str, holder: str) -> Cause:
    text = f"{holder} has index {index} of shard group {group}: remove the annotation, and the RayCluster gets a free one"
    return Cause(DUPLICATE, text, _field(names.ANNOTATION_SHARD_INDEX))


def _field(annotation: str) -> str:
    return f"metadata.annotations[{annotation}]"
