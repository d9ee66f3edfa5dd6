"""Pods: a worker pod that KubeRay creates is seated, then completed; a head is completed; every other pod passes untouched."""

from typing import Final, Protocol

from msgspec import Struct

from webhook.admission.errors import BadReview, ClusterUnknown, Unsure
from webhook.groups.clusters import ClusterIndex
from webhook.groups.membership import Membership
from webhook.groups.seat import MAX_HOSTS, GroupKey, Seat
from webhook.groups.seating import carried_seat, next_seat, opens_beyond, refuse_while_unseen
from webhook.kube import names
from webhook.kube.objects import Pod, WorkerGroup
from webhook.kube.review import ALLOWED, INVALID, NOT_FOUND, REQUIRED, AdmissionRequest, Answer, Cause, Denied
from webhook.kube.shapes import LABEL_VALUE_ADVICE, LABEL_VALUE_MAX, is_label_value
from webhook.mutation.patch_cache import Plan, Planner
from webhook.mutation.policy import DEFAULT_POLICY, Policy
from webhook.mutation.worker import HEAD_GROUP, HEAD_SEAT

_SHOWN_GROUPS: Final = 8
"""Groups that a message names: enough to see a typo."""


class Register(Protocol):
    """Who is told of pods that come and go by way of reviews."""

    def admitted(self, request_uid: str, key: GroupKey, seat: Seat, now: float) -> None:
        """Note a pod that was admitted in `seat`."""

    def deleted(self, key: GroupKey, seat: Seat) -> None:
        """Note that the pod in `seat` is being deleted."""


class Placement(Struct, frozen=True, gc=False):
    """Where a Ray pod belongs, and what it receives there. The seat of a head is HEAD_SEAT, which nobody keeps."""

    key: GroupKey
    seat: Seat
    plan: Plan

    @property
    def seated(self) -> bool:
        """Tell whether this is a worker, which holds its seat."""
        return self.seat is not HEAD_SEAT


class PodHandler:
    """Answers reviews of Pods."""

    def __init__(self, clusters: ClusterIndex, members: Membership, register: Register, policy: Policy = DEFAULT_POLICY) -> None:
        self._clusters = clusters
        self._members = members
        self._register = register
        self._planner = Planner(policy)

    @property
    def policy(self) -> Policy:
        """What pods receive beside their seat; it may change while the service runs."""
        return self._planner.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._planner.policy = policy

    def __call__(self, request: AdmissionRequest[Pod], now: float, *, fresh: bool | None = None) -> Answer:
        """Return the answer. Raises Denied, ClusterUnknown, Unsure or BadReview.

        `fresh` tells how a replica beyond the desired count is opened: None, at once; False, not before a live read (Unsure);
        True, that read was made. Nothing is recorded on a dry run, nor for a pod that is refused.
        """
        if request.operation == "DELETE":
            self._delete(request)
            return ALLOWED
        if request.operation != "CREATE":
            return ALLOWED
        if request.object is None:
            msg = "request.object is missing: a CREATE carries the pod"
            raise BadReview(msg)
        placed = self.place(request.object, request.namespace or "", request.uid, now, fresh=fresh)
        if placed is None:
            return ALLOWED
        answer = placed.plan.answer_for(placed.seat.host)
        if not request.dry_run:
            self.admit(placed, request.uid, now)
        return answer

    def place(self, pod: Pod, namespace: str, request_uid: str, now: float, *, fresh: bool | None = None) -> Placement | None:
        """Return the placement of a Ray pod, or None for a pod that is none of ours. Records nothing.

        Raises Denied for a pod that cannot have a seat, ClusterUnknown when its RayCluster is not known; for `fresh`
        and Unsure see `__call__`.
        """
        labels = pod.labels
        node_type = labels.get(names.LABEL_NODE_TYPE)
        if node_type != names.NODE_TYPE_WORKER:
            return self._place_head(pod, namespace) if node_type == names.NODE_TYPE_HEAD else None
        owner, name, group_name = pod.controller, labels.get(names.LABEL_CLUSTER), labels.get(names.LABEL_GROUP)
        if owner is None or owner.kind != names.RAYCLUSTER_KIND or not name or not group_name or not pod.spec.containers:
            raise Denied(*_strayed(pod))
        namespace = namespace or pod.metadata.namespace or "default"
        cluster = self._clusters.get(namespace, name)
        if cluster is None or cluster.uid != owner.uid:
            _require_label_values(pod)
            raise ClusterUnknown(namespace, name, owner.uid)
        if cluster.ignored:
            return None
        group = cluster.groups.get(group_name)
        if group is None:
            _require_label_values(pod)
            raise Denied(_no_group(group_name, cluster.name, list(cluster.groups)))
        if not 0 < group.num_of_hosts <= MAX_HOSTS:
            raise Denied(_bad_hosts(group))
        self._members.expire(now)
        key = GroupKey(namespace, cluster.uid, group.group_name)
        carried = carried_seat(labels, group.num_of_hosts)
        seat = carried or next_seat(self._members, key, group.num_of_hosts, request_uid)
        if carried is None and fresh is not None and opens_beyond(self._members, key, seat, group.desired):
            self._ask(cluster.name, key, group.desired, fresh=fresh)
        plan = self._planner.plan(pod, seat, cluster, group, assigned=carried is None)
        return Placement(key, seat, plan)

    def _place_head(self, pod: Pod, namespace: str) -> Placement | None:
        """Return what a head receives, or None for one that is of no RayCluster. Raises ClusterUnknown."""
        owner = pod.controller
        name = pod.labels.get(names.LABEL_CLUSTER)
        if owner is None or owner.kind != names.RAYCLUSTER_KIND or not name or not pod.spec.containers:
            return None
        namespace = namespace or pod.metadata.namespace or "default"
        cluster = self._clusters.get(namespace, name)
        if cluster is None or cluster.uid != owner.uid:
            raise ClusterUnknown(namespace, name, owner.uid)
        if cluster.ignored:
            return None
        plan = self._planner.plan(pod, HEAD_SEAT, cluster, HEAD_GROUP, assigned=False)
        return Placement(GroupKey(namespace, cluster.uid, names.HEAD_GROUP), HEAD_SEAT, plan)

    def _ask(self, cluster: str, key: GroupKey, desired: int, *, fresh: bool) -> None:
        """Raise Unsure before a live read; after it, Denied when the group is full only of pods that nobody has seen."""
        if not fresh:
            raise Unsure(cluster, key)
        refuse_while_unseen(self._members, key, desired)

    def admit(self, placed: Placement, request_uid: str, now: float) -> None:
        """Record that a worker pod was admitted in its seat; a head has none."""
        if placed.seated:
            self._register.admitted(request_uid, placed.key, placed.seat, now)

    def _delete(self, request: AdmissionRequest[Pod]) -> None:
        pod = request.old_object
        if pod is None or request.dry_run or pod.labels.get(names.LABEL_NODE_TYPE) != names.NODE_TYPE_WORKER:
            return
        owner = pod.controller
        group = pod.labels.get(names.LABEL_GROUP)
        if owner is None or group is None:
            return
        try:
            seat = carried_seat(pod.labels, 1 if names.LABEL_HOST_INDEX not in pod.labels else MAX_HOSTS)
        except Denied:
            return
        if seat is not None:
            self._register.deleted(GroupKey(request.namespace or "", owner.uid, group), seat)


