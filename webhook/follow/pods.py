"""Worker pods: the lists and watches of them become live pods in the membership."""

import logging
from collections.abc import Iterable
from functools import lru_cache
from math import inf
from sys import intern
from typing import Final

import msgspec
from msgspec import Raw, Struct, field

from webhook.follow.listwatch import Resource
from webhook.follow.versions import Record, VersionTracker
from webhook.follow.wire import Codec, Event, Page, number
from webhook.groups.adoption import seat_of
from webhook.groups.membership import Member, Membership
from webhook.groups.seat import GroupKey, Seat
from webhook.kube import names
from webhook.kube.marks import marked
from webhook.kube.objects import PodSpec
from webhook.kube.review import Denied

_log: Final = logging.getLogger("webhook.follow")
_GROUPS_LOGGED: Final = 1000
_READS_MAX: Final = 4096
_READ_SECONDS: Final = 5.0
"""A live read that is older is forgotten when there are many: it costs another one."""


class _Labels(Struct, frozen=True, gc=False):
    cluster: str | None = field(default=None, name=names.LABEL_CLUSTER)
    group: str | None = field(default=None, name=names.LABEL_GROUP)
    replica_index: str | None = field(default=None, name=names.LABEL_REPLICA_INDEX)
    replica_name: str | None = field(default=None, name=names.LABEL_REPLICA_NAME)
    host_index: str | None = field(default=None, name=names.LABEL_HOST_INDEX)
    legacy: str | None = field(default=None, name=names.LABEL_LEGACY_REPLICA_INDEX)
    condemned: str | None = field(default=None, name=names.LABEL_CONDEMNED)


class _Annotations(Struct, frozen=True, gc=False):
    holder: str = field(default="", name=names.ANNOTATION_HOLDER)


class _Owner(Struct, frozen=True, gc=False):
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class _Meta(Struct, rename="camel", frozen=True):
    uid: str = ""
    name: str = ""
    namespace: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: _Labels | None = None
    annotations: _Annotations | None = None
    owner_references: list[_Owner] | None = None


class WorkerPod(Struct, frozen=True):
    """The few fields of a worker pod that we read. `spec` stays undecoded: only an adoption looks
    into it.
    """

    metadata: _Meta = field(default_factory=_Meta)
    spec: Raw = field(default_factory=Raw)


PodRecord = Record[GroupKey, Member]

CODEC: Final = Codec(
    msgspec.json.Decoder(WorkerPod),
    msgspec.json.Decoder(Page[WorkerPod]),
    msgspec.json.Decoder(Event[WorkerPod]),
)
_specs: Final = msgspec.json.Decoder(PodSpec)


class _Members:
    """The membership, as the target of a version tracker."""

    def __init__(self, members: Membership) -> None:
        self._members = members

    def put(self, uid: str, scope: GroupKey, value: Member, version: int) -> None:
        """Record a pod."""
        del version
        self._members.put(uid, scope, value)

    def remove(self, uid: str, scope: GroupKey) -> None:
        """Record that a pod is gone."""
        del scope
        self._members.remove(uid)


