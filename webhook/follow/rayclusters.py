"""RayClusters: what the API server tells of them becomes entries of the cluster index."""

from collections.abc import Iterable
from math import inf
from typing import Final

import msgspec
from msgspec import field

from webhook.follow.listwatch import Resource
from webhook.follow.versions import Record, VersionTracker
from webhook.follow.wire import Codec, Event, Page, number
from webhook.groups.clusters import ClusterFacts, ClusterIndex, facts_of
from webhook.groups.shards import Shards
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


class Facts:
    """The cluster index, as the target of a ledger."""

    def __init__(self, index: ClusterIndex) -> None:
        self._index = index

    def put(self, uid: str, scope: Name, value: ClusterFacts) -> None:
        """Record a RayCluster."""
        del uid, scope  # the facts carry both
        self._index.put(value)

    def remove(self, uid: str, scope: Name) -> None:
        """Forget a RayCluster, unless another one has its name by now."""
        self._index.remove(*scope, uid)


class RayClusterFeed:
    """Takes in RayClusters, from the watch and from live reads. `shards` holds the indices that wait for theirs."""

    def __init__(self, index: ClusterIndex, shards: Shards, namespace: str = "") -> None:
        self._shards = shards
        self._source = namespace
        shards.hear(namespace, -inf)
        self._tracker: VersionTracker[Name, ClusterFacts] = VersionTracker(Facts(index))
        self.begin = self._tracker.begin
        self.end = self._tracker.end
        self.remove = self._tracker.lose
        self.reach = self._tracker.reach

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
        self._shards.hear(self._source, now)

    def read(self, name: Name, clusters: Iterable[LiveRayCluster], version: int) -> None:
        """Take in the RayCluster of a name, or that there is none, as a live read showed it at `version`."""
        self._tracker.read(name, map(_record, clusters), version)


def rayclusters_in(namespace: str) -> "Resource[LiveRayCluster]":
    """Return the RayClusters of a namespace, or of all when it is empty."""
    path = f"/apis/ray.io/v1/namespaces/{namespace}/rayclusters" if namespace else "/apis/ray.io/v1/rayclusters"
    return Resource(f"rayclusters in {namespace or 'all namespaces'}", path, "", CODEC)


def _record(cluster: LiveRayCluster) -> Record[Name, ClusterFacts]:
    facts = facts_of(cluster)
    return Record(facts.uid, number(cluster.metadata.resource_version), (facts.namespace, facts.name), facts)
