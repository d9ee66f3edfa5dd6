"""ResourceQuotas and LimitRanges, followed for warnings about pods that do not fit."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from webhook.api import names
from webhook.api.namespace_limits import (
    LimitRange,
    LimitRangeItem,
    NamespaceLimits,
    Quota,
    ResourceQuota,
    read_limits,
    read_quota,
)
from webhook.cache.informer import ListWatch
from webhook.cache.store import Store
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity import GroupKey
from webhook.groups.identity_index import Membership
from webhook.kubeclient.client import Api
from webhook.kubeclient.wire import Codec, Resource, path_of

T = TypeVar("T", ResourceQuota, LimitRange)
V = TypeVar("V", bound=Quota | LimitRangeItem)

OBJECTS_MAX: Final = 16
"""Objects of a kind in a namespace that are stored."""
AMOUNTS_MAX: Final = 128
TEXT_MAX: Final = 16_384
"""Amounts of an object, and characters of their names and values and of its scopes; an object with
more is not stored.
"""
_BYTES_MAX: Final = 256 * 1024
"""Of an object that is read; a change to a larger one is ignored."""


class _Stored(Struct, Generic[V], frozen=True):
    namespace: str
    values: tuple[V, ...]


class _Objects(Generic[V]):
    """The objects of a kind by uid, and their values by namespace, which other threads read."""

    def __init__(self, by_namespace: dict[str, tuple[V, ...]]) -> None:
        self._objects: dict[str, _Stored[V]] = {}
        self._uids: dict[str, list[str]] = {}
        self._by_namespace = by_namespace

    def get(self, uid: str) -> _Stored[V] | None:
        return self._objects.get(uid)

    def items(self) -> Iterable[tuple[str, _Stored[V]]]:
        return self._objects.items()

    def put(self, uid: str, value: _Stored[V]) -> None:
        uids = self._uids.setdefault(value.namespace, [])
        if uid not in self._objects:
            # Anyone who may create ResourceQuotas in a namespace could otherwise fill the memory of
            # this process.
            if len(uids) >= OBJECTS_MAX:
                return
            uids.append(uid)
        self._objects[uid] = value
        self._join(value.namespace, uids)

    def remove(self, uid: str) -> None:
        stored = self._objects.pop(uid, None)
        if stored is not None:
            uids = self._uids[stored.namespace]
            uids.remove(uid)
            self._join(stored.namespace, uids)

    def _join(self, namespace: str, uids: Iterable[str]) -> None:
        values = tuple(value for uid in uids for value in self._objects[uid].values)
        if uids:
            self._by_namespace[namespace] = values
        else:
            self._by_namespace.pop(namespace, None)
            del self._uids[namespace]


class NamespaceQuotas:
    """Watches the ResourceQuotas and LimitRanges of namespaces, or of all if `namespaces` is empty.
    Until a list is complete, or without the right, there are none.
    """

    def __init__(
        self, api: Api, namespaces: Sequence[str], clusters: ClusterIndex, members: Membership
    ) -> None:
        self._clusters = clusters
        self._members = members
        self._quotas: dict[str, tuple[Quota, ...]] = {}
        self._limits: dict[str, tuple[LimitRangeItem, ...]] = {}
        quotas: _Objects[Quota] = _Objects(self._quotas)
        limits: _Objects[LimitRangeItem] = _Objects(self._limits)
        self.watches: list[ListWatch[Any]] = []
        for namespace in namespaces or [""]:
            watch = partial(_watch, api, namespace)
            self.watches.append(watch("resourcequotas", ResourceQuota, quotas, _quota_of))
            self.watches.append(watch("limitranges", LimitRange, limits, read_limits))

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for watch in self.watches:
                group.create_task(watch.run(), name=watch.name)

    def limits(self, namespace: str) -> NamespaceLimits | None:
        """Return the ResourceQuotas and LimitRanges of a namespace, None without any."""
        quotas, limits = self._quotas.get(namespace, ()), self._limits.get(namespace, ())
        if not (quotas or limits) or not all(watch.synced for watch in self.watches):
            return None
        return NamespaceLimits(quotas, limits)

    def pods(self, namespace: str, cluster: str, group: str) -> int:
        """Return the number of pods of a worker group; 1 for the head, which is not watched."""
        if group == names.HEAD_GROUP:
            return 1
        config = self._clusters.get(namespace, cluster)
        if config is None:
            return 0
        return len(self._members.uids_in(GroupKey(namespace, config.uid, group)))


def _quota_of(quota: ResourceQuota) -> list[Quota]:
    return [read_quota(quota)]


def _watch(
    api: Api,
    namespace: str,
    plural: str,
    kind: type[T],
    objects: _Objects[V],
    read: Callable[[T], list[V]],
) -> ListWatch[T]:
    def keep(value: T, _old: _Stored[V] | None) -> _Stored[V] | None:
        # Counted before the amounts are parsed, which takes longer than all else of an event
        if not _fits(value):
            return None
        return _Stored(value.metadata.namespace or "", tuple(read(value)))

    path = path_of("/api/v1", namespace, plural)
    resource = Resource(plural, namespace, path, Codec(kind, limit=_BYTES_MAX))
    store: Store[T, str, _Stored[V]] = Store(
        objects,
        keep,
        attrgetter("namespace"),
        lambda stored: namespace in ("", stored.namespace),
    )
    return ListWatch(api, resource, store)


def _fits(value: ResourceQuota | LimitRange) -> bool:
    """Return whether an object is small enough to be stored."""
    lists: list[Sequence[str]] = []
    if isinstance(value, ResourceQuota):
        spec, status = value.spec, value.status
        amounts = [spec.hard, status.hard, status.used]
        terms = spec.scope_selector.match_expressions if spec.scope_selector else None
        lists.append(spec.scopes or ())
        lists += (term.values or () for term in terms or ())
    else:
        amounts = [
            amounts_of_item
            for item in value.spec.limits or ()
            for amounts_of_item in (
                item.max,
                item.min,
                item.default,
                item.default_request,
                item.max_limit_request_ratio,
            )
        ]
    maps = [amounts_by_name for amounts_by_name in amounts if amounts_by_name]
    if sum(map(len, maps)) + sum(map(len, lists)) > AMOUNTS_MAX:
        return False
    characters = sum(len(scope) for scopes in lists for scope in scopes)
    for amounts_by_name in maps:
        characters += sum(len(name) + len(str(amount)) for name, amount in amounts_by_name.items())
    return characters <= TEXT_MAX
