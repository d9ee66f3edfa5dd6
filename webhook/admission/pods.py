"""Pods: a worker pod that KubeRay creates is seated, then completed; a head is completed; every
other pod passes untouched.

See docs/decisions/0012-workers-need-their-owner.md.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct

from webhook.admission.errors import BadReview
from webhook.groups.adoption import seat_of
from webhook.groups.clusters import ClusterFacts, ClusterIndex
from webhook.groups.reads import Read, ReadCluster, ReadGroup
from webhook.groups.seat import MAX_HOSTS, GroupKey, Seat
from webhook.groups.seating import Wanted, is_labelled
from webhook.kube import names
from webhook.kube.objects import Pod, WorkerGroup
from webhook.kube.review import (
    ALLOWED,
    INVALID,
    NOT_FOUND,
    REQUIRED,
    AdmissionRequest,
    Answer,
    Cause,
    Denied,
    Place,
)
from webhook.kube.shapes import LABEL_VALUE_ADVICE, LABEL_VALUE_MAX, is_label_value
from webhook.mutation.patch_cache import PatchCache
from webhook.mutation.pipeline import head_receives
from webhook.mutation.policy import DEFAULT_POLICY, Policy
from webhook.mutation.worker import HEAD_GROUP, HEAD_SEAT, Replica, read_replica
from webhook.reservation.identities import Identities

_SHOWN_GROUPS: Final = 8
"""Groups that a message names: enough to see a typo."""


class Placement(Struct, frozen=True, gc=False):
    """Where a Ray pod belongs, and what it receives there. The seat of a head is HEAD_SEAT, which
    nobody keeps. `holder` is that of the reservation; empty for an identity that the pod carries.
    """

    key: GroupKey
    seat: Seat
    holder: str
    answer: Answer
    pod: Pod
    cluster: ClusterFacts
    group: WorkerGroup
    policy: Policy

    @property
    def told(self) -> Answer:
        """The answer, with the place of a worker for log and audit."""
        if not self.seated:
            return self.answer
        place = Place(self.cluster.name, self.key.group, self.seat.replica, self.seat.host)
        return Answer((), self.answer.patch, self.answer.warnings, place=place)

    @property
    def seated(self) -> bool:
        """Tell whether this is a worker, which holds its seat."""
        return self.seat is not HEAD_SEAT

    @property
    def replica(self) -> Replica:
        """The replica of the pod, to tell of it."""
        return read_replica(
            self.pod,
            self.seat,
            self.cluster,
            self.group,
            holder=self.holder,
            policy=self.policy,
        )


class _Worker(Struct, frozen=True, gc=False):
    """A worker pod, its place in the RayCluster, and the identity that its labels say, or that it
    has from a previous webhook, if any.
    """

    pod: Pod
    cluster: ClusterFacts
    group: WorkerGroup
    key: GroupKey
    carried: Seat | None
    adopted: Seat | None

    def wanted(self, request_uid: str, read: Sequence[Read]) -> Wanted:
        """Return the identity that it wants."""
        group, meta = self.group, self.pod.metadata
        return Wanted(
            self.cluster.name,
            self.key,
            group.num_of_hosts,
            group.desired,
            request_uid,
            ReadGroup in map(type, read),
            self.adopted,
            meta.name or f"{meta.generate_name or ''}*",
        )


class PodHandler:
    """Answers reviews of Pods."""

    def __init__(
        self, clusters: ClusterIndex, identities: Identities, policy: Policy = DEFAULT_POLICY
    ) -> None:
        self._clusters = clusters
        self._identities = identities
        self.patches = PatchCache(policy)

    @property
    def policy(self) -> Policy:
        """What pods receive beside their seat; it may change while the service runs."""
        return self.patches.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self.patches.policy = policy

    async def __call__(
        self, request: AdmissionRequest[Pod], read: Sequence[Read] = ()
    ) -> Answer | Read:
        """Return the answer, or what has to be read first, which is nothing that was `read` before.
        Raises Denied or BadReview, but Denied for what is known of a RayCluster only after a read.

        Nothing is recorded on a dry run, nor for a pod that is refused.
        """
        if request.operation == "DELETE":
            self._delete(request)
            return ALLOWED
        if request.operation != "CREATE":
            return ALLOWED
        if request.object is None:
            msg = "request.object is missing: a CREATE carries the pod"
            raise BadReview(msg)
        pod, namespace = request.object, request.namespace or ""
        try:
            if request.dry_run:
                placed = self.preview(pod, namespace, request.uid, read)
            else:
                placed = await self.place(pod, namespace, request.uid, read)
        except Denied:
            doubted = self._doubted(pod, namespace)
            if read or doubted is None:
                raise
            return doubted
        if placed is None:
            return ALLOWED
        if isinstance(placed, Placement):
            return placed.told
        if isinstance(placed, ReadCluster) and read:
            raise Denied(_unknown(placed))
        return placed

    async def place(
        self, pod: Pod, namespace: str, request_uid: str, read: Sequence[Read] = ()
    ) -> Placement | Read | None:
        """Return the placement of a Ray pod, whose identity is reserved, or what has to be read
        first; None for a pod of no concern.

        `read` is what was read for this pod. Raises Denied for a pod that cannot have an identity.
        """
        found = self._look(pod, namespace, read)
        if not isinstance(found, _Worker):
            return found
        if found.carried is None:
            _require_label_values(pod)
            return await self._identities.reserve(
                found.wanted(request_uid, read), partial(self._complete, found)
            )
        placed = self._complete(found, found.carried)
        self._identities.carried(found.key, found.carried, request_uid)
        return placed

    def preview(
        self, pod: Pod, namespace: str, request_uid: str, read: Sequence[Read] = ()
    ) -> Placement | Read | None:
        """Return what `place` would, and reserve nothing. Raises Denied."""
        found = self._look(pod, namespace, read)
        if not isinstance(found, _Worker):
            return found
        if found.carried is None:
            _require_label_values(pod)
            return self._identities.preview(
                found.wanted(request_uid, read), partial(self._complete, found)
            )
        return self._complete(found, found.carried)

    def _look(
        self, pod: Pod, namespace: str, read: Sequence[Read]
    ) -> _Worker | Placement | ReadCluster | None:
        """Return a worker with its place, the placement of a head, or None for any other
        pod. Raises Denied.
        """
        labels = pod.labels
        node_type = labels.get(names.LABEL_NODE_TYPE)
        if node_type != names.NODE_TYPE_WORKER:
            if node_type != names.NODE_TYPE_HEAD:
                return None
            return self._place_head(pod, namespace, read)
        owner = pod.controller
        name, group_name = labels.get(names.LABEL_CLUSTER), labels.get(names.LABEL_GROUP)
        if (
            owner is None
            or owner.kind != names.RAYCLUSTER_KIND
            or not name
            or not group_name
            or not pod.spec.containers
        ):
            raise Denied(*_strayed(pod))
        namespace = namespace or pod.metadata.namespace or "default"
        cluster = self._cluster(namespace, name, owner.uid, read)
        if cluster is None:
            _require_label_values(pod)
            return ReadCluster(namespace, name, owner.uid)
        if cluster.ignored:
            return None
        group = cluster.groups.get(group_name)
        if group is None:
            _require_label_values(pod)
            raise Denied(_no_group(group_name, cluster.name, list(cluster.groups)))
        if not 0 < group.num_of_hosts <= MAX_HOSTS:
            raise Denied(_bad_hosts(group))
        key = GroupKey(namespace, cluster.uid, group.group_name)
        if is_labelled(labels):
            return _Worker(pod, cluster, group, key, _seat_of(pod, group), None)
        return _Worker(pod, cluster, group, key, None, _adopted(pod, group))

    def _cluster(
        self, namespace: str, name: str, uid: str, read: Sequence[Read]
    ) -> ClusterFacts | None:
        """Return the RayCluster of this uid, or None when it has to be read first."""
        cluster = self._clusters.get(namespace, name)
        if cluster is None or cluster.uid != uid:
            return None
        return cluster if read or self._clusters.fresh(namespace, name) else None

    def _doubted(self, pod: Pod, namespace: str) -> ReadCluster | None:
        """Return the RayCluster of a pod that is denied, to be read again; None when it is not
        known, so that the denial does not depend on it, or when there is no watch of it.
        """
        owner = pod.controller
        namespace = namespace or pod.metadata.namespace or "default"
        cluster = self._clusters.get(namespace, pod.labels.get(names.LABEL_CLUSTER, ""))
        if (
            cluster is None
            or owner is None
            or cluster.uid != owner.uid
            or not self._clusters.watched
        ):
            return None
        return ReadCluster(namespace, cluster.name, cluster.uid)

    def _place_head(
        self, pod: Pod, namespace: str, read: Sequence[Read]
    ) -> Placement | ReadCluster | None:
        """Return what a head receives, or None for one that receives nothing."""
        owner = pod.controller
        name = pod.labels.get(names.LABEL_CLUSTER)
        if (
            owner is None
            or owner.kind != names.RAYCLUSTER_KIND
            or not name
            or not pod.spec.containers
        ):
            return None
        namespace = namespace or pod.metadata.namespace or "default"
        cluster = self._cluster(namespace, name, owner.uid, read)
        if cluster is None:
            return ReadCluster(namespace, name, owner.uid)
        if cluster.ignored or not head_receives(cluster, self.policy):
            return None
        key = GroupKey(namespace, cluster.uid, names.HEAD_GROUP)
        return self._complete(_Worker(pod, cluster, HEAD_GROUP, key, None, None), HEAD_SEAT)

    def _complete(self, worker: _Worker, seat: Seat, holder: str = "") -> Placement:
        """Return what a pod receives in a seat. Raises Denied when its replica cannot work."""
        pod, cluster, group = worker.pod, worker.cluster, worker.group
        answer = self.patches.answer(pod, seat, cluster, group, holder=holder)
        return Placement(worker.key, seat, holder, answer, pod, cluster, group, self.policy)

    def _delete(self, request: AdmissionRequest[Pod]) -> None:
        pod = request.old_object
        if (
            pod is None
            or request.dry_run
            or pod.labels.get(names.LABEL_NODE_TYPE) != names.NODE_TYPE_WORKER
        ):
            return
        owner = pod.controller
        group = pod.labels.get(names.LABEL_GROUP)
        if owner is None or group is None:
            return
        try:
            seat = seat_of(group, pod.labels, None, None)
        except Denied:
            return
        if seat is not None:
            self._identities.deleted(GroupKey(request.namespace or "", owner.uid, group), seat)


def _unknown(wanted: ReadCluster) -> Cause:
    text = f"{wanted.reason}: it was deleted or recreated, or is not there yet; KubeRay tries again"
    return Cause(NOT_FOUND, text, f"metadata.labels[{names.LABEL_CLUSTER}]")


def _seat_of(pod: Pod, group: WorkerGroup) -> Seat | None:
    """Return the seat that a pod which is created carries: within the hosts of its group."""
    hosts = group.num_of_hosts
    return seat_of(group.group_name, pod.labels, lambda: pod.spec, hosts, hosts)


def _adopted(pod: Pod, group: WorkerGroup) -> Seat | None:
    """Return the seat that a former webhook gave, None when its marks make no sense: then the pod
    gets one as any other does.
    """
    if names.LABEL_LEGACY_REPLICA_INDEX not in pod.labels:
        return None
    with suppress(Denied, msgspec.DecodeError, UnicodeDecodeError):
        return _seat_of(pod, group)
    return None


def _strayed(pod: Pod) -> list[Cause]:
    """Return all reasons why a worker pod does not say where it belongs."""
    causes = []
    for label in (names.LABEL_CLUSTER, names.LABEL_GROUP):
        if not pod.labels.get(label):
            text = (
                f"a pod with {names.LABEL_NODE_TYPE}=worker needs this label: KubeRay sets it, do "
                "not remove it"
            )
            causes.append(Cause(REQUIRED, text, f"metadata.labels[{label}]"))
    if pod.controller is None or pod.controller.kind != names.RAYCLUSTER_KIND:
        text = (
            f"a pod with {names.LABEL_NODE_TYPE}=worker needs a controller ownerReference to its "
            "RayCluster: "
            f"let KubeRay create worker pods, or remove the label from yours"
        )
        causes.append(Cause(REQUIRED, text, "metadata.ownerReferences"))
    if not pod.spec.containers:
        causes.append(
            Cause(
                REQUIRED,
                "a Ray pod needs at least one container, the first being Ray's",
                "spec.containers",
            )
        )
    return causes


def _require_label_values(pod: Pod) -> None:
    """Raise Denied when cluster or group label cannot be one, which says more than that no such
    cluster or group is known.
    """
    causes = []
    for label in (names.LABEL_CLUSTER, names.LABEL_GROUP):
        value = pod.labels[label]
        if not is_label_value(value):
            text = (
                f"{value[:LABEL_VALUE_MAX]!r} ({len(value)} characters) is not a label value: "
                f"{LABEL_VALUE_ADVICE}"
            )
            causes.append(Cause(INVALID, text, f"metadata.labels[{label}]"))
    if causes:
        raise Denied(*causes)


def _no_group(group: str, cluster: str, known: list[str]) -> Cause:
    shown = (
        ", ".join([*known[:_SHOWN_GROUPS], "…"] if len(known) > _SHOWN_GROUPS else known) or "none"
    )
    text = f"RayCluster {cluster} has no worker group {group!r}; it has {shown}"
    return Cause(NOT_FOUND, text, f"metadata.labels[{names.LABEL_GROUP}]")


def _bad_hosts(group: WorkerGroup) -> Cause:
    text = (
        f"worker group {group.group_name} has numOfHosts {group.num_of_hosts}: set it to a number "
        f"from 1 to {MAX_HOSTS}"
    )
    return Cause(INVALID, text, f"metadata.labels[{names.LABEL_GROUP}]")
