"""Identities of worker pods: replica index, host index and replica name, each assigned to 1 pod."""

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from webhook.api import names
from webhook.api.review import DUPLICATE, FORBIDDEN, Cause, Denied
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity import GroupKey, HostIdentity
from webhook.groups.identity_index import Member, Membership
from webhook.groups.required_reads import ReadGroup
from webhook.reservation.allocation import VACANT_SECONDS, Found, Request, Taken
from webhook.reservation.reservations import Reservations, standalone

T = TypeVar("T")

IdentityRequest = Request[GroupKey]

Accept = Callable[[HostIdentity, str], T]
"""Creates a response from an identity and its holder. Raises Denied if the pod cannot work
with it.
"""


class Identities:
    """Assigns identities to pods without one."""

    def __init__(self, reservations: Reservations) -> None:
        self._reservations = reservations

    async def reserve(self, request: IdentityRequest, accept: Accept[T]) -> T | ReadGroup:
        """Return the result of `accept` for an identity, once it is reserved, or the objects to
        read first. Raises Denied, also when `accept` does, and NotNow.
        """
        return await self._reservations.reserve(request, _answer(request, accept))

    def preview(self, request: IdentityRequest, accept: Accept[T]) -> T | ReadGroup:
        """Return the likely result of `reserve`, without a reservation. Raises Denied and
        NotNow.
        """
        return self._reservations.preview(request, _answer(request, accept))


class StandaloneIdentities(Identities):
    """Assigns identities if an admitted pod, or a pod of a file, counts as created until it is
    deleted. The pods are all that is known, so no table is written.
    """

    def __init__(self, members: Membership) -> None:
        super().__init__(standalone(members, ClusterIndex()))
        self._members = members
        self._pods: dict[tuple[GroupKey, HostIdentity], str] = {}

    async def reserve(self, request: IdentityRequest, accept: Accept[T]) -> T | ReadGroup:
        """Return the result of `accept` for an identity, and record its pod. A repeated review gets
        the same identity. Raises Denied.
        """
        member, key, hosts = self._members.get(request.uid), request.key, request.hosts
        if (
            member
            and member.holder
            and member.key == key
            and member.identity
            and member.identity.host < hosts
        ):
            return accept(member.identity, member.holder)

        def taking(identity: HostIdentity, holder: str) -> tuple[T, HostIdentity, str]:
            return accept(identity, holder), identity, holder

        # Without a cluster there is nothing to read live.
        result = super().preview(replace(request, read=True), taking)
        if isinstance(result, ReadGroup):
            return result
        accepted, identity, holder = result
        self._put(key, identity, request.uid, holder)
        return accepted

    def preview(self, request: IdentityRequest, accept: Accept[T]) -> T | ReadGroup:
        return super().preview(replace(request, read=True), accept)

    def carried(self, key: GroupKey, identity: HostIdentity, request_uid: str) -> None:
        """Record the pod of an identity; only the first one, because a reinvocation repeats it. In
        a cluster, the watch delivers it.
        """
        self._put(key, identity, request_uid, "")

    def deleted(self, key: GroupKey, identity: HostIdentity) -> None:
        """Remove the pod of an identity. In a cluster, the API server may still refuse that."""
        pod = self._pods.pop((key, identity), None)
        if pod is not None:
            self._members.remove(pod)

    def _put(self, key: GroupKey, identity: HostIdentity, request_uid: str, holder: str) -> None:
        if self._pods.setdefault((key, identity), request_uid) == request_uid:
            self._members.put(request_uid, Member(key, identity, holder))


def _answer(request: IdentityRequest, accept: Accept[T]) -> Callable[[Found, int], T | ReadGroup]:
    """Return a function that creates the response from an identity, or requires a read first."""

    def answer(found: Found, waiting: int) -> T | ReadGroup:
        if isinstance(found, Taken):
            raise Denied(_taken(request, found))
        if found.unconfirmed and not request.read:
            return ReadGroup(request.cluster, request.key)
        if waiting and request.given is None:
            # Not 503: where the webhook's failures are ignored, the pod would start without an
            # identity.
            raise Denied(_all_reserved(request, waiting))
        # KubeRay, too, gives no replica name to replicas of one host.
        name = found.name if request.hosts > 1 else ""
        return accept(HostIdentity(found.index, found.host, name), found.holder)

    return answer


def _all_reserved(request: IdentityRequest, unseen: int) -> Cause:
    """Return the cause if the desired replicas are full only because pods have not appeared. That
    state is short, and a pod in an additional replica would leave that replica incomplete forever.
    """
    message = (
        f"all identities of the {request.desired} replicas of worker group {request.key.group} "
        f"are reserved, {unseen} of them for pods that were admitted within the last "
        f"{VACANT_SECONDS:.0f} s and have not appeared: if the API server refused them (see "
        "earlier events: a quota, another webhook), their identities are free again after that "
        "time, and KubeRay tries again"
    )
    return Cause(FORBIDDEN, message, f"metadata.labels[{names.LABEL_GROUP}]")


def _taken(request: IdentityRequest, found: Taken) -> Cause:
    other = (
        f"the pod with the uid {found.holder} has"
        if found.holder
        else "a pod that has not appeared yet has"
    )
    message = (
        f"pod {request.pod} carries replica {found.index} host {found.host} of worker group "
        f"{request.key.group} from the previous webhook (label {names.LABEL_LEGACY_REPLICA_INDEX} "
        f"and {names.TPU_WORKER_ID}), but {other} it: remove the label and the variable from the "
        "pod template, or delete the other pod"
    )
    return Cause(DUPLICATE, message, f"metadata.labels[{names.LABEL_LEGACY_REPLICA_INDEX}]")
