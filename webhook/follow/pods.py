"""Worker pods: what the API server tells of them becomes seats in the membership."""

import logging
from collections.abc import Callable, Iterable
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
from webhook.groups.membership import Membership
from webhook.groups.seat import GroupKey, Seat
from webhook.kube import names
from webhook.kube.marks import marked
from webhook.kube.objects import PodSpec
from webhook.kube.review import Denied

_log: Final = logging.getLogger("webhook.follow")
_GROUPS_LOGGED: Final = 1000


class _Labels(Struct, frozen=True, gc=False):
    cluster: str | None = field(default=None, name=names.LABEL_CLUSTER)
    group: str | None = field(default=None, name=names.LABEL_GROUP)
    replica_index: str | None = field(default=None, name=names.LABEL_REPLICA_INDEX)
    replica_name: str | None = field(default=None, name=names.LABEL_REPLICA_NAME)
    host_index: str | None = field(default=None, name=names.LABEL_HOST_INDEX)
    legacy: str | None = field(default=None, name=names.LABEL_LEGACY_REPLICA_INDEX)
    condemned: str | None = field(default=None, name=names.LABEL_CONDEMNED)


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
    owner_references: list[_Owner] | None = None


class WorkerPod(Struct, frozen=True):
    """The few fields of a worker pod that we read. `spec` stays undecoded: only an adoption looks
    into it.
    """

    metadata: _Meta = field(default_factory=_Meta)
    spec: Raw = field(default_factory=Raw)


PodRecord = Record[GroupKey, Seat]

CODEC: Final = Codec(
    msgspec.json.Decoder(WorkerPod),
    msgspec.json.Decoder(Page[WorkerPod]),
    msgspec.json.Decoder(Event[WorkerPod]),
)
_specs: Final = msgspec.json.Decoder(PodSpec)
_NOWHERE: Final = GroupKey("", "", "")


Saw = Callable[[GroupKey, Seat, int], None]
"""Is told that a pod is in a seat, as of a version."""


class CondemnedSeat(Seat, frozen=True, gc=False, array_like=True):
    """The seat of a pod that is about to be deleted with its replica."""


class Seats:
    """The membership, as the target of a version tracker."""

    def __init__(self, members: Membership, saw: Saw | None) -> None:
        self._members = members
        self._saw = saw

    def put(self, uid: str, scope: GroupKey, value: Seat, version: int) -> None:
        """Put a pod into its seat, which confirms an assumed one."""
        condemned = type(value) is CondemnedSeat
        if condemned:
            value = Seat(value.replica, value.host, value.name)
        self._members.put(uid, scope, value, condemned=condemned)
        if self._saw is not None:
            self._saw(scope, value, version)

    def remove(self, uid: str, scope: GroupKey) -> None:
        """Free the seat of a pod."""
        del scope
        self._members.remove(uid)


class PodFeed:
    """Takes in worker pods, from the watch and from live reads.

    A terminating pod frees its seat. A pod without seat labels that a former webhook served is
    adopted. Labels that are no seat are counted in `malformed`, and logged once for each group;
    their pod has no seat.
    """

    def __init__(self, members: Membership, namespace: str = "", saw: Saw | None = None) -> None:
        self.malformed = 0
        self.heard_at = -inf
        """Until when what had happened has been told, in monotonic seconds."""
        self._members = members
        self._source = namespace
        members.hear(namespace, -inf)
        self._tracker: VersionTracker[GroupKey, Seat] = VersionTracker(Seats(members, saw))
        self._logged: set[GroupKey] = set()
        self.begin = self._tracker.begin
        self.end = self._tracker.end
        self.remove = self._tracker.lose
        self.reach = self._tracker.reach

    def __len__(self) -> int:
        """Return how many pods hold a seat."""
        return len(self._tracker)

    def item(self, value: WorkerPod) -> None:
        """Take in an item of the full list."""
        self._tracker.item(self._record(value))

    def put(self, value: WorkerPod) -> None:
        """Take in a pod that was added or changed."""
        self._tracker.see(self._record(value))

    def heard(self, now: float) -> None:
        """Let assumed seats expire whose time was up by `now`."""
        self.heard_at = now
        self._members.hear(self._source, now)

    def read(self, key: GroupKey, pods: Iterable[WorkerPod], version: int, begun: float) -> None:
        """Take in all pods of a group, as a live read that began at `begun` showed them at
        `version`.
        """
        self._tracker.read(key, [self._record(pod) for pod in pods], version)
        self._members.give_up(key, begun)

    def told(self, key: GroupKey) -> int:
        """Return the version up to which everything in a group is known."""
        return self._tracker.told(key)

    def newest(self, key: GroupKey) -> int:
        """Return the highest version of the pods of a group."""
        return self._tracker.newest(key)

    @property
    def latest(self) -> int:
        """The version that nothing known is newer than."""
        return self._tracker.latest

    def seen(self, key: GroupKey, seat: Seat) -> int:
        """Return the version of a pod in a seat; 0 when there is none. Where there is one, looks
        at all pods of the group.
        """
        if not self._members.has_pod(key, seat):
            return 0
        versions = self._tracker.of(key).items()
        return max(
            (version for uid, version in versions if self._members.seat_of(uid) == seat), default=0
        )

    def _record(self, pod: WorkerPod) -> PodRecord:
        meta = pod.metadata
        version = number(meta.resource_version)
        key = _key_of(meta)
        seat = None
        if key is not _NOWHERE and not meta.deletion_timestamp:
            try:
                seat = _seat_of(pod, key.group)
                text = meta.labels.condemned if meta.labels is not None else None
                if seat is not None and text and marked(text, meta.uid):
                    seat = CondemnedSeat(seat.replica, seat.host, seat.name)
            except (Denied, msgspec.DecodeError, UnicodeDecodeError) as error:
                self._reject(key, error)
        return Record(meta.uid, version, key, seat)

    def _reject(self, key: GroupKey, error: Exception) -> None:
        self.malformed += 1
        if key in self._logged or len(self._logged) >= _GROUPS_LOGGED:
            return
        self._logged.add(key)
        _log.warning(
            "pods: one of group %s in %s has no seat, and more may follow: %s",
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
    if labels is None or not labels.cluster or not labels.group:
        return _NOWHERE
    for owner in meta.owner_references or ():
        if owner.controller and owner.name == labels.cluster:
            return _key(meta.namespace, owner.uid, labels.group)
    return _NOWHERE


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
