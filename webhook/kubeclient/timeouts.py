"""Timeouts of requests to the API server, and delays before retries."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from email.utils import parsedate_to_datetime
from math import inf
from typing import Final

from msgspec import Struct

DISCOVERY_SECONDS: Final = 60.0
"""How often the process checks whether the API server serves PodGroups, its release, and the fields
of KubeRay's CRD.
"""
PAGE_ITEMS: Final = 100
"""Objects per page: a page of ordinary pods has 1.2 MB."""


class Timing(Struct, frozen=True):
    """Times of a list-watch, in seconds, and the objects per page."""

    page_items: int = PAGE_ITEMS
    page_deadline: float = 60.0
    """A page takes tens of milliseconds; an overloaded API server may queue the request for up to a
    minute.
    """
    idle: float = 90.0
    """Bookmarks arrive about every 60 s, so a watch without events for longer is broken."""
    watch: float = 300.0
    """The timeout of a watch, up to doubled by chance: spreads the load over the replicas of the
    API server.
    """
    watch_interval: float = 1.0
    """Minimum interval between watches that end normally."""
    steady: float = 1.0
    """A watch that delivers events after this time is healthy: the next failure has the shortest
    delay.
    """
    first_delay: float = 0.25
    longest_delay: float = 30.0
    """Maximum of the doubling delays, and of a `Retry-After`."""
    discovery: float = DISCOVERY_SECONDS
    """How often the process checks whether PodGroups are served, if it watches them."""


class Clock(Struct, frozen=True):
    """Sources of randomness (0 to 1), of monotonic time, and of the time of the API server."""

    random: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    server_time: Callable[[], float] = lambda: -inf


class ServerTime:
    """A lower bound of the API server's time (Unix time); -inf before the first response.

    The bound never decreases: a response may be read long after it was sent, and the clocks of API
    server replicas differ by a second or two.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._ahead = -inf
        self._date = ""

    def now(self) -> float:
        return self._clock() + self._ahead

    def observe(self, date: str) -> None:
        """Update the bound by the `Date` of a new response; an invalid date is ignored."""
        if date == self._date or not date:
            return
        try:
            at = parsedate_to_datetime(date).timestamp()
        except (ValueError, OverflowError):
            return
        self._date = date
        self._ahead = max(self._ahead, at - self._clock())


class Backoff:
    """Delays that double with each failure up to a limit, with jitter over their upper half."""

    def __init__(self, first: float, longest: float, random: Callable[[], float]) -> None:
        self._first = first
        self._longest = longest
        self._random = random
        self.failures = 0

    def reset(self) -> None:
        self.failures = 0

    def next(self, at_least: float | None = None) -> float:
        """Return the delay after another failure; `at_least` is the server's `Retry-After`."""
        ceiling = min(self._longest, self._first * float(1 << min(self.failures, 32)))
        self.failures += 1
        delay = ceiling * (0.5 + 0.5 * self._random())
        return delay if at_least is None else max(min(at_least, self._longest), delay)
