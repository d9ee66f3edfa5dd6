"""Shards: a RayCluster of a shard group is assigned an immutable index; every other RayCluster is
unchanged.

See docs/contributing/decisions/0015-shard-index-by-admission.md.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from webhook.api import names
from webhook.api.formats import pointer
from webhook.api.objects import Bare
from webhook.api.review import (
    ALLOWED,
    DUPLICATE,
    FORBIDDEN,
    INVALID,
    AdmissionRequest,
    Answer,
    BadReview,
    Cause,
    Denied,
)
from webhook.groups.annotations import (
    INDEX_LIMIT,
    RULE,
    SHARD_COUNT,
    SHARD_GROUP,
    SHARD_INDEX,
    OptIn,
    read_count,
    read_index,
)
from webhook.groups.group_config import ClusterIndex, RayClusterConfig
from webhook.groups.identity import HostIdentity, ShardKey
from webhook.groups.required_reads import Read, ReadClusters
from webhook.mutation.fold import Operation, encode
from webhook.reservation.allocation import Found, Request, Taken
from webhook.reservation.reservations import Reservations

PATH: Final = pointer("metadata", "annotations", SHARD_INDEX.annotation)

CREATING: Final = "a RayCluster that is being created"
"""The holder of an index that was assigned before the API server generated the name."""

_LATE: Final = "existing pods have no shard variables: they were created before"
_MOVED: Final = "existing pods keep the shard variables of the previous shard group"


class ShardHandler:
    """Answers reviews of RayClusters. If the response depends on others of a shard group, they are
    read again before a denial, and if the watch is stale.
    """

    def __init__(self, clusters: ClusterIndex, reservations: Reservations) -> None:
        self._clusters = clusters
        self._reservations = reservations

    async def __call__(
        self, request: AdmissionRequest[Bare], read: Sequence[Read] = ()
    ) -> Answer | ReadClusters:
        """Return the response, or the objects to read first, none of which is in `read`. Raises
        Denied or BadReview. A dry run, and a RayCluster that is denied, reserve no index.
        """
        namespace = "" if read or not self._clusters.watched else _depends_on(request)
        if namespace and not self._clusters.fresh(namespace, ""):
            return ReadClusters(namespace)
        try:
            return await self._answer(request)
        except Denied:
            if not namespace:
                raise
            return ReadClusters(namespace)

    async def _answer(self, request: AdmissionRequest[Bare]) -> Answer:
        """Return the response by the known state. Raises Denied or BadReview."""
        if request.sub_resource or request.operation not in ("CREATE", "UPDATE"):
            return ALLOWED
        if request.object is None:
            msg = f"request.object is missing: a {request.operation} carries the RayCluster"
            raise BadReview(msg)
        meta, new = request.object.metadata, _shard(request.object)
        old = _shard(request.old_object if request.operation == "UPDATE" else None)
        # While it is being deleted, only finalizers change, which must not fail.
        if not new.group or meta.deletion_timestamp or (new == old and new.index):
            return ALLOWED
        if SHARD_GROUP.problem(new.group):
            # An object that is stored must stay changeable, or its controllers could not act on it.
            if new.group == old.group:
                return ALLOWED
            raise _invalid(SHARD_GROUP, new.group)
        key = ShardKey(request.namespace or "default", new.group)
        return await self._assign_index(request, key, new, old)

    async def _assign_index(
        self, request: AdmissionRequest[Bare], key: ShardKey, new: "_Shard", old: "_Shard"
    ) -> Answer:
        """Return the response that assigns an index, accepts the given one, or keeps the old one.
        Raises Denied.
        """
        name, same = _name(request), new.group == old.group
        other_configs = [
            cluster_config
            for cluster_config in self._clusters.shards(key)
            if cluster_config.name != name
        ]
        warnings: tuple[str, ...] = ()
        if not same or new.count != old.count:
            least = read_index(old.index) if same else None
            warnings = _check_shard_count(
                other_configs, key, new.count, least, created=request.operation == "CREATE"
            )
        if same and new.index and new.index == old.index:
            return Answer((), None, warnings)
        if same and read_index(old.index) is not None:
            return _restore_index(new.index, old.index, warnings)
        given_index = "" if old.group and new.index == old.index else new.index
        count = read_count(new.count) or _largest(other_configs) or INDEX_LIMIT
        try:
            index = await self._reserve(request, key, count, given_index)
        except Denied as denied:
            # A RayCluster may have been created while no index could be assigned, and other
            # changes of it must not depend on that.
            if given_index or not same:
                raise
            return Answer((), None, (f"no index: {denied.causes[0].message}", *warnings))
        if request.operation == "UPDATE":
            warnings = (_MOVED if old.group and not same else _LATE, *warnings)
        return Answer((), None if given_index else _build_index_patch(str(index)), warnings)

    async def _reserve(
        self, request: AdmissionRequest[Bare], key: ShardKey, count: int, given: str
    ) -> int:
        """Return a free index, or the given one, and record it. Raises Denied."""
        index = read_index(given)
        if given and index is None:
            raise _invalid(SHARD_INDEX, given)
        identity = None if index is None else HostIdentity(index, 0, "")
        index_request = Request(
            _name(request), key, hosts=1, desired=count, uid=request.uid, given=identity
        )

        def accept(found: Found, _: int) -> int:
            if found.index >= count and given:
                raise _above_count(found.index, count)
            if found.index >= count:
                message = (
                    f"shard group {key.group} has {count} shards, and each has its RayCluster: "
                    "raise shard-count in this RayCluster first, or delete another one"
                )
                raise _build_denial(FORBIDDEN, SHARD_COUNT, message)
            if isinstance(found, Taken):
                message = (
                    f"{found.holder or CREATING} has index {given} of shard group {key.group}: "
                    "remove the annotation, and the RayCluster gets a free one"
                )
                raise _build_denial(DUPLICATE, SHARD_INDEX, message)
            return found.index

        if request.dry_run:
            return self._reservations.preview(index_request, accept)
        return await self._reservations.reserve(index_request, accept)


class _Shard(Struct, frozen=True):
    """Shard group, index and count as written, or empty texts."""

    group: str = ""
    index: str = ""
    count: str = ""


def _shard(cluster: Bare | None) -> _Shard:
    annotations = (cluster and cluster.metadata.annotations) or {}
    return _Shard(*(row.read(annotations) for row in (SHARD_GROUP, SHARD_INDEX, SHARD_COUNT)))


def _check_shard_count(
    others: list[RayClusterConfig], key: ShardKey, text: str, least: int | None, *, created: bool
) -> tuple[str, ...]:
    """Return warnings about the number of shards, compared with the others of the group. Raises
    Denied.

    The number may grow, and shrink to no less than the used indices, of which `least` is its own,
    for each RayCluster separately. A new RayCluster has at least the largest number of the others.
    """
    largest = _largest(others) or 0
    if not text:
        advice = f"others of the shard group have shard-count {largest}"
        return (f"no {names.RAY_SHARD_COUNT}: {advice}",) if largest else ()
    count = read_count(text)
    if count is None:
        raise _invalid(SHARD_COUNT, text)
    if least is not None and least >= count:
        raise _above_count(least, count)
    if count < largest and created:
        message = (
            f"shard group {key.group} has {largest} shards, not {count}: write {largest}, or "
            "change shard-count of its other RayClusters first"
        )
        raise _build_denial(FORBIDDEN, SHARD_COUNT, message)
    for cluster_config in others:
        index = read_index(cluster_config.shard_index)
        if index is not None and index >= count:
            message = (
                f"{cluster_config.name} has index {index}, which is not below {count}: write "
                f"{index + 1} or more, or delete that RayCluster first"
            )
            raise _build_denial(FORBIDDEN, SHARD_COUNT, message)
    differing = [
        cluster_config.name
        for cluster_config in others
        if read_count(cluster_config.shard_count) != count
    ]
    if not differing:
        return ()
    suffix = f" and {len(differing) - 1} more" if len(differing) > 1 else ""
    advice = "set it there too, and recreate their pods"
    return (f"shard-count {count} differs from that of {differing[0]}{suffix}: {advice}",)


def _largest(others: Iterable[RayClusterConfig]) -> int | None:
    """Return the largest number of shards of RayClusters of a group, None if none has a number."""
    counts = (read_count(cluster_config.shard_count) for cluster_config in others)
    return max((count for count in counts if count), default=None)


def _depends_on(request: AdmissionRequest[Bare]) -> str:
    """Return the namespace whose RayClusters affect the response; empty if none do: the RayCluster
    is in no shard group, or keeps its group and index.
    """
    new, old = _shard(request.object), _shard(request.old_object)
    if request.object is None or not new.group or (new == old and old.index):
        return ""
    return request.namespace or "default"


def _name(request: AdmissionRequest[Bare]) -> str:
    return request.name or (request.object.metadata.name if request.object else "") or ""


def _restore_index(index: str, kept: str, said: tuple[str, ...]) -> Answer:
    """Return the response that restores a lost index: a PUT, or KubeRay's update for a RayService,
    drops it.
    """
    if not index:
        return Answer((), _build_index_patch(kept), said)
    message = (
        f"the shard index is immutable: write {kept} again, or remove the annotation from what "
        "you apply"
    )
    raise _build_denial(FORBIDDEN, SHARD_INDEX, message)


def _build_index_patch(index: str) -> bytes:
    # The group's annotation exists, so `metadata.annotations` does too.
    return encode([Operation("add", PATH, index)])


def _invalid(row: OptIn[str], text: str) -> Denied:
    return _build_denial(INVALID, row, f"{row.problem(text)} [{RULE}]", RULE)


def _above_count(index: int, count: int) -> Denied:
    message = f"index {index} is not below shard-count {count}: raise the count"
    return _build_denial(INVALID, SHARD_INDEX, message)


def _build_denial(reason: str, row: OptIn[str], text: str, *rules: str) -> Denied:
    return Denied(Cause(reason, text, f"metadata.annotations[{row.annotation}]"), rules=rules)
