"""The cached live objects of a group: worker pods with their identities, and RayClusters with their
shard indices.
"""

from collections.abc import Collection
from itertools import filterfalse

from webhook.groups.annotations import read_index
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity import GroupKey, ShardKey
from webhook.groups.identity_index import Membership, Occupancy
from webhook.reservation.stores import Reserved


class Pods:
    """The pods of a worker group. `listed` is the start time of the newest complete list."""

    def __init__(self, members: Membership, key: GroupKey, listed: float) -> None:
        self.listed = listed
        self.group = members.group(key)
        self._members = members
        self._key = key

    def taken(self, index: int) -> int:
        """Return the hosts with an object as a bit mask; -1 for all."""
        return self.group.taken(index)

    def absent(self, index: int, entry: Reserved) -> Collection[str]:
        """Return the holders in the entry of an index whose object does not exist."""
        del index  # labels may have been edited
        live = self._members.holders(self._key.namespace)
        return list(filterfalse(live.__contains__, entry.hosts.values()))

    def gone(self, holder: str) -> bool:
        """Return whether the object of a holder was observed, and then its deletion."""
        return self._members.is_gone(self._key.namespace, holder)

    def other(self, index: int, host: int, holder: str) -> str:
        """Return the object of a host other than the request's, a pod by its uid and a RayCluster
        by its name; empty if there is none.
        """
        taken = self.group.taken(index) >> host & 1
        return self._members.pod_in(self._key, index, host, holder) if taken else ""


class Shards:
    """The RayClusters of a shard group for a request of RayCluster `cluster`: replicas of 1 host
    without a name.
    """

    def __init__(self, clusters: ClusterIndex, key: ShardKey, cluster: str, listed: float) -> None:
        self.listed = listed
        self.group = Occupancy()
        self._cluster = cluster
        self._holders: dict[int, list[str]] = {}
        for facts in clusters.shards(key):
            if (index := read_index(facts.shard_index)) is not None:
                self._holders.setdefault(index, []).append(facts.name)

    def taken(self, index: int) -> int:
        return int(bool(self.other(index, 0, "")))

    def absent(self, index: int, entry: Reserved) -> Collection[str]:
        holders = self._holders.get(index, ())  # RayClusters are identified by name
        exists = entry.name in holders if entry.name else bool(holders)
        return () if exists else entry.hosts.values()

    def gone(self, holder: str) -> bool:
        del holder  # of two creations with the same name, the API server may still store the second
        return False

    def other(self, index: int, host: int, holder: str) -> str:
        del host, holder
        return next((each for each in self._holders.get(index, ()) if each != self._cluster), "")


Objects = Pods | Shards
