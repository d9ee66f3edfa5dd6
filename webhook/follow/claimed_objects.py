"""The objects that claims are for, pods and RayClusters: what is known of them, and live reads of
more.
"""

from collections.abc import Mapping

from webhook.follow.reader import Feeds, LiveReader
from webhook.groups.clusters import ClusterIndex
from webhook.groups.ledger import Key, Value
from webhook.groups.membership import Membership
from webhook.groups.seat import GroupKey, Seat
from webhook.groups.shards import ShardIndex, ShardKey, Shards


class ClaimedObjects:
    """Pods in their seats, RayClusters with their indices: the table of a ledger, and up to which
    version it is told.
    """

    def __init__(
        self,
        members: Membership,
        shards: Shards,
        clusters: ClusterIndex,
        feeds: Mapping[str, Feeds],
        reader: LiveReader,
    ) -> None:
        self._members = members
        self._shards = shards
        self._clusters = clusters
        self._feeds = feeds
        self._reader = reader

    def hold(self, key: Key, value: Value) -> None:
        """Count one more holder of a seat or an index."""
        if isinstance(key, GroupKey) and isinstance(value, Seat):
            self._members.hold(key, value)
        elif isinstance(key, ShardKey) and isinstance(value, ShardIndex):
            self._shards.hold(key, value)

    def free(self, key: Key, value: Value) -> None:
        """Count one holder less."""
        if isinstance(key, GroupKey) and isinstance(value, Seat):
            self._members.free(key, value)
        elif isinstance(key, ShardKey) and isinstance(value, ShardIndex):
            self._shards.free(key, value)

    def seen(self, key: Key, value: Value) -> int:
        """Return the version of an object that is known in this place; 0 when there is none."""
        feeds = self._of(key)
        if feeds is None:
            return 0
        if isinstance(key, GroupKey) and isinstance(value, Seat):
            return feeds.pods.seen(key, value)
        if isinstance(key, ShardKey) and isinstance(value, ShardIndex):
            return feeds.clusters.seen(key, value.index)
        return 0

    def told(self, key: Key) -> int:
        """Return the version up to which everything of a group is known."""
        feeds = self._of(key)
        if feeds is None:
            return 0
        return (
            feeds.pods.told(key)
            if isinstance(key, GroupKey)
            else feeds.clusters.told(key.namespace)
        )

    def newest(self, key: Key) -> int:
        """Return the highest version of the objects of a group."""
        feeds = self._of(key)
        if feeds is None:
            return 0
        return (
            feeds.pods.newest(key)
            if isinstance(key, GroupKey)
            else feeds.clusters.newest(key.namespace)
        )

    def latest(self, key: Key) -> int:
        """Return a version that nothing known is newer than."""
        feeds = self._of(key)
        if feeds is None:
            return 0
        return feeds.pods.latest if isinstance(key, GroupKey) else feeds.clusters.latest

    def heard_at(self, key: Key) -> float:
        """Return until when what had happened has been told, in monotonic seconds."""
        feeds = self._of(key)
        if feeds is None:
            return 0.0
        return feeds.pods.heard_at if isinstance(key, GroupKey) else feeds.clusters.heard_at

    async def read(self, key: Key) -> None:
        """Read all objects of a group live. Raises ClusterUnreadable."""
        if isinstance(key, ShardKey):
            await self._reader.read_clusters(key.namespace)
            return
        owners = (facts.name for facts in self._clusters if facts.uid == key.cluster_uid)
        await self._reader.read_pods(key, next(owners, ""))

    def _of(self, key: Key) -> Feeds | None:
        return self._feeds.get(key.namespace) or self._feeds.get("")
