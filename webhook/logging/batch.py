"""Batches: work that can wait a moment is done for many things at once, from warm CPU caches.

See docs/contributing/decisions/0023-layers-that-gain-too-little.md.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

SECONDS: Final = 0.25
"""Delay of a batch. A timer that fires after each review wakes the process a second time, which at
50 reviews a second takes a fifth of its CPU time.
"""

_FULL: Final = 256


class Batch(Generic[T]):
    """Collects things and hands them over a moment later, in order; without a loop, at once."""

    def __init__(self, take: Callable[[list[T]], None]) -> None:
        self._take = take
        self._things: list[T] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, thing: T) -> None:
        """Take one thing, which should be small: large ones leave the CPU caches as they wait."""
        self._things.append(thing)
        if len(self._things) >= _FULL:
            self.flush()
        elif self._timer is None:
            try:
                self._timer = asyncio.get_running_loop().call_later(SECONDS, self.flush)
            except RuntimeError:
                self.flush()

    def flush(self) -> None:
        """Hand over all that was taken. Call it before the process ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        things, self._things = self._things, []
        if things:
            self._take(things)
