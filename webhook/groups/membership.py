"""The live pods of worker groups that were observed, by identity and by holder of a reservation."""

from collections import Counter
from typing import Final

from msgspec import Struct

from webhook.groups.occupancy import Occupancy
from webhook.groups.seat import GroupKey, Seat

_GONE_MAX: Final = 1 << 14


class Member(Struct, frozen=True, gc=False):
    """A live pod: its identity, the holder of its reservation, and its name. `condemned` says that
    it is about to be deleted with its replica.
    """

    seat: Seat | None
    holder: str = ""
    name: str = ""
    condemned: bool = False


class Membership:
    """The live pods of all worker groups. Costs do not grow with the number of pods or groups."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, Occupancy] = {}
        self._pods: dict[str, tuple[GroupKey, Member]] = {}
        self._holders: Counter[tuple[str, str]] = Counter()
        """Pods by namespace and holder: several where somebody copied a manifest."""
        self._gone: dict[tuple[str, str], None] = {}
        """Holders whose pod was observed, and then its deletion; the oldest are forgotten."""

    def __len__(self) -> int:
        """Return the number of pods."""
        return len(self._pods)

    @property
    def groups(self) -> int:
        """The number of groups with a taken identity."""
        return len(self._groups)

    def group(self, key: GroupKey) -> Occupancy:
        """Return the identities of a group; of an unknown group, an empty one that is not kept."""
        group = self._groups.get(key)
        return Occupancy() if group is None else group

    def put(self, pod: str, key: GroupKey, member: Member) -> None:
        """Record the pod with the uid `pod`. While one pod of a replica is condemned, no identity
        of the replica is given.
        """
        old = self._pods.get(pod)
        if old == (key, member):
            return
        self._pods[pod] = key, member
        if member.seat is not None:
            group = self._groups.setdefault(key, Occupancy())
            group.take(member.seat)
            if member.condemned:
                group.close(member.seat.replica)
        if member.holder:
            self._holders[key.namespace, member.holder] += 1
        if old is not None:
            self._leave(*old)

    def find(self, pod: str) -> tuple[GroupKey, Member] | None:
        """Return the group of a pod, by its uid, and what is known of it."""
        return self._pods.get(pod)

    def remove(self, pod: str) -> None:
        """Record that a pod is gone, or on its way out; nothing happens when it is unknown."""
        found = self._pods.pop(pod, None)
        if found is not None:
            self._leave(*found)

    def is_live(self, namespace: str, holder: str) -> bool:
        """Return whether a pod of this holder exists."""
        return (namespace, holder) in self._holders

    def is_gone(self, namespace: str, holder: str) -> bool:
        """Return whether the pod of this holder was observed, and then its deletion."""
        return (namespace, holder) in self._gone and not self.is_live(namespace, holder)

    def pod_in(self, key: GroupKey, replica: int, host: int, holder: str) -> str:
        """Return the name of a pod of another holder that has an identity; empty without one. Looks
        at all pods.
        """
        for group, member in self._pods.values():
            seat = member.seat if group == key and member.holder != holder else None
            if seat is not None and (seat.replica, seat.host) == (replica, host):
                return member.name or "of an unknown name"
        return ""

    def _leave(self, key: GroupKey, member: Member) -> None:
        seat, holder = member.seat, (key.namespace, member.holder)
        if seat is not None:
            group = self._groups[key]
            if member.condemned:
                group.close(seat.replica, -1)
            group.release(seat)
            if not group:
                del self._groups[key]
        if member.holder:
            self._holders[holder] -= 1
            if not self._holders[holder]:
                del self._holders[holder]
                self._gone[holder] = None
                if len(self._gone) > _GONE_MAX:
                    del self._gone[next(iter(self._gone))]
