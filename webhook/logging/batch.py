"""Batches: deferred work on many items at once, with warm CPU caches.

See docs/contributing/decisions/0023-layers-that-gain-too-little.md.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

SECONDS: Final = 0.25
"""Delay of a batch. A timer after each review wakes the process a second time, which at 50 reviews
a second takes a fifth of its CPU time."""

_FULL: Final = 256


class Batch(Generic[T]):
    """Collects items and passes them on after a delay, in order; without an event loop, at once."""

    def __init__(self, take: Callable[[list[T]], None]) -> None:
        self._take = take
        self._things: list[T] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, thing: T) -> None:
        """Add an item, which should be small: large items leave the CPU caches during the delay."""
        self._things.append(thing)
        if len(self._things) >= _FULL:
            self.flush()
        elif self._timer is None:
            try:
                self._timer = asyncio.get_running_loop().call_later(SECONDS, self.flush)
            except RuntimeError:
                self.flush()

    def flush(self) -> None:
        """Pass all items on. Call this before the process ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        things, self._things = self._things, []
        if things:
            self._take(things)
