"""The cached live objects of a group: worker pods with their identities, and RayClusters with their
shard indices.
"""

from collections.abc import Collection
from functools import partial
from itertools import filterfalse
from math import inf

from webhook.groups.annotations import read_index
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity import GroupKey, Key
from webhook.groups.identity_index import Membership
from webhook.reservation.allocation import AnyRequest, Objects, Reserved
from webhook.reservation.reservations import Reservations, Times
from webhook.reservation.stores import MemoryStore


def objects_of(members: Membership, clusters: ClusterIndex, key: Key, listed: float) -> Objects:
    """Return the objects of a group, and the time at which its newest complete list began."""
    if isinstance(key, GroupKey):
        return _Pods(members, key, listed)
    holders: dict[int, list[str]] = {}
    for facts in clusters.shards(key):
        if (index := read_index(facts.shard_index)) is not None:
            holders.setdefault(index, []).append(facts.name)
    return _Shards(holders, listed)


class _Pods:
    def __init__(self, members: Membership, key: GroupKey, listed: float) -> None:
        self.listed = listed
        self._members = members
        self._key = key
        self._group = members.group(key)
        self.name = self._group.name_of
        self.has_name = self._group.has_name
        self.lowest = self._group.lowest

    def taken(self, index: int, request: AnyRequest) -> int:
        del request  # its pod does not exist yet
        return self._group.taken(index)

    def absent(self, index: int, entry: Reserved) -> list[str]:
        del index  # labels may have been edited
        live = self._members.holders(self._key.namespace)
        return list(filterfalse(live.__contains__, entry.hosts.values()))

    def gone(self, holder: str) -> bool:
        return self._members.is_gone(self._key.namespace, holder)

    def other(self, index: int, host: int, request: AnyRequest, holder: str) -> str:
        del request
        taken = self._group.taken(index) >> host & 1
        return self._members.pod_in(self._key, index, host, holder) if taken else ""


class _Shards(Objects):
    def __init__(self, holders: dict[int, list[str]], listed: float) -> None:
        self.listed = listed
        self._holders = holders

    def taken(self, index: int, request: AnyRequest) -> int:
        return int(bool(self.other(index, 0, request, "")))

    def absent(self, index: int, entry: Reserved) -> Collection[str]:
        holders = self._holders.get(index, ())  # RayClusters are identified by name
        exists = entry.name in holders if entry.name else bool(holders)
        return () if exists else entry.hosts.values()

    def gone(self, holder: str) -> bool:
        del holder  # of two creations with the same name, the API server may still store the second
        return False

    def other(self, index: int, host: int, request: AnyRequest, holder: str) -> str:
        del host, holder
        return next((each for each in self._holders.get(index, ()) if each != request.cluster), "")


class _Alone:
    """Lists for a process that is the only source of objects: an admitted object exists."""

    def contact(self, _key: Key) -> float:
        return inf

    def listed(self, _key: Key) -> float:
        """Return -inf: no list proves that an object does not exist."""
        return -inf

    async def relist(self, _key: Key, _cluster: str) -> None:
        """Do nothing."""


def standalone(members: Membership, clusters: ClusterIndex) -> Reservations:
    """Return reservations in memory, for a process that is the only one."""
    times = Times(server=lambda: 0.0)
    objects = partial(objects_of, members, clusters)
    return Reservations(MemoryStore(), times, _Alone(), objects, inf)
