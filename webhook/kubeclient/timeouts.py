"""Timing: how long we wait for the API server, and how long before we ask again."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from math import inf
from typing import Final

from msgspec import Struct

DISCOVERY_SECONDS: Final = 60.0
"""How often the API server is asked whether it serves PodGroups, of which release it is, and which
fields KubeRay's CRD has.
"""


class Timing(Struct, frozen=True):
    """Times of a list-watch, in seconds."""

    page_items: int = 250
    """Objects per page. One of large pods is then 3 MB, and 3 ms during which no review is
    answered.
    """
    page_deadline: float = 60.0
    """A page takes tens of milliseconds; an API server under pressure may queue it for a minute at
    most.
    """
    idle: float = 70.0
    """Bookmarks come every 60 s, so a watch that is silent for longer is dead."""
    watch: float = 300.0
    """A watch is asked to end after this much, up to twice: spreads the load over the replicas of
    the API server.
    """
    watch_interval: float = 1.0
    """Watches that end properly are at least this far apart."""
    steady: float = 1.0
    """A watch that delivers after this much is healthy again: the next failure waits the shortest
    time.
    """
    first_delay: float = 0.25
    longest_delay: float = 30.0
    """Delays double up to this, and a `Retry-After` counts up to this."""
    discovery: float = DISCOVERY_SECONDS
    """How often the process asks whether PodGroups are served, where it follows them."""


class PublishingTiming(Struct, frozen=True):
    """Times of the publisher of scheduling groups, in seconds."""

    poll: float = 0.25
    """How often it looks what is wanted, which asks no one. A pod waits for its PodGroup about this
    long.
    """
    sweep: float = 60.0
    """How often it lists all its objects, to find what others did to them."""
    first_delay: float = 0.25
    first_look: float = 1.0
    """Another look at objects that only time can change, such as one that is being deleted; the
    next ones take longer.
    """
    longest_delay: float = 30.0


class Clock(Struct, frozen=True):
    """What a list-watch takes from outside: chance, from 0 to 1, monotonic time in seconds, and the
    time of the API server as far as it is known.
    """

    random: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    server_time: Callable[[], float] = lambda: -inf


class Backoff:
    """Delays that double with each failure, up to a limit, and are spread by chance over their
    upper half.
    """

    def __init__(self, first: float, longest: float, random: Callable[[], float]) -> None:
        self._first = first
        self._longest = longest
        self._random = random
        self.failures = 0

    def reset(self) -> None:
        """Start again from the shortest delay."""
        self.failures = 0

    def next(self, at_least: float = 0.0) -> float:
        """Return the delay after one more failure; `at_least` is what the server asked for."""
        ceiling = min(self._longest, self._first * float(1 << min(self.failures, 32)))
        self.failures += 1
        return max(min(at_least, self._longest), ceiling * (0.5 + 0.5 * self._random()))
