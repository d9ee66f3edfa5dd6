"""Lists and watches of the cluster, as reservations depend on them."""

from collections.abc import Mapping
from math import inf

from webhook.follow.reader import Feeds, LiveReader
from webhook.groups.seat import GroupKey
from webhook.reservation.stores import Key


class ClusterLists:
    """When the pods of a worker group, or the RayClusters of a shard group, were listed and
    watched, by the clock of the API server.
    """

    def __init__(self, feeds: Mapping[str, Feeds], reader: LiveReader) -> None:
        self._feeds = feeds
        self._reader = reader

    def contact(self, key: Key) -> float:
        """Return the time of the last contact with the API server about a group."""
        feeds = self._of(key)
        if feeds is None:
            return -inf
        if isinstance(key, GroupKey):
            return feeds.pods.contact(key)
        return feeds.clusters.contact(key.namespace)

    def listed(self, key: Key) -> float:
        """Return the time at which the newest complete list of a group began."""
        feeds = self._of(key)
        if feeds is None:
            return -inf
        if isinstance(key, GroupKey):
            return feeds.pods.listed(key)
        return feeds.clusters.listed(key.namespace)

    async def read(self, key: Key, cluster: str) -> None:
        """List the objects of a group live. Raises ClusterUnreadable."""
        if isinstance(key, GroupKey):
            await self._reader.read_pods(key, cluster)
        else:
            await self._reader.read_clusters(key.namespace)

    def _of(self, key: Key) -> Feeds | None:
        return self._feeds.get(key.namespace) or self._feeds.get("")
