"""Identities of worker pods: replica index, host index and replica name, each assigned to 1 pod."""

from collections.abc import Callable
from math import inf
from typing import TypeVar

from msgspec.structs import replace

from webhook.api import names
from webhook.api.review import (
    DUPLICATE,
    FORBIDDEN,
    Cause,
    Denied,
)
from webhook.groups.identity import GroupKey, HostIdentity
from webhook.groups.identity_index import Member, Membership
from webhook.groups.identity_request import IdentityRequest as WantedIdentity
from webhook.groups.required_reads import ReadGroup
from webhook.reservation.allocation import (
    VACANT_SECONDS,
    Request,
    Table,
    Taken,
    pending,
    without_vacant,
)
from webhook.reservation.reservations import (
    Found,
    Lists,
    ReservationRequest,
    Reservations,
    Times,
)
from webhook.reservation.stores import Key, MemoryStore

T = TypeVar("T")

Accept = Callable[[HostIdentity, str], T]
"""Creates a response from an identity and its holder. Raises Denied if the pod cannot work
with it.
"""


class Alone:
    """Lists for a process that is the only source of objects: an admitted object exists."""

    def contact(self, _key: Key) -> float:
        return inf

    def listed(self, _key: Key) -> float:
        """Return -inf: no list proves that an object does not exist."""
        return -inf

    async def relist(self, _key: Key, _cluster: str) -> None:
        """Do nothing."""


class _Pods:
    """The live pods of a group."""

    def __init__(self, members: Membership, key: GroupKey, listed: float) -> None:
        self.listed = listed
        self._members = members
        self._key = key
        self._group = members.group(key)
        self.name = self._group.name_of
        self.has_name = self._group.has_name

    def first(self, hosts: int) -> int:
        self._group.set_hosts(hosts)
        return self._group.first_vacant()

    def lacking(self, hosts: int) -> int | None:
        self._group.set_hosts(hosts)
        return self._group.first_lacking()

    def taken(self, index: int, request: Request) -> int:
        del request  # its pod does not exist yet
        return self._group.taken(index)

    def exists(self, index: int, name: str, holder: str) -> bool:
        del index, name  # labels may have been edited
        return self._members.is_live(self._key.namespace, holder)

    def gone(self, holder: str) -> bool:
        return self._members.is_gone(self._key.namespace, holder)

    def other(self, index: int, host: int, request: Request, holder: str) -> str:
        del request
        taken = self._group.taken(index) >> host & 1
        return self._members.pod_in(self._key, index, host, holder) if taken else ""


class Identities:
    """Assigns identities to pods without one."""

    def __init__(self, members: Membership, lists: Lists, reservations: Reservations) -> None:
        self._members = members
        self._lists = lists
        self._reservations = reservations

    async def reserve(self, wanted: WantedIdentity, accept: Accept[T]) -> T | ReadGroup:
        """Return the result of `accept` for an identity, once it is reserved, or the objects to
        read first. Raises Denied, also when `accept` does, and NotNow.
        """
        return await self._reservations.reserve(*self._asked(wanted, accept))

    def preview(self, wanted: WantedIdentity, accept: Accept[T]) -> T | ReadGroup:
        """Return the likely result of `reserve`, without a reservation. Raises Denied."""
        return self._reservations.preview(*self._asked(wanted, accept))

    def carried(self, key: GroupKey, seat: HostIdentity, request_uid: str) -> None:
        """Do nothing for a pod that carries its identity: the watch delivers it."""

    def deleted(self, key: GroupKey, seat: HostIdentity) -> None:
        """Do nothing: the API server may still reject the deletion."""

    def _asked(
        self, wanted: WantedIdentity, accept: Accept[T]
    ) -> tuple[ReservationRequest, Callable[[Found, list[Table]], T | ReadGroup]]:
        given = wanted.given
        request = Request(
            wanted.request_uid,
            wanted.key.group,
            wanted.hosts,
            given=(given.replica, given.host) if given else None,
            name=given.name if given else "",
        )

        def objects() -> _Pods:
            return _Pods(self._members, wanted.key, self._lists.listed(wanted.key))

        def answer(found: Found, searched: list[Table]) -> T | ReadGroup:
            if isinstance(found, Taken):
                raise Denied(_taken(wanted, found))
            if found.opens and found.index >= wanted.desired and given is None:
                if not wanted.read:
                    return ReadGroup(wanted.cluster, wanted.key)
                _refuse_while_unseen(wanted, objects(), searched)
            name = found.name if wanted.hosts > 1 else ""
            return accept(HostIdentity(found.index, found.host, name), found.holder)

        return ReservationRequest(self._lists, objects, wanted.key, request, wanted.cluster), answer


