"""Who holds which seat: pods that were seen, and seats that were handed out and not seen yet."""

from collections import Counter

from msgspec import Struct

from webhook.groups.claims import Claimed
from webhook.groups.occupancy import Occupancy
from webhook.groups.seat import GroupKey, Seat


class _Holding(Struct, frozen=True, gc=False):
    key: GroupKey
    seat: Seat
    condemned: bool = False


class Membership:
    """The seats of all worker groups.

    A seat handed out is *assumed* until a pod appears in it (`put`, confirmed) or its time is up
    (`expire`); see `Claimed`. Costs do not grow with the number of pods or groups. `now` is a
    monotonic time in seconds.
    """

    def __init__(self) -> None:
        self._groups: dict[GroupKey, Occupancy] = {}
        self._pods: dict[str, _Holding] = {}
        self._shared: dict[GroupKey, Counter[Seat]] = {}
        self._assumed: Claimed[GroupKey, Seat] = Claimed()
        self.hear = self._assumed.hear

    def __len__(self) -> int:
        """Return the number of pods that were seen."""
        return len(self._pods)

    @property
    def assumed(self) -> int:
        """The number of seats handed out whose pod was not seen yet."""
        return len(self._assumed) + sum(map(len, self._shared.values()))

    @property
    def groups(self) -> int:
        """The number of groups with a taken seat."""
        return len(self._groups)

    def group(self, key: GroupKey) -> Occupancy:
        """Return the seats of a group; of an unknown group, an empty stand-in that is not kept."""
        group = self._groups.get(key)
        return Occupancy() if group is None else group

    def put(self, pod: str, key: GroupKey, seat: Seat, *, condemned: bool = False) -> None:
        """Record that the pod with the uid `pod` lives in `seat`, which confirms the seat if it was
        assumed. While one pod of a replica is condemned, no seat of the replica is given.
        """
        holding = _Holding(key, seat, condemned)
        old = self._pods.get(pod)
        if old == holding:
            return
        if old is not None:
            self._leave(old)
        self._pods[pod] = holding
        if not self._assumed.release(key, seat):
            self._take(key, seat)
        if condemned:
            self._groups[key].close(seat.replica)

    def held(self, pod: str, key: GroupKey) -> Seat | None:
        """Return the seat of a pod in a group, or None when it was not seen there."""
        holding = self._pods.get(pod)
        return holding.seat if holding is not None and holding.key == key else None

    def remove(self, pod: str) -> None:
        """Record that a pod is gone, or on its way out; nothing happens when it is unknown."""
        holding = self._pods.pop(pod, None)
        if holding is not None:
            self._leave(holding)

    def assume(self, key: GroupKey, seat: Seat, now: float) -> None:
        """Hold `seat` for a pod that the API server may or may not create; once, however often it
        is said.
        """
        if self._assumed.reserve(key, seat, now):
            self._take(key, seat)

    def hold(self, key: GroupKey, seat: Seat) -> None:
        """Count a claim that processes share; it holds its seat, beside any pod, until it is let
        go.
        """
        self._shared.setdefault(key, Counter())[seat] += 1
        self._take(key, seat)

    def free(self, key: GroupKey, seat: Seat) -> None:
        """Let go of a claim that processes share."""
        held = self._shared[key]
        held[seat] -= 1
        if not held[seat]:
            del held[seat]
        if not held:
            del self._shared[key]
        self._release(key, seat)

    def claimed_name(self, key: GroupKey, replica: int) -> str:
        """Return the name that a replica has by a claim that processes share; empty when there is
        none.
        """
        shared = self._shared.get(key)
        if shared is None:
            return ""
        return next((seat.name for seat in shared if seat.replica == replica), "")

    def has_pod(self, key: GroupKey, seat: Seat) -> bool:
        """Tell whether a pod was seen in a seat, which may be claimed too."""
        shared = self._shared.get(key)
        claimed = (shared[seat] if shared else 0) + self._assumed.has(key, seat)
        return self.group(key).holders(seat) > claimed

    def seat_of(self, pod: str) -> Seat | None:
        """Return the seat of a pod that was seen."""
        holding = self._pods.get(pod)
        return holding.seat if holding else None

    def unseen(self, key: GroupKey, below: int) -> int:
        """Return how many seats of a group are only assumed, in replicas below an index. Looks at
        every assumed seat of it.
        """
        return sum(
            seat.replica < below for seat in (*self._assumed.of(key), *self._shared.get(key, ()))
        )

    def give_up(self, key: GroupKey, now: float) -> None:
        """Free the assumed seats of a group whose time was up at `now`, when all its pods were put.
        Looks at each of them.
        """
        for seat in self._assumed.give_up(key, now):
            self._release(key, seat)

    def expire(self, now: float) -> int:
        """Free the assumed seats whose time is up, and return how many."""
        expired = self._assumed.expire(now)
        for key, seat in expired:
            self._release(key, seat)
        return len(expired)

    def _leave(self, holding: _Holding) -> None:
        if holding.condemned:
            self._groups[holding.key].close(holding.seat.replica, -1)
        self._release(holding.key, holding.seat)

    def _take(self, key: GroupKey, seat: Seat) -> None:
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Occupancy()
        group.take(seat)

    def _release(self, key: GroupKey, seat: Seat) -> None:
        group = self._groups[key]
        group.release(seat)
        if not group:
            del self._groups[key]
