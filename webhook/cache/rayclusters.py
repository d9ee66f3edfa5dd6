"""RayClusters: lists and watches of them update the cluster index."""

from collections.abc import Iterable
from typing import Final

from webhook.api import names
from webhook.api.objects import RayCluster
from webhook.cache.informer import Resource, path_of
from webhook.cache.store import Store
from webhook.groups.group_config import ClusterIndex, RayClusterConfig, facts_of
from webhook.kubeclient.wire import Codec

Name = tuple[str, str]
"""Namespace and name."""


CODEC: Final = Codec(RayCluster)


class _Clusters:
    """RayClusters by uid; the index contains the newest of each name."""

    def __init__(self, index: ClusterIndex) -> None:
        self._index = index
        self._all: dict[str, RayClusterConfig] = {}
        self.get = self._all.get
        self.items = self._all.items

    def put(self, uid: str, value: RayClusterConfig) -> None:
        self._all[uid] = value
        self._index.put(value)

    def remove(self, uid: str) -> None:
        facts = self._all.pop(uid, None)
        if facts is not None:
            self._index.remove(facts.namespace, facts.name, uid)


class RayClusterFeed(Store[RayCluster, Name, RayClusterConfig]):
    """The RayClusters of a list-watch, and of live reads."""

    def __init__(self, index: ClusterIndex) -> None:
        self._known = _Clusters(index)
        super().__init__(
            self._known,
            lambda cluster, _: facts_of(cluster),
            lambda facts: (facts.namespace, facts.name),
        )

    def read_all(
        self, namespace: str, clusters: Iterable[RayCluster], version: int, begun: float
    ) -> None:
        """Handle a live read of all RayClusters of a namespace at `version`, which began at the
        server's time `begun`. The scope of the namespace has an empty name.
        """
        listed = {(namespace, cluster.metadata.name or ""): cluster for cluster in clusters}
        known = {(each.namespace, each.name) for _, each in self._known.items()}
        for name in listed.keys() | {each for each in known if each[0] == namespace}:
            self.read(name, [listed[name]] if name in listed else [], version, begun)
        self.note_read((namespace, ""), begun)


def rayclusters_in(namespace: str) -> "Resource[RayCluster]":
    """Return the resource of the RayClusters of a namespace, or of all if it is empty."""
    path = path_of(f"/apis/{names.RAY_GROUP}/v1", namespace, "rayclusters")
    return Resource("rayclusters", namespace, path, CODEC)