class StandaloneIdentities(Identities):
    """Assigns identities if an admitted pod, or a pod of a file, counts as created until it is
    deleted.
    """

    def __init__(self, members: Membership) -> None:
        times = Times(server=lambda: 0.0)
        super().__init__(members, Alone(), Reservations(MemoryStore(), times, inf))
        self._pods: dict[tuple[GroupKey, HostIdentity], str] = {}

    async def reserve(self, wanted: WantedIdentity, accept: Accept[T]) -> T | ReadGroup:
        """Return the result of `accept` for an identity, once it is reserved. Raises Denied."""

        def taking(seat: HostIdentity, holder: str) -> tuple[T, HostIdentity, str]:
            return accept(seat, holder), seat, holder

        found = await super().reserve(replace(wanted, read=True), taking)
        if isinstance(found, ReadGroup):
            return found
        accepted, seat, holder = found
        self._put(wanted.key, seat, wanted.request_uid, holder)
        return accepted

    def preview(self, wanted: WantedIdentity, accept: Accept[T]) -> T | ReadGroup:
        """Return the result of `reserve`, without a reservation. Raises Denied."""
        return super().preview(replace(wanted, read=True), accept)

    def carried(self, key: GroupKey, seat: HostIdentity, request_uid: str) -> None:
        """Record the pod of an identity; only the first one, because a reinvocation repeats it."""
        self._put(key, seat, request_uid, "")

    def deleted(self, key: GroupKey, seat: HostIdentity) -> None:
        pod = self._pods.pop((key, seat), None)
        if pod is not None:
            self._members.remove(pod)

    def _put(self, key: GroupKey, seat: HostIdentity, request_uid: str, holder: str) -> None:
        if self._pods.setdefault((key, seat), request_uid) == request_uid:
            self._members.put(request_uid, Member(key, seat, holder))


def _refuse_while_unseen(wanted: WantedIdentity, objects: _Pods, searched: list[Table]) -> None:
    """Raise Denied if the desired replicas are full only because pods have not appeared.

    That state is short, and a pod in an additional replica would leave that replica incomplete
    forever.
    """
    unseen = sum(
        pending(without_vacant(table, objects), objects, wanted.desired) for table in searched
    )
    if not unseen:
        return
    text = (
        f"all identities of the {wanted.desired} replicas of worker group {wanted.key.group} "
        f"are reserved, {unseen} of them for pods that were admitted within the last "
        f"{VACANT_SECONDS:.0f} s and have not appeared: if the API server refused them (see "
        "earlier events: a quota, another webhook), their identities are free again after that "
        "time, and KubeRay tries again"
    )
    raise Denied(Cause(FORBIDDEN, text, f"metadata.labels[{names.LABEL_GROUP}]"))


def _taken(wanted: WantedIdentity, found: Taken) -> Cause:
    other = (
        f"the pod with the uid {found.holder} has"
        if found.holder
        else "a pod that has not appeared yet has"
    )
    text = (
        f"pod {wanted.pod} carries replica {found.index} host {found.host} of worker group "
        f"{wanted.key.group} from the previous webhook (label {names.LABEL_LEGACY_REPLICA_INDEX} "
        f"and {names.TPU_WORKER_ID}), but {other} it: remove the label and the variable from the "
        "pod template, or delete the other pod"
    )
    return Cause(DUPLICATE, text, f"metadata.labels[{names.LABEL_LEGACY_REPLICA_INDEX}]")