def _strayed(pod: Pod) -> list[Cause]:
    """Return all reasons why a worker pod does not say where it belongs."""
    causes = []
    for label in (names.LABEL_CLUSTER, names.LABEL_GROUP):
        if not pod.labels.get(label):
            text = f"a pod with {names.LABEL_NODE_TYPE}=worker needs this label: KubeRay sets it, do not remove it"
            causes.append(Cause(REQUIRED, text, f"metadata.labels[{label}]"))
    if pod.controller is None or pod.controller.kind != names.RAYCLUSTER_KIND:
        text = (
            f"a pod with {names.LABEL_NODE_TYPE}=worker needs a controller ownerReference to its RayCluster: "
            f"let KubeRay create worker pods, or remove the label from yours"
        )
        causes.append(Cause(REQUIRED, text, "metadata.ownerReferences"))
    if not pod.spec.containers:
        causes.append(Cause(REQUIRED, "a Ray pod needs at least one container, the first being Ray's", "spec.containers"))
    return causes


def _require_label_values(pod: Pod) -> None:
    """Raise Denied when cluster or group label cannot be one, which says more than that no such cluster or group is known."""
    causes = []
    for label in (names.LABEL_CLUSTER, names.LABEL_GROUP):
        value = pod.labels[label]
        if not is_label_value(value):
            text = f"{value[:LABEL_VALUE_MAX]!r} ({len(value)} characters) is not a label value: {LABEL_VALUE_ADVICE}"
            causes.append(Cause(INVALID, text, f"metadata.labels[{label}]"))
    if causes:
        raise Denied(*causes)


def _no_group(group: str, cluster: str, known: list[str]) -> Cause:
    shown = ", ".join([*known[:_SHOWN_GROUPS], "…"] if len(known) > _SHOWN_GROUPS else known) or "none"
    text = f"RayCluster {cluster} has no worker group {group!r}; it has {shown}"
    return Cause(NOT_FOUND, text, f"metadata.labels[{names.LABEL_GROUP}]")


def _bad_hosts(group: WorkerGroup) -> Cause:
    text = f"worker group {group.group_name} has numOfHosts {group.num_of_hosts}: set it to a number from 1 to {MAX_HOSTS}"
    return Cause(INVALID, text, f"metadata.labels[{names.LABEL_GROUP}]")
