"""A limit on the bytes of large request bodies."""

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final

IN_FLIGHT_MAX: Final = 64 * 1024 * 1024
"""Bytes of all large bodies together, from their first part until their response."""

_PAUSE_SECONDS: Final = 0.0005
"""Decrypting and storing a part of 64 KiB takes about a quarter of this time."""


class OverBudget(Exception):  # noqa: N818 - named for what it is
    """The large bodies exceed the limit, and this one is the largest that is incomplete."""


class BodyBudget:
    """Limits the bytes of large bodies. Above the limit, the largest incomplete body is dropped, so
    that smaller ones are still received.
    """

    def __init__(self, limit: int = IN_FLIGHT_MAX) -> None:
        self._limit = limit
        self._total = 0
        self._held: dict[asyncio.Task[Any], int] = {}
        self._incomplete: dict[asyncio.Task[Any], int] = {}

    @property
    def pause(self) -> float:
        """Return the seconds between two parts of a body, by the number of large bodies, so that
        the event loop spends most of its time on small ones.
        """
        return _PAUSE_SECONDS * max(0, len(self._incomplete) - 1)

    @contextmanager
    def body(self) -> Generator[Callable[[int, bool], None]]:
        """Return the counter of a body that the current task receives and answers within the block:
        it is called with the bytes received so far, and with whether the body is complete.

        The counter raises OverBudget; so does the task's next await when the body is dropped.
        """
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a body is received outside of a task")
        self._held[task] = 0

        def count(size: int, complete: bool) -> None:  # noqa: FBT001 - a Callable has no names
            self._total += size - self._held[task]
            self._held[task] = self._incomplete[task] = size
            while self._total > self._limit:
                self._give_up(task)
            if complete:
                del self._incomplete[task]

        try:
            yield count
        except asyncio.CancelledError:
            if task in self._held:  # the server cancels the task
                raise
            # The budget cancelled the task, not the server: it still sends the refusal.
            task.uncancel()
            raise OverBudget from None
        finally:
            self._incomplete.pop(task, None)
            self._total -= self._held.pop(task, 0)

    def _give_up(self, running: asyncio.Task[Any]) -> None:
        """Drop the largest incomplete body. Raises OverBudget if it is that of `running`."""
        largest = max(self._incomplete, key=self._incomplete.__getitem__)
        del self._incomplete[largest]
        self._total -= self._held.pop(largest)
        if largest is running:
            raise OverBudget
        largest.cancel()
