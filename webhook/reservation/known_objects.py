"""The cached live objects of a group: worker pods with their identities, and RayClusters with their
shard indices.
"""

from collections.abc import Collection
from itertools import filterfalse

from webhook.groups.annotations import read_index
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity import GroupKey, Key, ShardKey
from webhook.groups.identity_index import Membership
from webhook.reservation.stores import Reserved


class Pods:
    """The pods of a worker group. `listed` is the start time of the newest complete list.

    `lowest` returns the lowest vacant index and that of an incomplete replica, `name` the name of a
    replica, and `has_name` whether any replica has a name, all by the pods.
    """

    def __init__(self, members: Membership, key: GroupKey, listed: float) -> None:
        self.listed = listed
        self._members = members
        self._key = key
        self._group = members.group(key)
        self.name = self._group.name_of
        self.has_name = self._group.has_name
        self.lowest = self._group.lowest

    def taken(self, index: int, cluster: str) -> int:
        """Return the hosts with an object, other than one of this `cluster` for shards, as a bit
        mask; -1 for all.
        """
        del cluster  # the pod of the request does not exist yet
        return self._group.taken(index)

    def absent(self, index: int, entry: Reserved) -> Collection[str]:
        """Return the holders in the entry of an index whose object does not exist."""
        del index  # labels may have been edited
        live = self._members.holders(self._key.namespace)
        return list(filterfalse(live.__contains__, entry.hosts.values()))

    def gone(self, holder: str) -> bool:
        """Return whether the object of a holder was observed, and then its deletion."""
        return self._members.is_gone(self._key.namespace, holder)

    def other(self, index: int, host: int, cluster: str, holder: str) -> str:
        """Return the object of a host other than the request's, a pod by its uid and a RayCluster
        by its name; empty if there is none.
        """
        del cluster
        taken = self._group.taken(index) >> host & 1
        return self._members.pod_in(self._key, index, host, holder) if taken else ""


class Shards:
    """The RayClusters of a shard group: replicas of 1 host without a name."""

    def __init__(self, clusters: ClusterIndex, key: ShardKey, listed: float) -> None:
        self.listed = listed
        self._holders: dict[int, list[str]] = {}
        for facts in clusters.shards(key):
            if (index := read_index(facts.shard_index)) is not None:
                self._holders.setdefault(index, []).append(facts.name)

    def lowest(self, hosts: int) -> tuple[int, int | None]:
        del hosts
        return 0, None

    def name(self, index: int) -> str:
        del index
        return ""

    def has_name(self, name: str) -> bool:
        del name
        return False

    def taken(self, index: int, cluster: str) -> int:
        return int(bool(self.other(index, 0, cluster, "")))

    def absent(self, index: int, entry: Reserved) -> Collection[str]:
        holders = self._holders.get(index, ())  # RayClusters are identified by name
        exists = entry.name in holders if entry.name else bool(holders)
        return () if exists else entry.hosts.values()

    def gone(self, holder: str) -> bool:
        del holder  # of two creations with the same name, the API server may still store the second
        return False

    def other(self, index: int, host: int, cluster: str, holder: str) -> str:
        del host, holder
        return next((each for each in self._holders.get(index, ()) if each != cluster), "")


Objects = Pods | Shards


def objects_of(members: Membership, clusters: ClusterIndex, key: Key, listed: float) -> Objects:
    """Return the objects of a group, and the time at which its newest complete list began."""
    if isinstance(key, GroupKey):
        return Pods(members, key, listed)
    return Shards(clusters, key, listed)
