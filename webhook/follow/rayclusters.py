"""RayClusters: what the API server tells of them becomes entries of the cluster index."""

from collections.abc import Callable, Iterable
from math import inf
from typing import Final

import msgspec
from msgspec import field

from webhook.follow.listwatch import Resource
from webhook.follow.versions import Record, VersionTracker
from webhook.follow.wire import Codec, Event, Page, number
from webhook.groups.clusters import ClusterFacts, ClusterIndex, facts_of
from webhook.groups.optins import read_index
from webhook.groups.shards import ShardIndex, ShardKey, Shards
from webhook.kube.objects import ObjectMeta, RayCluster

Name = tuple[str, str]
"""Namespace and name."""


class _Meta(ObjectMeta, rename="camel", frozen=True):
    resource_version: str = ""


class LiveRayCluster(RayCluster, frozen=True):
    """A RayCluster with its revision."""

    metadata: _Meta = field(default_factory=_Meta)


CODEC: Final = Codec(
    msgspec.json.Decoder(LiveRayCluster),
    msgspec.json.Decoder(Page[LiveRayCluster]),
    msgspec.json.Decoder(Event[LiveRayCluster]),
)


Saw = Callable[[ShardKey, ShardIndex, int], None]
"""Is told that a RayCluster has an index, as of a version."""


class Facts:
    """The cluster index, as the target of a version tracker."""

    def __init__(self, index: ClusterIndex, saw: Saw | None) -> None:
        self._index = index
        self._saw = saw

    def put(self, uid: str, scope: Name, value: ClusterFacts, version: int) -> None:
        """Record a RayCluster."""
        del uid, scope  # the facts carry both
        self._index.put(value)
        if self._saw is not None and (index := read_index(value.shard_index)) is not None:
            self._saw(
                ShardKey(value.namespace, value.shard_group), ShardIndex(index, value.name), version
            )

    def remove(self, uid: str, scope: Name) -> None:
        """Forget a RayCluster, unless another one has its name by now."""
        self._index.remove(*scope, uid)


class RayClusterFeed:
    """Takes in RayClusters, from the watch and from live reads. `shards` holds the indices that
    wait for theirs.
    """

    def __init__(
        self, index: ClusterIndex, shards: Shards, namespace: str = "", saw: Saw | None = None
    ) -> None:
        self.heard_at = -inf
        """Until when what had happened has been told, in monotonic seconds."""
        self._index = index
        self.note_read = index.note_read
        self._horizons: dict[str, int] = {}
        self._shards = shards
        self._source = namespace
        index.hear(namespace, -inf)
        shards.hear(namespace, -inf)
        self._tracker: VersionTracker[Name, ClusterFacts] = VersionTracker(Facts(index, saw))
        self.end = self._tracker.end
        self.remove = self._tracker.lose
        self.reach = self._tracker.reach

    def begin(self, version: int) -> None:
        """Begin a full list, which shows the state at `version`; one that is set back makes what
        was read before worth nothing.
        """
        if version < self._tracker.reached:
            self._horizons = {}
        self._tracker.begin(version)

    def __len__(self) -> int:
        """Return how many RayClusters are known."""
        return len(self._tracker)

    def item(self, value: LiveRayCluster) -> None:
        """Take in an item of the full list."""
        self._tracker.item(_record(value))

    def put(self, value: LiveRayCluster) -> None:
        """Take in a RayCluster that was added or changed."""
        self._tracker.see(_record(value))

    def heard(self, now: float) -> None:
        """Let shard indices expire whose time was up by `now`."""
        self.heard_at = now
        self._index.hear(self._source, now)
        self._shards.hear(self._source, now)

    def read(self, name: Name, clusters: Iterable[LiveRayCluster], version: int) -> None:
        """Take in the RayCluster of a name, or that there is none, as a live read showed it at
        `version`.
        """
        self._tracker.read(name, map(_record, clusters), version)

    def read_all(self, namespace: str, clusters: Iterable[LiveRayCluster], version: int) -> None:
        """Take in all RayClusters of a namespace, as a live read showed them at `version`."""
        listed = {(namespace, cluster.metadata.name or ""): cluster for cluster in clusters}
        known = {
            (facts.namespace, facts.name) for facts in self._index if facts.namespace == namespace
        }
        for name in known | listed.keys():
            self.read(name, [listed[name]] if name in listed else [], version)
        self._horizons[namespace] = version
        self._tracker.note(version)

    def told(self, namespace: str) -> int:
        """Return the version up to which everything in a namespace is known."""
        return max(self._tracker.reached, self._horizons.get(namespace, 0))

    def newest(self, namespace: str) -> int:
        """Return the highest version of the RayClusters of a namespace."""
        return max(
            (self._version(facts) for facts in self._index if facts.namespace == namespace),
            default=0,
        )

    @property
    def latest(self) -> int:
        """The version that nothing known is newer than."""
        return self._tracker.latest

    def seen(self, key: ShardKey, index: int) -> int:
        """Return the version of a RayCluster that has an index of a shard group; 0 when there is
        none. Looks at all RayClusters.
        """
        there = (facts for facts in self._index if (facts.namespace, facts.shard_group) == key)
        return max(
            (self._version(facts) for facts in there if read_index(facts.shard_index) == index),
            default=0,
        )

    def _version(self, facts: ClusterFacts) -> int:
        return self._tracker.of((facts.namespace, facts.name)).get(facts.uid, 0)


def rayclusters_in(namespace: str) -> "Resource[LiveRayCluster]":
    """Return the RayClusters of a namespace, or of all when it is empty."""
    path = (
        f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters"
        if namespace
        else "/apis/ray.io/v1/rayclusters"
    )
    return Resource("rayclusters", namespace, path, CODEC)


def _record(cluster: LiveRayCluster) -> Record[Name, ClusterFacts]:
    facts = facts_of(cluster)
    return Record(
        facts.uid, number(cluster.metadata.resource_version), (facts.namespace, facts.name), facts
    )
