"""The work queue of a reconciler, and its reconcile loop.

Handlers of the object store add the RayClusters that changed, and a resync adds all of them. A key
is reconciled once for all changes within a tick, and never concurrently with itself.

https://pkg.go.dev/k8s.io/client-go/util/workqueue
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from math import inf
from typing import Final
from weakref import WeakValueDictionary

from msgspec import Struct

from webhook.controller.requests import OWN, log_failure, reason_of
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import Backoff, Clock

Key = tuple[str, str]
"""Namespace and name of a RayCluster."""
ALL: Final[Key] = ("", "")
"""The key of a resync, which is due at first and periodically."""

_log: Final = logging.getLogger("webhook.controller")


class QueueTiming(Struct, frozen=True):
    """Times of the work queue of a reconciler, in seconds."""

    resync: float
    tick: float = 0.25
    """The period of the loop: changes are reconciled with about this delay."""
    first_delay: float = 0.25
    longest_delay: float = 30.0


class _Item(Struct):
    delays: Backoff
    due: float = inf
    hold: float = 0.0
    """The earliest time of a retry after a failure."""
    running: bool = False
    changed: bool = False
    """Whether the configuration has changed since the reconciliation began."""
    failure: str = ""
    own: bool = False
    """Whether the failure is one of this key only, not of the API server."""


class WorkQueue:
    """Calls `reconcile` for the keys that are due, concurrently up to `workers`, at most half of
    them for one namespace, while `ready`.

    `reconcile` returns whether it has to be repeated, because an object is missing and no watch
    reports it. A repetition, and a retry after a failure, have delays that double up to a limit.
    """

    def __init__(
        self,
        title: str,
        reconcile: Callable[[Key], Awaitable[bool]],
        ready: Callable[[], bool],
        timing: QueueTiming,
        time_source: Clock | None = None,
        workers: int = 1,
    ) -> None:
        self.failures: Counter[str] = Counter()
        """By reason."""
        self._title = title
        self._reconcile = reconcile
        self._ready = ready
        self._timing = timing
        self._time_source = time_source or Clock()
        self._slots = asyncio.Semaphore(workers)
        self._share = max(workers // 2, 1)
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._items: dict[Key, _Item] = {}
        self._runs = False
        self._outage = ""

    def add(self, key: Key, *, changed: bool = False) -> None:
        """Reconcile a key soon, or after the delay of its last failure, if the queue runs. If the
        configuration of the RayCluster has `changed`, a failure is retried at once, unless it is
        one of the API server.
        """
        if not self._runs:
            return
        if (item := self._items.get(key)) is None:
            timing = self._timing
            delays = Backoff(timing.first_delay, timing.longest_delay, self._time_source.random)
            item = self._items[key] = _Item(delays)
        item.due = min(item.due, self._time_source.clock())
        item.changed |= changed
        if changed and item.own:
            item.hold = 0.0
            item.delays.reset()

    async def run(self) -> None:
        """Reconcile until cancelled, beginning with a resync."""
        self._items, self._outage, self._runs = {}, "", True
        self.add(ALL)
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    now = self._time_source.clock()
                    for key, item in [*self._items.items()] if self._ready() else ():
                        if not item.running and max(item.due, item.hold) <= now:
                            item.running = True
                            tasks.create_task(self._work(key, item))
                    await self._time_source.sleep(self._timing.tick)
        finally:
            self._runs = False

    async def _work(self, key: Key, item: _Item) -> None:
        share = self._shares.setdefault(key[0], asyncio.Semaphore(self._share))
        async with share, self._slots:
            # Before the reconciliation, so that a change during it makes the key due again.
            item.due, item.changed = inf, False
            try:
                again = await self._reconcile(key)
            # Includes our own bugs, so that one RayCluster does not block the others
            except Exception as error:  # noqa: BLE001
                self._handle_failure(key, item, error)
            else:
                self._handle_success(key, item, again=again)
        item.running = False
        if item.due == inf:
            del self._items[key]

    def _handle_success(self, key: Key, item: _Item, *, again: bool) -> None:
        if item.own:
            _log.info("%s of %s: reconciled again", self._title, _format_key(key))
        if item.failure or not again:
            item.delays.reset()
        item.failure, item.own = "", False
        if all(queued_item.own or not queued_item.failure for queued_item in self._items.values()):
            self._outage = ""
        if key == ALL or again:
            after = item.delays.next() if again else self._timing.resync
            item.due = min(item.due, self._time_source.clock() + after)

    def _handle_failure(self, key: Key, item: _Item, error: Exception) -> None:
        reason, failure, pause = reason_of(error), type(error).__name__, None
        if isinstance(error, ApiError):
            failure, pause = str(error), error.retry_after
        self.failures[reason] += 1
        previous_failure, item.failure, item.own = item.failure, failure, reason in OWN
        item.due = self._time_source.clock()
        delay = item.delays.next(pause)
        # A change since the reconciliation began may be the fix of the failure.
        item.hold = 0.0 if item.own and item.changed else item.due + delay
        if item.own and failure != previous_failure:
            log_failure(error, "%s of %s: %s (%s)", self._title, _format_key(key))
        elif not item.own and reason != self._outage:
            self._outage = reason
            message = (
                "%s: requests to the API server fail: %s (%s); asking again with growing delays"
            )
            log_failure(error, message, self._title)


def _format_key(key: Key) -> str:
    return "all RayClusters" if key == ALL else f"RayCluster {'/'.join(key)}"
