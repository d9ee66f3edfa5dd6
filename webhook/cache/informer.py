"""A list-watch (informer): keeps a store up to date with a resource of the API server, through all
failures.

See docs/contributing/decisions/0003-list-and-watch.md.
"""

import logging
from contextlib import aclosing
from functools import partial
from math import inf
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec import Struct, field

from webhook.api.formats import in_line
from webhook.cache.store import Store, number
from webhook.kubeclient.client import JSON, METADATA, UNREADABLE, Api, decode_nested
from webhook.kubeclient.errors import ApiError, Status
from webhook.kubeclient.timeouts import Backoff, Clock, Timing
from webhook.kubeclient.wire import (
    Codec,
    Resource,
    Stub,
    Watched,
    WatchEvent,
    build_decode_error,
    pages,
)

T = TypeVar("T", bound=Watched)

_log: Final = logging.getLogger("webhook.cache")
_stubs: Final = msgspec.json.Decoder(WatchEvent[Stub])
_statuses: Final = msgspec.json.Decoder(WatchEvent[Status])
_GONE: Final = 410
_FRUITLESS: Final = 5
"""After so many consecutive failures a watch is not resumed: its resourceVersion may be the cause,
and a list needs none.
"""
_NO_ANSWER: Final = frozenset(
    {"refused", "disconnected", "timeout", "tls", "unauthorized", "forbidden", "throttled"}
)
"""Failures that are independent of the resourceVersion."""


class Counters(Struct):
    """Totals of a list-watch since the start, for metrics."""

    lists: int = 0
    """Full lists that were started."""
    relists: int = 0
    """Full lists that were completed, except for the first."""
    watches: int = 0
    """Watches that were opened."""
    events: int = 0
    unreadable: int = 0
    """Objects that could not be decoded; their previous state is kept."""
    errors: dict[str, int] = field(default_factory=dict)
    """Failures by reason."""


class ListWatch(Generic[T]):
    """Lists once, then watches; lists again only if the API server no longer has the version of the
    watch.

    `synced` becomes true with the first complete list and remains true: during an outage, the known
    state is old, not wrong, and the next list or the resumed watch updates it.
    """

    def __init__(
        self,
        api: Api,
        resource: Resource[T],
        store: Store[T, Any, Any],
        timing: Timing | None = None,
        time_source: Clock | None = None,
    ) -> None:
        self.name = resource.name
        self.resource = resource
        self.synced = False
        self.contacted_at = -inf
        """Time until which events are known to be delivered, in monotonic seconds."""
        self.counters = Counters()
        self._api = api
        self._store = store
        self._timing = timing or Timing()
        self._time_source = time_source or Clock()
        self._clock = self._time_source.clock
        self._outage = _Outage(resource.name, self._timing, self._time_source)
        self._version = ""
        self._opened = 0.0
        self._connected = False

    @property
    def problem(self) -> str:
        """Return the reason why the known state may be old; empty while a watch is open."""
        return "" if self._connected else self._outage.reason

    async def run(self) -> None:
        """Keep the store up to date, until cancelled."""
        while True:
            try:
                if not self._version:
                    await self.list()
                await self._watch()
                # A proxy or API server may end each watch at once, without an error.
                pause = self._timing.watch_interval - (self._clock() - self._opened)
            except ApiError as error:
                pause = self._record_error(error)
            await self._time_source.sleep(max(0.0, pause))

    async def list(self) -> None:
        """List all objects, after which `run` watches. Raises ApiError."""
        self.counters.lists += 1
        begun = self._clock()
        version = ""
        timing = self._timing
        list_pages = pages(self._api, self.resource, timing.page_deadline, timing.page_items)
        async with aclosing(list_pages) as portions:
            async for meta, items in portions:
                self.counters.unreadable += len(meta.unreadable)
                # The first page: all pages of a list are of its version.
                if not version:
                    version = meta.resource_version
                    if not version:
                        raise ApiError(
                            "garbled",
                            "the API server sent a list without a resourceVersion: is a proxy in "
                            "between?",
                        )
                    self._store.begin(number(version))
                for uid in meta.unreadable:
                    self._store.keep(uid)
                for item in items:
                    self._store.item(item)
        # The API server's time is unknown before the first response, so it is computed after the
        # list.
        server_time = self._time_source.server_time() - (self._clock() - begun)
        gone = self._store.end(server_time)
        self._version = version
        self.counters.relists += self.synced
        again = "again, " if self.synced else ""
        message = "%s: listed %s%d held, %d gone, at version %s"
        _log.info(message, self.name, again, len(self._store), gone, version)
        self.synced = True
        self._record_contact(begun, server_time)

    async def _watch(self) -> None:
        # Random, so that the watches of processes that started together do not end together.
        seconds = self._timing.watch * (1 + self._time_source.random())
        query = [
            ("watch", "true"),
            # Without bookmarks, the version of a quiet watch would be too old to resume after
            # minutes.
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", self._version),
            ("timeoutSeconds", str(max(1, int(seconds)))),
        ]
        self._opened = self._clock()
        async with self._api.stream(
            self.resource.path,
            [*self.resource.query, *query],
            self._timing.idle,
            METADATA if self.resource.metadata_only else JSON,
        ) as lines:
            self.counters.watches += 1
            self._opened = self._clock()
            self._connected = True
            try:
                async for line in lines:
                    self._take(line)
                    self._record_contact(self._clock(), self._time_source.server_time())
                    # A watch that fails right after its first event must not reset the growing
                    # delay.
                    if self._clock() - self._opened >= self._timing.steady:
                        self._outage.end()
            finally:
                self._connected = False
        self._outage.end()

    def _record_contact(self, now: float, server_time: float) -> None:
        self.contacted_at = now
        self._store.contacted(server_time)

    def _take(self, line: bytes) -> None:
        event = decode_event(self.resource.codec, line)
        kind, value = event.type, event.object
        version = value.metadata.resource_version
        if kind != "BOOKMARK":
            self.counters.events += 1
            self.counters.unreadable += isinstance(value, Stub)
            if kind == "DELETED":
                self._store.remove(value.metadata.uid or "")
            elif not isinstance(value, Stub):
                self._store.put(value)
        if version:
            self._version = version
            self._store.reach(number(version))

    def _record_error(self, error: ApiError) -> float:
        self.counters.errors[error.reason] = self.counters.errors.get(error.reason, 0) + 1
        pause, resumed = self._outage.failed(error, resumed=bool(self._version))
        if not resumed:
            self._version = ""
        return pause


