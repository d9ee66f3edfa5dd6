"""The stores of the process that answers reviews: worker pods update the index of identities, and
RayClusters that of their configuration.
"""

import logging
from collections.abc import Collection, Iterable, Iterator
from functools import partial
from operator import attrgetter
from typing import Final

from webhook.api import names
from webhook.api.objects import RAYCLUSTER_BYTES_MAX, RayCluster, RayClusterOutline
from webhook.cache.store import Store
from webhook.groups.group_config import ClusterIndex, RayClusterConfig, read_cluster_config
from webhook.groups.identity import GroupKey
from webhook.groups.identity_index import Member, Membership
from webhook.groups.identity_labels import (
    WORKER_POD_BYTES_MAX,
    WorkerPod,
    WorkerPodOutline,
    member_of,
)
from webhook.kubeclient.wire import Codec, Resource, path_of

_log: Final = logging.getLogger("webhook.cache")
_GROUPS_LOGGED: Final = 1000

Name = tuple[str, str]
"""Namespace and name of a RayCluster."""


CODEC: Final = Codec(WorkerPod, WorkerPodOutline, WORKER_POD_BYTES_MAX)
_RAYCLUSTERS: Final = Codec(RayCluster, RayClusterOutline, RAYCLUSTER_BYTES_MAX)


class PodStore(Store[WorkerPod, GroupKey, Member]):
    """The worker pods of a namespace, or of all if it is empty, from the watch and from live reads.
    Invalid identity labels are counted in `malformed`, and logged once per group.
    """

    def __init__(self, members: Membership, namespace: str = "") -> None:
        super().__init__(
            members,
            partial(member_of, reject=self._reject),
            attrgetter("key"),
            lambda member: namespace in ("", member.key.namespace),
        )
        self._members = members
        self.malformed = 0
        self._logged: set[GroupKey] = set()

    def _uids_in(self, scope: GroupKey) -> Collection[str]:
        return self._members.uids_in(scope)

    def _reject(self, key: GroupKey, error: Exception) -> None:
        self.malformed += 1
        # Any user who may create pods can cause such a line.
        if key in self._logged or len(self._logged) >= _GROUPS_LOGGED:
            return
        self._logged.add(key)
        _log.warning(
            "pods: one of group %s in %s has no valid identity, and more may follow: %s",
            key.group,
            key.namespace,
            error,
        )


def pods_in(namespace: str, labels: str = "") -> Resource[WorkerPod]:
    """Return the worker pods of a namespace, or of all if it is empty, with more `labels`."""
    selector = f"{names.LABEL_NODE_TYPE}={names.NODE_TYPE_WORKER}{labels}"
    path = path_of("/api/v1", namespace, "pods")
    return Resource("pods", namespace, path=path, codec=CODEC, query=[("labelSelector", selector)])


class _ClusterIndex:
    """RayClusters by uid; the index contains the newest of each name."""

    def __init__(self, index: ClusterIndex) -> None:
        self._index = index
        self._all: dict[str, RayClusterConfig] = {}
        self._uids: dict[str, dict[str, set[str]]] = {}
        """The uids by namespace and name."""
        self.get = self._all.get
        self.items = self._all.items

    def put(self, uid: str, value: RayClusterConfig) -> None:
        self._all[uid] = value
        self._uids.setdefault(value.namespace, {}).setdefault(value.name, set()).add(uid)
        self._index.put(value)

    def remove(self, uid: str) -> None:
        cluster_config = self._all.pop(uid, None)
        if cluster_config is not None:
            named = self._uids[cluster_config.namespace]
            named[cluster_config.name].discard(uid)
            if not named[cluster_config.name]:
                del named[cluster_config.name]
            if not named:
                del self._uids[cluster_config.namespace]
            self._index.remove(cluster_config.namespace, cluster_config.name, uid)

    def names_in(self, namespace: str) -> Collection[str]:
        return self._uids.get(namespace, {}).keys()

    def uids_in(self, name: Name) -> Collection[str]:
        return self._uids.get(name[0], {}).get(name[1], ())


class RayClusterStore(Store[RayCluster, Name, RayClusterConfig]):
    """The RayClusters of a list-watch, and of live reads."""

    def __init__(self, index: ClusterIndex) -> None:
        self._known = _ClusterIndex(index)
        super().__init__(
            self._known,
            lambda cluster, _: read_cluster_config(cluster),
            attrgetter("namespace", "name"),
        )

    def _uids_in(self, scope: Name) -> Collection[str]:
        return self._known.uids_in(scope)

    def read_all(
        self, namespace: str, clusters: Iterable[RayCluster], version: int, begun: float
    ) -> Iterator[None]:
        """Handle a live read of all RayClusters of a namespace at `version`, which began at the
        server's time `begun`. The scope of the namespace has an empty name. Yield as `read` does.
        """
        listed = {cluster.metadata.name or "": cluster for cluster in clusters}
        for name in listed.keys() | self._known.names_in(namespace):
            values = [listed[name]] if name in listed else []
            yield from self._compare((namespace, name), values, version)
        self.note_read((namespace, ""), begun)


def rayclusters_in(namespace: str, name: str = "") -> Resource[RayCluster]:
    """Return the RayClusters of a namespace, or of all if it is empty; only those of this name."""
    path = path_of(f"/apis/{names.RAY_GROUP}/v1", namespace, "rayclusters")
    query = [("fieldSelector", f"metadata.name={name}")] if name else ()
    return Resource("rayclusters", namespace, path=path, codec=_RAYCLUSTERS, query=query)
