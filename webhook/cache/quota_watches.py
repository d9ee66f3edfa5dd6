"""ResourceQuotas and LimitRanges, followed for warnings about pods that do not fit."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from webhook.api import names
from webhook.api.namespace_limits import (
    LimitRange,
    LimitRangeItem,
    NamespaceLimits,
    Quota,
    ResourceQuota,
    read_limits,
)
from webhook.api.objects import OBJECT_BYTES_MAX, ObjectMeta
from webhook.cache.informer import ListWatch
from webhook.cache.store import Store
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity import GroupKey
from webhook.groups.identity_index import Membership
from webhook.kubeclient.client import Api
from webhook.kubeclient.wire import Codec, Resource, path_of

OBJECTS_MAX: Final = 32
"""Objects in a namespace that are stored."""
AMOUNTS_MAX: Final = 256
TEXT_MAX: Final = 16_384
"""Fields, and characters of the spec and status of an object; one with more is not stored."""


class _Stored(Struct, frozen=True):
    plural: str
    namespace: str
    limits: tuple[Quota | LimitRangeItem, ...]


class _Objects:
    """The objects by uid, and the limits by namespace, which other threads read."""

    def __init__(self) -> None:
        self.limits: dict[str, NamespaceLimits] = {}
        self._objects: dict[str, _Stored] = {}
        self._namespaces: dict[str, dict[str, _Stored]] = {}

    def get(self, uid: str) -> _Stored | None:
        return self._objects.get(uid)

    def items(self) -> Iterable[tuple[str, _Stored]]:
        return self._objects.items()

    def put(self, uid: str, value: _Stored) -> None:
        stored = self._namespaces.setdefault(value.namespace, {})
        # Anyone who may create ResourceQuotas in a namespace could otherwise fill the memory of
        # this process.
        if uid in stored or len(stored) < OBJECTS_MAX:
            self._objects[uid] = stored[uid] = value
            self._join(value.namespace, stored)

    def remove(self, uid: str) -> None:
        value = self._objects.pop(uid, None)
        if value is not None:
            stored = self._namespaces[value.namespace]
            del stored[uid]
            self._join(value.namespace, stored)

    def _join(self, namespace: str, stored: dict[str, _Stored]) -> None:
        if stored:
            limits = chain.from_iterable(value.limits for value in stored.values())
            self.limits[namespace] = NamespaceLimits(limits)
        else:
            del self.limits[namespace], self._namespaces[namespace]


class NamespaceQuotas:
    """Watches the ResourceQuotas and LimitRanges of namespaces, or of all if `namespaces` is empty.
    Until a list is complete, or without the right, there are none.
    """

    def __init__(
        self, api: Api, namespaces: Sequence[str], clusters: ClusterIndex, members: Membership
    ) -> None:
        self._clusters = clusters
        self._members = members
        self._objects = _Objects()
        self.watches: list[ListWatch[Any]] = [
            _watch(api, namespace, plural, kind, self._objects)
            for namespace in namespaces or [""]
            for plural, kind in (("resourcequotas", ResourceQuota), ("limitranges", LimitRange))
        ]

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for watch in self.watches:
                group.create_task(watch.run(), name=watch.name)

    def limits(self, namespace: str) -> NamespaceLimits | None:
        """Return the ResourceQuotas and LimitRanges of a namespace, None without any."""
        limits = self._objects.limits.get(namespace)
        if limits is None:
            return None
        watches = (watch for watch in self.watches if watch.resource.namespace in ("", namespace))
        return limits if all(watch.synced for watch in watches) else None

    def pods(self, namespace: str, cluster: str, group: str) -> int:
        """Return the number of pods of a worker group; 1 for the head, which is not watched."""
        if group == names.HEAD_GROUP:
            return 1
        config = self._clusters.get(namespace, cluster)
        if config is None:
            return 0
        return len(self._members.uids_in(GroupKey(namespace, config.uid, group)))


def _watch(
    api: Api,
    namespace: str,
    plural: str,
    kind: type[ResourceQuota | LimitRange],
    objects: _Objects,
) -> ListWatch[Any]:
    def keep(value: ResourceQuota | LimitRange, _old: _Stored | None) -> _Stored | None:
        # Measured before the amounts are parsed, which takes longer than all else of an event
        content = msgspec.json.encode(structs.replace(value, metadata=ObjectMeta()))
        if len(content) > TEXT_MAX or content.count(b",") > AMOUNTS_MAX:
            return None
        return _Stored(plural, value.metadata.namespace or "", tuple(read_limits(value)))

    path = path_of("/api/v1", namespace, plural)
    resource = Resource(plural, namespace, path, Codec(kind, limit=OBJECT_BYTES_MAX))
    store: Store[ResourceQuota | LimitRange, str, _Stored] = Store(
        objects,
        keep,
        attrgetter("namespace"),
        lambda stored: stored.plural == plural and namespace in ("", stored.namespace),
    )
    return ListWatch(api, resource, store)
