"""Claims: what was handed out, a seat or a shard index, and was not seen in the cluster yet.

See docs/decisions/0005-silence-does-not-free-a-seat.md.
"""

from collections import deque
from collections.abc import Hashable, Sequence
from math import inf
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V", bound=Hashable)

ASSUMED_SECONDS: Final = 60.0
"""How long what was handed out, a seat or a shard index, waits for its object.

The API server bounds one admission at 34 s; what comes after it is quick.
"""


class Claimed(Generic[K, V]):
    """Values that were handed out under keys, such as the seats of a worker group.

    A value is *reserved* until its object is seen or it is given back (`release`), or its time is
    up (`expire`). Time is up only when those who tell of the objects have spoken since (`hear`):
    while a watch is silent or broken, a value without an object may have one. `now` is a monotonic
    time in seconds; `seconds` is `inf` where nothing expires.
    """

    def __init__(self, seconds: float = ASSUMED_SECONDS) -> None:
        self._seconds = seconds
        self._deadlines: dict[K, dict[V, float]] = {}
        self._queue: deque[tuple[float, K, V]] = deque()
        self._count = 0
        self._heard: dict[str, float] = {}
        self._told_until = inf

    def __len__(self) -> int:
        """Return how many values are reserved."""
        return self._count

    def of(self, key: K) -> Sequence[V]:
        """Return the values that are reserved under a key."""
        values = self._deadlines.get(key)
        return [*values] if values else ()

    def has(self, key: K, value: V) -> bool:
        """Tell whether a value is reserved."""
        return value in self._deadlines.get(key, ())

    def reserve(self, key: K, value: V, now: float) -> bool:
        """Hold a value, and tell whether it was not held before; its time begins once, however
        often this is said.
        """
        values = self._deadlines.get(key)
        if values is None:
            values = self._deadlines[key] = {}
        elif value in values:
            return False
        deadline = values[value] = now + self._seconds
        self._count += 1
        if deadline < inf:
            self._queue.append((deadline, key, value))
        return True

    def release(self, key: K, value: V) -> bool:
        """Let go of a value, as its object was seen or will never come, and tell whether it was
        reserved.
        """
        values = self._deadlines.get(key) if self._count else None
        if values is None or values.pop(value, None) is None:
            return False
        self._count -= 1
        if not values:
            del self._deadlines[key]
        return True

    def hear(self, source: str, now: float) -> None:
        """Note that `source` has told of all objects that were created before `now`, but for what
        is still on its way.
        """
        self._heard[source] = now
        self._told_until = min(self._heard.values())

    def expire(self, now: float) -> Sequence[tuple[K, V]]:
        """Let go of what has no time left, and return it."""
        queue = self._queue
        if not queue:
            return ()
        expired = []
        now = min(now, self._told_until)
        while queue and queue[0][0] <= now:
            deadline, key, value = queue.popleft()
            if self._deadlines.get(key, {}).get(value) == deadline:
                self.release(key, value)
                expired.append((key, value))
        return expired

    def give_up(self, key: K, now: float) -> Sequence[V]:
        """Let go of what had no time left at `now` under a key, when all its objects have been
        seen, and return it.
        """
        late = [
            value for value, deadline in self._deadlines.get(key, {}).items() if deadline <= now
        ]
        for value in late:
            self.release(key, value)
        return late