class _Outage:
    """The failures of a list-watch since it last worked, with the delay of the retry and the
    logging. `reason` is that of the latest failure, empty without an outage.
    """

    def __init__(self, name: str, timing: Timing, time_source: Clock) -> None:
        self.reason = ""
        self._name = name
        self._clock = time_source.clock
        self._backoff = Backoff(timing.first_delay, timing.longest_delay, time_source.random)
        self._since = 0.0
        self._fruitless = 0

    def end(self) -> None:
        """Record that the list-watch works."""
        if self.reason:
            took, attempts = self._clock() - self._since, self._backoff.failures
            _log.info("%s: watching again after %.1f s and %d attempts", self._name, took, attempts)
            self.reason = ""
        self._fruitless = 0
        self._backoff.reset()

    def failed(self, error: ApiError, *, resumed: bool) -> tuple[float, bool]:
        """Return the delay before the retry, and whether the watch may be `resumed` then; log a new
        failure.
        """
        if not self.reason:
            self._since = self._clock()
        if error.reason == "expired" and self.reason != error.reason:
            self._backoff.reset()  # the API server answers, and after an outage the list is urgent
        pause = self._backoff.next(error.retry_after)
        self._fruitless += error.reason not in _NO_ANSWER
        if error.reason == "expired" or self._fruitless >= _FRUITLESS:
            resumed = False
            self._fruitless = 0
        if error.reason != self.reason:
            self.reason = error.reason
            message = "%s: %s (%s); next %s in %.1f s, then with growing delays"
            then = "watch" if resumed else "list"
            _log.warning(message, self._name, error, error.reason, then, pause)
        return pause, resumed


def decode_event(codec: Codec[T], line: bytes) -> WatchEvent[T] | WatchEvent[Stub]:
    """Return an event ADDED, MODIFIED, DELETED or BOOKMARK, with a stub for an object that cannot
    be decoded. Raises ApiError, also for an event ERROR.
    """
    try:
        event = decode_nested(partial(_decode_event, codec), line)
        if event.type == "ERROR":
            raise _build_watch_error(_statuses.decode(line).object)
    except UNREADABLE as error:
        raise build_decode_error("watch", line) from error
    return event


def _decode_event(codec: Codec[T], line: bytes) -> WatchEvent[T] | WatchEvent[Stub]:
    try:
        is_small = len(line) <= codec.limit
        return codec.events.decode(line) if is_small else codec.large_event(line)
    except msgspec.ValidationError:
        return _stubs.decode(line)


def _build_watch_error(status: Status) -> ApiError:
    message = in_line(status.message or status.reason or "")
    reason = "expired" if status.code == _GONE else "server"
    return ApiError(reason, f"the API server ended the watch with {status.code}: {message}")
