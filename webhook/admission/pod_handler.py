"""Pods: a worker pod of KubeRay is assigned an identity and mutated; a head is mutated; every other
pod is unchanged.

See docs/contributing/decisions/0012-workers-need-their-owner.md.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

import msgspec
from msgspec import Struct

from webhook.api import names
from webhook.api.formats import LABEL_VALUE_ADVICE, is_label_value, shorten
from webhook.api.objects import Pod, Strings, WorkerGroup
from webhook.api.review import (
    ALLOWED,
    INVALID,
    NOT_FOUND,
    REQUIRED,
    AdmissionRequest,
    Answer,
    BadReview,
    Cause,
    Denied,
    WorkerIdentity,
)
from webhook.groups.group_config import ClusterIndex, RayClusterConfig, too_large
from webhook.groups.identity import MAX_HOSTS, GroupKey, HostIdentity
from webhook.groups.identity_labels import identity_of, read_identity_labels
from webhook.groups.required_reads import Read, ReadCluster, ReadGroup
from webhook.mutation.patch_template import PatchCache
from webhook.mutation.pipeline import answer, head_receives
from webhook.mutation.preconditions import require_few_containers
from webhook.mutation.ray_pod import (
    DEFAULT_POLICY,
    HEAD_GROUP,
    HEAD_IDENTITY,
    Policy,
    Replica,
    read_replica,
)
from webhook.reservation.allocation import Request
from webhook.reservation.identities import Identities, IdentityRequest, StandaloneIdentities

_SHOWN_GROUPS: Final = 8
"""Groups in a message, enough to find a typo."""


class RayPod(Struct, frozen=True, gc=False):
    """A Ray pod, its group in the RayCluster, and the identity from its labels, or from a previous
    webhook, if any. A head carries HEAD_IDENTITY.
    """

    pod: Pod
    cluster: RayClusterConfig
    group: WorkerGroup
    key: GroupKey
    carried: HostIdentity | None = None
    adopted: HostIdentity | None = None

    def build_request(self, request_uid: str, read: Sequence[Read]) -> IdentityRequest:
        group, meta = self.group, self.pod.metadata
        return Request(
            self.cluster.name,
            self.key,
            hosts=group.num_of_hosts,
            desired=group.desired,
            uid=request_uid,
            read=ReadGroup in map(type, read),
            given=self.adopted,
            pod=meta.name or f"{meta.generate_name or ''}*",
        )

    def replica(self, identity: HostIdentity, holder: str, policy: Policy) -> Replica:
        """Return the replica of the pod with an identity. Raises Denied."""
        return read_replica(
            self.pod, identity, self.cluster, self.group, holder=holder, policy=policy
        )


class PodDecision(Struct, frozen=True, gc=False):
    """The identity of a Ray pod, and its response. The identity of a head is HEAD_IDENTITY, which
    is not reserved. `holder` is that of the reservation; empty if the pod carries its identity.
    """

    ray_pod: RayPod
    identity: HostIdentity
    holder: str
    answer: Answer
    policy: Policy

    @property
    def located(self) -> Answer:
        """Return the response, with the identity of a worker for log and audit."""
        if not self.has_identity:
            return self.answer
        ray_pod, identity = self.ray_pod, self.identity
        place = WorkerIdentity(
            ray_pod.cluster.name, ray_pod.key.group, identity.replica, identity.host
        )
        return Answer((), self.answer.patch, self.answer.warnings, place=place)

    @property
    def has_identity(self) -> bool:
        """Return whether this is a worker, which has an identity."""
        return self.identity is not HEAD_IDENTITY

    @property
    def replica(self) -> Replica:
        return self.ray_pod.replica(self.identity, self.holder, self.policy)


class PodHandler:
    """Answers reviews of Pods. `policy` is replaced when the configuration changes."""

    def __init__(
        self, clusters: ClusterIndex, identities: Identities, policy: Policy = DEFAULT_POLICY
    ) -> None:
        self._clusters = clusters
        self._identities = identities
        self._standalone = identities if isinstance(identities, StandaloneIdentities) else None
        self.policy = policy
        self.patches = PatchCache()

    async def __call__(
        self, request: AdmissionRequest[Pod], read: Sequence[Read] = (), *, large: bool = False
    ) -> Answer | Read:
        """Return the response, or the objects to read first, none of which is in `read`. Raises
        Denied or BadReview; a denial because of a RayCluster requires a read.

        Nothing is recorded for a dry run, nor for a pod that is denied.
        """
        if request.operation == "DELETE" and self._standalone and not request.dry_run:
            deleted = _read_deleted_identity(request)
            if deleted is not None:
                self._standalone.deleted(*deleted)
        if request.operation != "CREATE":
            return ALLOWED
        pod, namespace = request.object, request.namespace or "default"
        if pod is None:
            msg = "request.object is missing: a CREATE carries the pod"
            raise BadReview(msg)
        dry_run = bool(request.dry_run)
        try:
            placed = await self.place(
                pod, namespace, request.uid, read, dry_run=dry_run, large=large
            )
        # The cached RayCluster may be older than the one by which KubeRay created the pod.
        except Denied:
            cluster = None if read or not self._clusters.watched else self._owner(pod, namespace)
            if cluster is None:  # the denial does not depend on a RayCluster that may have changed
                raise
            return ReadCluster(cluster.namespace, cluster.name, cluster.uid)
        match placed:
            case None:
                return ALLOWED
            case PodDecision():
                return placed.located
            # A live list did not contain it either, so no later read of this review would.
            case ReadCluster() if read:
                raise Denied(_describe_missing_cluster(placed))
            case _:
                return placed

    async def place(
        self,
        pod: Pod,
        namespace: str,
        request_uid: str,
        read: Sequence[Read] = (),
        *,
        dry_run: bool = False,
        large: bool = False,
    ) -> PodDecision | Read | None:
        """Return the decision for a Ray pod, whose identity is reserved unless this is a dry run,
        or the objects to read first; None for other pods.

        `read` are the objects that were read for this pod. A `large` pod is not kept for a
        template. Raises Denied for a pod that cannot have an identity.
        """
        ray_pod = self._recognize(pod, namespace, read)
        if not isinstance(ray_pod, RayPod):
            return ray_pod
        carried = ray_pod.carried
        if carried is not None:
            placed = self._complete(ray_pod, carried, large=large)
            if self._standalone and placed.has_identity and not dry_run:
                self._standalone.carried(ray_pod.key, carried, request_uid)
            return placed
        identity_request = ray_pod.build_request(request_uid, read)
        complete = partial(self._complete, ray_pod, large=large)
        if dry_run:
            return self._identities.preview(identity_request, complete)
        return await self._identities.reserve(identity_request, complete)

    def _recognize(
        self, pod: Pod, namespace: str, read: Sequence[Read]
    ) -> RayPod | ReadCluster | None:
        """Return a Ray pod with its group, or None for any other pod. Raises Denied."""
        meta, labels = pod.metadata, pod.metadata.labels or {}
        node_type = labels.get(names.LABEL_NODE_TYPE)
        head = node_type == names.NODE_TYPE_HEAD
        if not head and node_type != names.NODE_TYPE_WORKER:
            return None
        owner, name = meta.controller, labels.get(names.LABEL_CLUSTER)
        group_name = names.HEAD_GROUP if head else labels.get(names.LABEL_GROUP)
        if (
            owner is None
            or owner.kind != names.RAYCLUSTER_KIND
            or not name
            or not group_name
            or not pod.spec.containers
        ):
            # A head without an owner is not of KubeRay, and needs no identity.
            if head:
                return None
            raise Denied(*_find_invalid_references(pod))
        cluster = self._clusters.current(namespace, name, owner.uid, read=bool(read))
        if cluster is None:
            if not head:
                _require_label_values(labels)
            return ReadCluster(namespace, name, owner.uid)
        if cluster.ignored or (head and not head_receives(cluster, self.policy)):
            return None
        key = GroupKey(namespace, cluster.uid, group_name)
        if head:
            return RayPod(pod, cluster, group=HEAD_GROUP, key=key, carried=HEAD_IDENTITY)
        return _read_worker(pod, labels, cluster, key)

    def _owner(self, pod: Pod, namespace: str) -> RayClusterConfig | None:
        """Return the known RayCluster of a pod, however old its state is."""
        owner, name = pod.controller, pod.labels.get(names.LABEL_CLUSTER, "")
        return self._clusters.current(namespace, name, owner.uid, read=True) if owner else None

    def _complete(
        self, ray_pod: RayPod, identity: HostIdentity, holder: str = "", *, large: bool
    ) -> PodDecision:
        """Return the decision for a pod with an identity. Raises Denied if its replica cannot
        work.
        """
        policy = self.policy
        if large:
            require_few_containers(ray_pod.pod.spec, ray_pod.group.group_name)
            pod_answer = answer(ray_pod.replica(identity, holder, policy), identity.host)
        else:
            pod, cluster, group = ray_pod.pod, ray_pod.cluster, ray_pod.group
            pod_answer = self.patches.answer(
                pod, identity, cluster, group=group, policy=policy, holder=holder
            )
        return PodDecision(ray_pod, identity, holder=holder, answer=pod_answer, policy=policy)


def _read_deleted_identity(request: AdmissionRequest[Pod]) -> tuple[GroupKey, HostIdentity] | None:
    pod = request.old_object
    if pod is None or pod.labels.get(names.LABEL_NODE_TYPE) != names.NODE_TYPE_WORKER:
        return None
    owner, group = pod.controller, pod.labels.get(names.LABEL_GROUP)
    if owner is None or group is None:
        return None
    with suppress(Denied):
        identity = identity_of(group, pod.labels, None, None)
        return (
            None
            if identity is None
            else (GroupKey(request.namespace or "", owner.uid, group), identity)
        )
    return None


def _read_worker(pod: Pod, labels: Strings, cluster: RayClusterConfig, key: GroupKey) -> RayPod:
    """Return a worker of a RayCluster. Raises Denied."""
    group = cluster.groups.get(key.group)
    if group is None:
        _require_label_values(labels)
        raise Denied(_describe_missing_group(key.group, cluster))
    # An explicit 0 bypasses the default of the CRD, which has no minimum.
    if not 0 < group.num_of_hosts <= MAX_HOSTS:
        raise Denied(_describe_invalid_hosts(group))
    # Before the legacy label: KubeRay reads these back, so they may not be changed.
    carried = read_identity_labels(labels, group.num_of_hosts)
    if carried is not None:
        return RayPod(pod, cluster, group=group, key=key, carried=carried)
    adopted = _read_legacy_identity(pod, group)
    _require_label_values(labels)
    return RayPod(pod, cluster, group=group, key=key, carried=None, adopted=adopted)


def _describe_missing_cluster(read: ReadCluster) -> Cause:
    message = (
        f"{read.reason}: it was deleted or recreated, or was created just now; KubeRay tries again"
    )
    return Cause(NOT_FOUND, message, f"metadata.labels[{names.LABEL_CLUSTER}]")


def _read_legacy_identity(pod: Pod, group: WorkerGroup) -> HostIdentity | None:
    """Return the identity that the previous webhook assigned, within the hosts of the group; None
    if it is invalid: then the pod is assigned a new one.
    """
    hosts = group.num_of_hosts
    if names.LABEL_LEGACY_REPLICA_INDEX not in pod.labels:
        return None
    with suppress(Denied, msgspec.DecodeError, UnicodeDecodeError):
        return identity_of(
            group.group_name, pod.labels, spec=lambda: pod.spec, hosts=hosts, bound=hosts
        )
    return None


def _find_invalid_references(pod: Pod) -> list[Cause]:
    """Return all missing or invalid references of a worker pod to its RayCluster and group."""
    worker = f"a pod with {names.LABEL_NODE_TYPE}=worker needs"
    causes = [
        Cause(
            REQUIRED,
            f"{worker} this label: KubeRay sets it, do not remove it",
            f"metadata.labels[{label}]",
        )
        for label in (names.LABEL_CLUSTER, names.LABEL_GROUP)
        if not pod.labels.get(label)
    ]
    if pod.controller is None or pod.controller.kind != names.RAYCLUSTER_KIND:
        message = (
            f"{worker} a controller ownerReference to its RayCluster: let KubeRay create worker "
            "pods, or remove the label from yours"
        )
        causes.append(Cause(REQUIRED, message, "metadata.ownerReferences"))
    if not pod.spec.containers:
        message = "a Ray pod needs at least one container, the first being Ray's"
        causes.append(Cause(REQUIRED, message, "spec.containers"))
    return causes


def _require_label_values(labels: Strings) -> None:
    """Raise Denied if the cluster or group label is not a valid label value, which is more specific
    than an unknown cluster or group.
    """
    causes = [
        Cause(
            INVALID,
            f"{shorten(labels[label])!r} ({len(labels[label])} characters) is not a label value: "
            f"{LABEL_VALUE_ADVICE}",
            f"metadata.labels[{label}]",
        )
        for label in (names.LABEL_CLUSTER, names.LABEL_GROUP)
        if not is_label_value(labels[label])
    ]
    if causes:
        raise Denied(*causes)


def _describe_missing_group(group: str, cluster: RayClusterConfig) -> Cause:
    group_names = list(cluster.groups)
    ellipsis = ["…"] if len(group_names) > _SHOWN_GROUPS else []
    group_list = ", ".join([*group_names[:_SHOWN_GROUPS], *ellipsis]) or "none"
    message = f"RayCluster {cluster.name} has no worker group {group!r}; it has {group_list}"
    if cluster.unread_bytes:
        message = f"RayCluster {cluster.name} {too_large(cluster.unread_bytes)}"
    return Cause(NOT_FOUND, message, f"metadata.labels[{names.LABEL_GROUP}]")


def _describe_invalid_hosts(group: WorkerGroup) -> Cause:
    message = (
        f"worker group {group.group_name} has numOfHosts {group.num_of_hosts}: set it to a number "
        f"from 1 to {MAX_HOSTS}"
    )
    return Cause(INVALID, message, f"metadata.labels[{names.LABEL_GROUP}]")
