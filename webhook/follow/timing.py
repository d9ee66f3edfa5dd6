"""Timing: how long we wait for the API server, and how long before we ask again."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Final

from msgspec import Struct

from webhook.groups.reads import SILENCE_SECONDS

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


class PublishingTiming(Struct, frozen=True):
    """Times of the publisher of scheduling groups, in seconds."""

    poll: float = 0.25
    """How often it looks what is wanted, which asks nobody. A pod waits for its PodGroup about this
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


class ClaimTiming(Struct, frozen=True):
    """Times of claims that are written into Leases, in seconds."""

    claim: float = 4.0
    """How long a claim is tried. The API server waits 10 s for a webhook, unless told otherwise,
    and retries a 503 within that.
    """
    look: float = 0.01
    looks: int = 10
    """How often, and how many times, we look whether the watch has caught up with what others
    wrote, before a live read.
    """
    silence: float = SILENCE_SECONDS
    """A watch that was silent for longer is not believed: what came without a claim may be unknown.
    A live read is.
    """
    quiet: float = 2.0
    """A Lease that nobody writes for this long is tidied; up to twice, so that processes do not do
    it at the same time.
    """
    settle: float = 40.0
    """How long nobody claims in a new Lease: what was admitted before it was made may be underway
    for 34 s.
    """
    tend: float = 0.5
    """How often we look whether there is something to tidy."""


class World(Struct, frozen=True):
    """What a list-watch takes from outside: chance, from 0 to 1, and monotonic time in seconds."""

    random: Callable[[], float] = random.random
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep


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
