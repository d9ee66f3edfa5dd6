"""Observed live pods of worker groups, by identity and by holder of a reservation."""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from msgspec import Struct

from webhook.groups.identity import GroupKey, HostIdentity
from webhook.groups.taken_indices import Occupancy

_GONE_MAX: Final = 1 << 14


class Member(Struct, frozen=True, gc=False):
    """A live pod: its worker group, its identity, and the holder of its reservation. `marked`: the
    pod is marked for deletion with its replica.
    """

    key: GroupKey
    seat: HostIdentity | None
    holder: str = ""
    marked: bool = False


class Membership:
    """Live pods of all worker groups, by uid. Lookups for a review take constant time."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, Occupancy] = {}
        self._pods: dict[str, Member] = {}
        self._holders: dict[str, Counter[str]] = {}
        """Numbers of pods by namespace and holder; copied manifests have the same holder."""
        self._gone: dict[tuple[str, str], None] = {}
        """Holders whose pod was observed, and then its deletion; the oldest are dropped."""

    def __len__(self) -> int:
        return len(self._pods)

    @property
    def groups(self) -> int:
        return len(self._groups)

    def group(self, key: GroupKey) -> Occupancy:
        """Return the identities of a group; for an unknown group, a new and empty one."""
        group = self._groups.get(key)
        return Occupancy() if group is None else group

    def put(self, uid: str, value: Member) -> None:
        """Add a pod. No identity of a replica is assigned while a pod of the replica is marked for
        deletion.
        """
        old = self._pods.get(uid)
        if old == value:
            return
        self._pods[uid] = value
        if value.seat is not None:
            group = self._groups.setdefault(value.key, Occupancy())
            group.take(value.seat)
            if value.marked:
                group.close(value.seat.replica)
        if value.holder:
            self._holders.setdefault(value.key.namespace, Counter())[value.holder] += 1
        if old is not None:
            self._leave(old)

    def get(self, uid: str) -> Member | None:
        return self._pods.get(uid)

    def items(self) -> Iterable[tuple[str, Member]]:
        return self._pods.items()

    def remove(self, uid: str) -> None:
        found = self._pods.pop(uid, None)
        if found is not None:
            self._leave(found)

    def holders(self, namespace: str) -> Collection[str]:
        """Return the holders of the live pods in a namespace."""
        return self._holders.get(namespace, ())

    def is_gone(self, namespace: str, holder: str) -> bool:
        """Return whether the pod of this holder was observed, and then its deletion."""
        return (namespace, holder) in self._gone and holder not in self.holders(namespace)

    def pod_in(self, key: GroupKey, replica: int, host: int, holder: str) -> str:
        """Return the uid of a pod of another holder that has an identity, or an empty text.
        Iterates over all pods.
        """
        for uid, member in self._pods.items():
            seat = member.seat if member.key == key and member.holder != holder else None
            if seat is not None and (seat.replica, seat.host) == (replica, host):
                return uid
        return ""

    def _leave(self, member: Member) -> None:
        key, seat, holder = member.key, member.seat, member.holder
        if seat is not None:
            group = self._groups[key]
            if member.marked:
                group.close(seat.replica, -1)
            group.release(seat)
            if not group:
                del self._groups[key]
        if holder:
            holders = self._holders[key.namespace]
            holders[holder] -= 1
            if not holders[holder]:
                del holders[holder]
                self._gone[key.namespace, holder] = None
                if len(self._gone) > _GONE_MAX:
                    del self._gone[next(iter(self._gone))]
