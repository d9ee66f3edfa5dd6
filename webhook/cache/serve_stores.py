"""The stores of the process that answers reviews: worker pods update the index of identities, and
RayClusters that of their configuration.
"""

import logging
from collections.abc import Iterable
from functools import lru_cache
from sys import intern
from typing import Final

import msgspec
from msgspec import Raw, Struct, field

from webhook.api import names
from webhook.api.formats import marked
from webhook.api.objects import PodSpec, RayCluster
from webhook.api.review import Denied
from webhook.cache.store import Store
from webhook.groups.google_labels import seat_of
from webhook.groups.group_config import ClusterIndex, RayClusterConfig, facts_of
from webhook.groups.identity import GroupKey, HostIdentity
from webhook.groups.identity_index import Member, Membership
from webhook.kubeclient.wire import Codec, Resource, path_of

_log: Final = logging.getLogger("webhook.cache")
_GROUPS_LOGGED: Final = 1000

Name = tuple[str, str]
"""Namespace and name of a RayCluster."""


class _Labels(Struct, frozen=True, gc=False):
    cluster: str | None = field(default=None, name=names.LABEL_CLUSTER)
    group: str | None = field(default=None, name=names.LABEL_GROUP)
    replica_index: str | None = field(default=None, name=names.LABEL_REPLICA_INDEX)
    replica_name: str | None = field(default=None, name=names.LABEL_REPLICA_NAME)
    host_index: str | None = field(default=None, name=names.LABEL_HOST_INDEX)
    legacy: str | None = field(default=None, name=names.LABEL_LEGACY_REPLICA_INDEX)
    marked: str | None = field(default=None, name=names.LABEL_MARKED_FOR_DELETION)


class _Annotations(Struct, frozen=True, gc=False):
    holder: str = field(default="", name=names.ANNOTATION_HOLDER)


class _Owner(Struct, frozen=True, gc=False):
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class _Meta(Struct, rename="camel", frozen=True):
    uid: str = ""
    namespace: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: _Labels | None = None
    annotations: _Annotations | None = None
    owner_references: list[_Owner] | None = None


class WorkerPod(Struct, frozen=True):
    """The fields of a worker pod that are read. `spec` is decoded only for an adoption."""

    metadata: _Meta = field(default_factory=_Meta)
    spec: Raw = field(default_factory=Raw)


CODEC: Final = Codec(WorkerPod)
_RAYCLUSTERS: Final = Codec(RayCluster)
_specs: Final = msgspec.json.Decoder(PodSpec)


class PodStore(Store[WorkerPod, GroupKey, Member]):
    """The worker pods of a namespace, or of all if it is empty, from the watch and from live reads.

    A terminating pod frees its identity. A pod without identity labels that a previous webhook
    mutated is adopted. A live pod keeps its identity if its labels are removed, and its holder
    after any edit. Invalid identity labels are counted in `malformed`, and logged once per group.
    """

    def __init__(self, members: Membership, namespace: str = "") -> None:
        super().__init__(
            members,
            self._member,
            lambda member: member.key,
            lambda member: namespace in ("", member.key.namespace),
        )
        self.malformed = 0
        self._logged: set[GroupKey] = set()

    def _member(self, pod: WorkerPod, known: Member | None) -> Member | None:
        """Return the member of a live pod, or None if it has neither identity nor holder."""
        meta = pod.metadata
        if meta.deletion_timestamp:
            return None
        key = _key_of(meta)
        seat = None
        if key.cluster_uid:
            try:
                seat = _seat_of(pod, key.group)
            except (Denied, msgspec.DecodeError, UnicodeDecodeError) as error:
                self._reject(key, error)
        if seat is None and known is not None and known.key == key:
            seat = known.seat
        holder = known.holder if known is not None else ""
        holder = holder or (meta.annotations.holder if meta.annotations else "")
        if seat is None and not holder:
            return None
        mark = meta.labels.marked if meta.labels is not None else None
        return Member(key, seat, holder, bool(mark and marked(mark, meta.uid)))

    def _reject(self, key: GroupKey, error: Exception) -> None:
        self.malformed += 1
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
    return Resource("pods", namespace, path, CODEC, [("labelSelector", selector)])


@lru_cache(maxsize=1 << 14)
def _key(namespace: str, owner: str, group: str) -> GroupKey:
    """Return the same object for equal keys, which pods share."""
    return GroupKey(namespace, owner, group)


def _key_of(meta: _Meta) -> GroupKey:
    """Return the group of a pod; an empty key if its labels and owner disagree, because KubeRay
    does not count such a pod either.
    """
    labels = meta.labels
    if labels is not None and labels.cluster and labels.group:
        for owner in meta.owner_references or ():
            if owner.controller and owner.name == labels.cluster:
                return _key(meta.namespace, owner.uid, labels.group)
    return _key(meta.namespace, "", "")


def _seat_of(pod: WorkerPod, group: str) -> HostIdentity | None:
    """Return the identity of a pod, None if it has none. Raises Denied, DecodeError or
    UnicodeDecodeError for invalid labels or an invalid spec.
    """
    labels = pod.metadata.labels or _Labels()
    name, legacy = labels.replica_name, labels.legacy
    said = {
        names.LABEL_REPLICA_INDEX: labels.replica_index,
        names.LABEL_REPLICA_NAME: name and intern(name),
        names.LABEL_HOST_INDEX: labels.host_index,
        names.LABEL_LEGACY_REPLICA_INDEX: legacy and intern(legacy),
    }
    return seat_of(
        group,
        {label: value for label, value in said.items() if value is not None},
        lambda: _specs.decode(pod.spec) if pod.spec else PodSpec(),
        None,
    )


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


class RayClusterStore(Store[RayCluster, Name, RayClusterConfig]):
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


def rayclusters_in(namespace: str, name: str = "") -> Resource[RayCluster]:
    """Return the RayClusters of a namespace, or of all if it is empty; only those of this name."""
    path = path_of(f"/apis/{names.RAY_GROUP}/v1", namespace, "rayclusters")
    query = [("fieldSelector", f"metadata.name={name}")] if name else ()
    return Resource("rayclusters", namespace, path, _RAYCLUSTERS, query)
