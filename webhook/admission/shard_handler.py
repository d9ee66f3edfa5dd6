"""Shards: a RayCluster of a shard group is assigned an immutable index; every other RayCluster is
unchanged.

See docs/contributing/decisions/0015-shard-index-by-admission.md.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from webhook.api import names
from webhook.api.formats import pointer
from webhook.api.objects import Bare, ObjectMeta
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
from webhook.reservation.allocation import Request, Taken
from webhook.reservation.reservations import Found, Reservations

PATH: Final = pointer("metadata", "annotations", SHARD_INDEX.annotation)

COMING: Final = "a RayCluster that is being created"
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
        new = request.object.metadata
        old = (
            request.old_object.metadata
            if request.old_object and request.operation == "UPDATE"
            else ObjectMeta()
        )
        group, index = _shard(new)
        if not group or new.deletion_timestamp:
            return ALLOWED
        before, kept = _shard(old)
        same = group == before
        key = ShardKey(request.namespace or new.namespace or "default", group)
        if SHARD_GROUP.problem(group):
            if same:
                return ALLOWED
            raise _invalid(SHARD_GROUP, group)
        said: tuple[str, ...] = ()
        if not same or _count(new) != _count(old):
            said = self._agreed(request, key, _count(new), read_index(kept) if same else None)
        if same and index and index == kept:
            return Answer((), None, said)
        if same and read_index(kept) is not None:
            return _kept(index, kept, said)
        given = "" if before and index == kept else index
        return await self._assigned(request, key, given, said)

    def _agreed(
        self, request: AdmissionRequest[Bare], key: ShardKey, text: str, index: int | None
    ) -> tuple[str, ...]:
        """Return warnings about the number of shards, compared with the others of the group. Raises
        Denied.

        The number may grow, and shrink to no less than the used indices, for each RayCluster
        separately. A new RayCluster has at least the largest number of the others.
        """
        others = self._others(key, request)
        counts = {facts.name: read_count(facts.shard_count) for facts in others}
        largest = _largest(others) or 0
        if not text:
            advice = f"others of the shard group have shard-count {largest}"
            return (f"no {names.RAY_SHARD_COUNT}: {advice}",) if largest else ()
        count = read_count(text)
        if count is None:
            raise _invalid(SHARD_COUNT, text)
        if index is not None and index >= count:
            raise Denied(_above_count(index, count))
        if count < largest and request.operation == "CREATE":
            raise Denied(_fewer(key.group, count, largest))
        for facts in others:
            held = read_index(facts.shard_index)
            if held is not None and held >= count:
                raise Denied(_cut_off(facts.name, held, count))
        differing = [name for name, found in counts.items() if found != count]
        return (_disagreeing(differing, count),) if differing else ()

    async def _assigned(
        self, request: AdmissionRequest[Bare], key: ShardKey, given: str, said: tuple[str, ...]
    ) -> Answer:
        """Return the response that assigns an index, or accepts the given one, and record it."""
        count = read_count(_count(request.object.metadata)) if request.object else None
        if count is None:
            count = _largest(self._others(key, request)) or INDEX_LIMIT
        index = read_index(given)
        if given and index is None:
            raise _invalid(SHARD_INDEX, given)
        identity = None if index is None else HostIdentity(index, 0, "")
        previous, current = (
            _shard(each.metadata)[0] if each else ""
            for each in (request.old_object, request.object)
        )
        update = request.operation == "UPDATE"
        wanted = Request(_name(request), key, 1, count, request.uid, given=identity)

        def accept(found: Found, _: int) -> int:
            if found.index >= count:
                full = _above_count(found.index, count) if given else _none_left(key.group, count)
                raise Denied(full)
            if isinstance(found, Taken):
                raise Denied(_taken(given, key.group, found.holder or COMING))
            return found.index

        try:
            found = (
                self._reservations.preview(wanted, accept)
                if request.dry_run
                else await self._reservations.reserve(wanted, accept)
            )
        except Denied as denied:
            # A RayCluster may have been created while no index could be assigned, and other
            # changes of it must not depend on that.
            if given or not update or previous != current:
                raise
            return Answer((), None, (f"no index: {denied.causes[0].message}", *said))
        if update:
            said = (_MOVED if previous and previous != current else _LATE, *said)
        return Answer((), None if given else _written(str(found)), said)

    def _others(self, key: ShardKey, request: AdmissionRequest[Bare]) -> list[RayClusterConfig]:
        """Return the known RayClusters of a shard group, except the one in the request."""
        name = _name(request)
        return [facts for facts in self._clusters.shards(key) if facts.name != name]


def _largest(others: Iterable[RayClusterConfig]) -> int | None:
    """Return the largest number of shards of RayClusters of a group, None if none has a number."""
    counts = (read_count(facts.shard_count) for facts in others)
    return max((count for count in counts if count), default=None)


def _depends_on(request: AdmissionRequest[Bare]) -> str:
    """Return the namespace whose RayClusters affect the response; empty if none do: the RayCluster
    is in no shard group, or keeps its group and index.
    """
    new = request.object.metadata if request.object else ObjectMeta()
    old = request.old_object.metadata if request.old_object else ObjectMeta()
    group, kept = _shard(new)[0], _shard(old)[1]
    if not group or ((*_shard(new), _count(new)) == (*_shard(old), _count(old)) and kept):
        return ""
    return request.namespace or new.namespace or "default"


def _name(request: AdmissionRequest[Bare]) -> str:
    return request.name or (request.object.metadata.name if request.object else "") or ""


def _count(meta: ObjectMeta) -> str:
    return SHARD_COUNT.read(meta.annotations or {})


def _shard(meta: ObjectMeta) -> tuple[str, str]:
    """Return shard group and shard index as written, or empty texts."""
    annotations = meta.annotations or {}
    return SHARD_GROUP.read(annotations), SHARD_INDEX.read(annotations)


def _kept(index: str, kept: str, said: tuple[str, ...]) -> Answer:
    """Return the response that restores a lost index: a PUT, or KubeRay's update for a RayService,
    drops it.
    """
    if not index:
        return Answer((), _written(kept), said)
    text = (
        f"the shard index is immutable: write {kept} again, or remove the annotation from what "
        "you apply"
    )
    raise Denied(Cause(FORBIDDEN, text, _field(SHARD_INDEX.annotation)))


def _written(index: str) -> bytes:
    # The group's annotation exists, so `metadata.annotations` does too.
    return encode([Operation("add", PATH, index)])


def _invalid(row: OptIn[str], text: str) -> Denied:
    message = f"{row.problem(text)} [{RULE}]"
    return Denied(Cause(INVALID, message, _field(row.annotation)), rules=(RULE,))


def _above_count(index: int, count: int) -> Cause:
    text = f"index {index} is not below shard-count {count}: raise the count"
    return Cause(INVALID, text, _field(SHARD_INDEX.annotation))


def _none_left(group: str, count: int) -> Cause:
    text = (
        f"shard group {group} has {count} shards, and each has its RayCluster: raise "
        "shard-count in this RayCluster first, or delete another one"
    )
    return Cause(FORBIDDEN, text, _field(SHARD_COUNT.annotation))


def _cut_off(holder: str, index: int, count: int) -> Cause:
    text = (
        f"{holder} has index {index}, which is not below {count}: write {index + 1} or more, or "
        "delete that RayCluster first"
    )
    return Cause(FORBIDDEN, text, _field(SHARD_COUNT.annotation))


def _fewer(group: str, count: int, largest: int) -> Cause:
    text = (
        f"shard group {group} has {largest} shards, not {count}: write {largest}, or change "
        "shard-count of its other RayClusters first"
    )
    return Cause(FORBIDDEN, text, _field(SHARD_COUNT.annotation))


def _disagreeing(names_of_others: list[str], count: int) -> str:
    first = names_of_others[0]
    and_more = f" and {len(names_of_others) - 1} more" if len(names_of_others) > 1 else ""
    return (
        f"shard-count {count} differs from that of {first}{and_more}: set it there too, and "
        "recreate their pods"
    )


def _taken(index: str, group: str, holder: str) -> Cause:
    text = (
        f"{holder} has index {index} of shard group {group}: remove the annotation, and the "
        "RayCluster gets a free one"
    )
    return Cause(DUPLICATE, text, _field(SHARD_INDEX.annotation))


def _field(annotation: str) -> str:
    return f"metadata.annotations[{annotation}]"
