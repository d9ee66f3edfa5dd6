"""Who holds which seat: pods that were seen, and seats that were handed out and not seen yet."""

from collections import deque
from math import inf
from typing import Final

from msgspec import Struct

from webhook.groups.occupancy import Occupancy
from webhook.groups.seat import GroupKey, Seat

ASSUMED_SECONDS: Final = 60.0
"""How long what was handed out, a seat or a shard index, waits for its object.

The API server bounds one admission at 34 s; what comes after it is quick.
"""


class _Holding(Struct, frozen=True, gc=False):
    key: GroupKey
    seat: Seat


class Membership:
    """The seats of all worker groups.

    A seat handed out is *assumed* until a pod appears in it (`put`, confirmed) or its time is up (`expire`). Costs do not
    grow with the number of pods or groups. `now` is a monotonic time in seconds.

    Time is up only when those who tell of pods have spoken since (`hear`): while a watch is silent or broken, a seat without
    a pod may have one.
    """

    def __init__(self) -> None:
        self._groups: dict[GroupKey, Occupancy] = {}
        self._pods: dict[str, _Holding] = {}
        self._assumed: dict[_Holding, float] = {}
        self._deadlines: deque[tuple[float, _Holding]] = deque()
        self._heard: dict[str, float] = {}
        self._told_until = inf

    def __len__(self) -> int:
        """Return the number of pods that were seen."""
        return len(self._pods)

    @property
    def assumed(self) -> int:
        """The number of seats handed out whose pod was not seen yet."""
        return len(self._assumed)

    @property
    def groups(self) -> int:
        """The number of groups with a taken seat."""
        return len(self._groups)

    def group(self, key: GroupKey) -> Occupancy:
        """Return the seats of a group; of an unknown group, an empty stand-in that is not kept."""
        group = self._groups.get(key)
        return Occupancy() if group is None else group

    def put(self, pod: str, key: GroupKey, seat: Seat) -> None:
        """Record that the pod with the uid `pod` lives in `seat`, which confirms the seat if it was assumed."""
        holding = _Holding(key, seat)
        old = self._pods.get(pod)
        if old == holding:
            return
        if old is not None:
            self._release(old)
        self._pods[pod] = holding
        if not self._assumed or self._assumed.pop(holding, None) is None:
            self._take(holding)

    def remove(self, pod: str) -> None:
        """Record that a pod is gone, or on its way out; nothing happens when it is unknown."""
        holding = self._pods.pop(pod, None)
        if holding is not None:
            self._release(holding)

    def assume(self, key: GroupKey, seat: Seat, now: float) -> None:
        """Hold `seat` for a pod that the API server may or may not create; once, however often it is said."""
        holding = _Holding(key, seat)
        if holding in self._assumed:
            return
        deadline = now + ASSUMED_SECONDS
        self._assumed[holding] = deadline
        self._deadlines.append((deadline, holding))
        self._take(holding)

    def unseen(self, key: GroupKey, below: int) -> int:
        """Return how many seats of a group are only assumed, in replicas below an index. Looks at every assumed seat."""
        return sum(holding.key == key and holding.seat.replica < below for holding in self._assumed)

    def hear(self, source: str, now: float) -> None:
        """Note that `source` has told of all pods that were created before `now`, but for what is still on its way."""
        self._heard[source] = now
        self._told_until = min(self._heard.values())

    def settle(self, key: GroupKey, now: float) -> None:
        """Free the assumed seats of a group whose time was up at `now`, when all its pods were put. Looks at every assumed seat."""
        late = [holding for holding, deadline in self._assumed.items() if holding.key == key and deadline <= now]
        for holding in late:
            del self._assumed[holding]
            self._release(holding)

    def expire(self, now: float) -> int:
        """Free the assumed seats whose time is up, and return how many."""
        if not self._deadlines:
            return 0
        expired = 0
        now = min(now, self._told_until)
        while self._deadlines and self._deadlines[0][0] <= now:
            deadline, holding = self._deadlines.popleft()
            if self._assumed.get(holding) == deadline:
                del self._assumed[holding]
                self._release(holding)
                expired += 1
        return expired

    def _take(self, holding: _Holding) -> None:
        group = self._groups.get(holding.key)
        if group is None:
            group = self._groups[holding.key] = Occupancy()
        group.take(holding.seat)

    def _release(self, holding: _Holding) -> None:
        group = self._groups[holding.key]
        group.release(holding.seat)
        if not group:
            del self._groups[holding.key]
