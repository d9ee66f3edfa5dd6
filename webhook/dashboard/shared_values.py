"""Values that concurrent requests share: computed once, and cached for a limited time."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Shared(Generic[K, V]):
    """A cache with a size limit and a lifetime. All requests for a key share one computation, which
    continues when a request is cancelled; failures are not cached.
    """

    def __init__(self, limit: int, seconds: float, clock: Callable[[], float]) -> None:
        self._limit = limit
        self._seconds = seconds
        self._clock = clock
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._computed: dict[K, asyncio.Task[V]] = {}

    def __contains__(self, key: K) -> bool:
        """Return whether a value was stored for a key, even if expired."""
        return key in self._kept

    async def get(self, key: K, compute: Callable[[], Awaitable[V]]) -> V:
        """Return the value of a key, cached or computed. Raises the exceptions of `compute`."""
        kept = self._kept.get(key)
        if kept is not None and self._clock() < kept[0]:
            self._kept.move_to_end(key)
            return kept[1]
        task = self._computed.get(key)
        if task is None:
            task = self._computed[key] = asyncio.create_task(self._compute(key, compute))
            task.add_done_callback(_retrieve)  # all requests may have been cancelled
        return await asyncio.shield(task)

    def put(self, key: K, value: V) -> None:
        """Store a value; above the limit, the least recently requested value is dropped."""
        self._kept[key] = (self._clock() + self._seconds, value)
        self._kept.move_to_end(key)
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)

    async def _compute(self, key: K, compute: Callable[[], Awaitable[V]]) -> V:
        try:
            value = await compute()
            self.put(key, value)
            return value
        finally:
            del self._computed[key]


def _retrieve(task: asyncio.Task[V]) -> None:
    if not task.cancelled():
        task.exception()
