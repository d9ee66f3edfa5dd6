"""RayClusters: the lists and watches of them become entries of the cluster index."""

from collections.abc import Iterable
from math import inf
from typing import Final

import msgspec
from msgspec import field

from webhook.follow.listwatch import Resource
from webhook.follow.versions import Record, VersionTracker
from webhook.follow.wire import Codec, Event, Page, number
from webhook.groups.clusters import ClusterFacts, ClusterIndex, facts_of
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
    """The cluster index, as the target of a version tracker."""

    def __init__(self, index: ClusterIndex) -> None:
        self._index = index

    def put(self, uid: str, scope: Name, value: ClusterFacts, version: int) -> None:
        """Record a RayCluster."""
        del uid, scope, version  # the facts have both
        self._index.put(value)

    def remove(self, uid: str, scope: Name) -> None:
        """Forget a RayCluster, unless another one has its name by now."""
        self._index.remove(*scope, uid)


class RayClusterFeed:
    """Takes in RayClusters, from the watch and from live reads."""

    def __init__(self, index: ClusterIndex, namespace: str = "") -> None:
        self.heard_at = -inf
        """The time of the last contact with the API server, by the clock of the API server."""
        self.listed_at = -inf
        """The time at which the newest complete list began."""
        self._read_at: dict[str, float] = {}
        self._index = index
        self.note_read = index.note_read
        self._source = namespace
        index.hear(namespace, -inf)
        self._tracker: VersionTracker[Name, ClusterFacts] = VersionTracker(Facts(index))
        self.begin = self._tracker.begin
        self.keep = self._tracker.keep
        self.remove = self._tracker.lose
        self.reach = self._tracker.reach

    def __len__(self) -> int:
        """Return how many RayClusters are known."""
        return len(self._tracker)

    def item(self, value: LiveRayCluster) -> None:
        """Take in an item of the full list."""
        self._tracker.item(_record(value))

    def end(self, begun: float) -> int:
        """End the full list that began at `begun`: RayClusters that it did not contain are gone."""
        gone = self._tracker.end()
        self.listed_at = begun
        return gone

    def put(self, value: LiveRayCluster) -> None:
        """Take in a RayCluster that was added or changed."""
        self._tracker.see(_record(value))

    def heard(self, now: float, server_time: float) -> None:
        """Note a contact with the API server, by the clocks of this process and of the server."""
        self.heard_at = server_time
        self._index.hear(self._source, now)

    def read(self, name: Name, clusters: Iterable[LiveRayCluster], version: int) -> None:
        """Take in the RayCluster of a name, or that there is none, as a live read showed it at
        `version`.
        """
        self._tracker.read(name, map(_record, clusters), version)

    def read_all(
        self, namespace: str, clusters: Iterable[LiveRayCluster], version: int, begun: float
    ) -> None:
        """Take in all RayClusters of a namespace, as a live read that began at `begun` showed them
        at `version`.
        """
        listed = {(namespace, cluster.metadata.name or ""): cluster for cluster in clusters}
        known = {
            (facts.namespace, facts.name) for facts in self._index if facts.namespace == namespace
        }
        for name in known | listed.keys():
            self.read(name, [listed[name]] if name in listed else [], version)
        self._read_at[namespace] = begun

    def contact(self, namespace: str) -> float:
        """Return the time of the last contact with the API server about a namespace."""
        return max(self.heard_at, self._read_at.get(namespace, -inf))

    def listed(self, namespace: str) -> float:
        """Return the time at which the newest list of the RayClusters of a namespace began."""
        return max(self.listed_at, self._read_at.get(namespace, -inf))


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