class PodFeed:
    """Takes in worker pods, from the watch and from live reads.

    A terminating pod frees its identity. A pod without identity labels that a previous webhook
    completed is adopted. A live pod keeps its identity when its labels are removed, and its holder
    whatever is edited. Labels that are no identity are counted in `malformed`, and
    logged once for each group.
    """

    def __init__(self, members: Membership) -> None:
        self.malformed = 0
        self.heard_at = -inf
        """The time of the last contact with the API server, by the clock of the API server."""
        self.listed_at = -inf
        """The time at which the newest complete list began."""
        self._read_at: dict[GroupKey, float] = {}
        self._members = members
        self._tracker: VersionTracker[GroupKey, Member] = VersionTracker(_Members(members))
        self._logged: set[GroupKey] = set()
        self.begin = self._tracker.begin
        self.keep = self._tracker.keep
        self.remove = self._tracker.lose
        self.reach = self._tracker.reach

    def __len__(self) -> int:
        """Return how many pods are known."""
        return len(self._tracker)

    def item(self, value: WorkerPod) -> None:
        """Take in an item of the full list."""
        self._tracker.item(self._record(value))

    def end(self, begun: float) -> int:
        """End the full list that began at `begun`: the pods that it did not contain are gone."""
        gone = self._tracker.end()
        self.listed_at = begun
        return gone

    def put(self, value: WorkerPod) -> None:
        """Take in a pod that was added or changed."""
        self._tracker.see(self._record(value))

    def heard(self, now: float, server_time: float) -> None:
        """Note a contact with the API server, by the clocks of this process and of the server."""
        del now
        self.heard_at = server_time

    def read(self, key: GroupKey, pods: Iterable[WorkerPod], version: int, begun: float) -> None:
        """Take in all pods of a group, as a live read that began at `begun` showed them at
        `version`.
        """
        self._tracker.read(key, [self._record(pod) for pod in pods], version)
        if len(self._read_at) >= _READS_MAX:
            self._read_at = {
                each: at for each, at in self._read_at.items() if at > begun - _READ_SECONDS
            }
        self._read_at[key] = begun

    def contact(self, key: GroupKey) -> float:
        """Return the time of the last contact with the API server about a group."""
        return max(self.heard_at, self._read_at.get(key, -inf))

    def listed(self, key: GroupKey) -> float:
        """Return the time at which the newest list began that contains all pods of a group."""
        return max(self.listed_at, self._read_at.get(key, -inf))

    def _record(self, pod: WorkerPod) -> PodRecord:
        meta = pod.metadata
        key = _key_of(meta)
        member = None if meta.deletion_timestamp else self._member(pod, key)
        return Record(meta.uid, number(meta.resource_version), key, member)

    def _member(self, pod: WorkerPod, key: GroupKey) -> Member | None:
        """Return what is known of a live pod, or None if it has neither identity nor holder."""
        meta = pod.metadata
        before, known = self._members.find(meta.uid) or (key, Member(None))
        seat = None
        if key.cluster_uid:
            try:
                seat = _seat_of(pod, key.group)
            except (Denied, msgspec.DecodeError, UnicodeDecodeError) as error:
                self._reject(key, error)
        if seat is None and before == key:
            seat = known.seat
        holder = known.holder or (meta.annotations.holder if meta.annotations else "")
        if seat is None and not holder:
            return None
        mark = meta.labels.condemned if meta.labels is not None else None
        return Member(seat, holder, meta.name, bool(mark and marked(mark, meta.uid)))

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


def pods_in(namespace: str) -> "Resource[WorkerPod]":
    """Return the worker pods of a namespace, or of all when it is empty."""
    path = f"/api/v1/namespaces/{namespace}/pods" if namespace else "/api/v1/pods"
    return Resource(
        "pods",
        namespace,
        path,
        CODEC,
        f"{names.LABEL_NODE_TYPE}={names.NODE_TYPE_WORKER}",
    )


@lru_cache(maxsize=1 << 14)
def _key(namespace: str, owner: str, group: str) -> GroupKey:
    """Return one object for equal keys: pods share it."""
    return GroupKey(namespace, owner, group)


def _key_of(meta: _Meta) -> GroupKey:
    """Return the group of a pod. One whose labels and owner disagree is in none: KubeRay does not
    count it either.
    """
    labels = meta.labels
    if labels is not None and labels.cluster and labels.group:
        for owner in meta.owner_references or ():
            if owner.controller and owner.name == labels.cluster:
                return _key(meta.namespace, owner.uid, labels.group)
    return _key(meta.namespace, "", "")


def _seat_of(pod: WorkerPod, group: str) -> Seat | None:
    """Return the seat of a pod, None when it has none. Raises Denied, DecodeError or
    UnicodeDecodeError for labels or a spec that make no sense.
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
