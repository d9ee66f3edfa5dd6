"""Events on RayClusters, by `events.k8s.io/v1`: a series for each key; and the reporter
of problems, which examines all objects periodically, for events and for metrics.

https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
See docs/contributing/decisions/0024-events-from-the-controller.md.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from math import inf
from operator import itemgetter
from time import time
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

from webhook.api import names
from webhook.api.failures import UNEXPECTED
from webhook.api.formats import one_line
from webhook.cache.cluster_cache import Observing
from webhook.controller.requests import REFUSED, kind_of, log_failure, reason_of, timestamp
from webhook.controller.work_queue import Key, QueueTiming, WorkQueue
from webhook.diagnostics import tracker
from webhook.diagnostics.examiner import Examiner
from webhook.diagnostics.tracker import EventRequest, TrackedProblems, Tracker
from webhook.kubeclient.client import Api, Operation
from webhook.kubeclient.errors import ApiError
from webhook.objects.object_cache import ObjectCache

_AT_ONCE: Final = 100
"""Maximum writes per report; the rest is written with the next reports."""
_WAITING_MAX: Final = 1000
"""Maximum requests of a namespace that wait for later reports."""
_AGAIN: Final = 300.0
"""Minimum seconds between two writes of one series, if its condition has ended in between."""
_STILL: Final = 1800.0
"""The same while the condition lasts."""
_KEPT_SECONDS: Final = 3600.0
"""The API server deletes an event an hour after the last write."""
_LOST: Final = REFUSED | {"missing", UNEXPECTED}
"""Failures of one event, unrelated to other events: its namespace may be terminating."""

CONTROLLER: Final = f"{names.PREFIX.rstrip('/')}/ray-webhook-controller"
ACTION: Final = "Examine"

NOTHING: Final = TrackedProblems((), (), {})
"""The report of a process that is not the leader."""
TIMING: Final = QueueTiming(resync=10.0)


class _Series(Struct):
    count: int = 1


class _Event(Struct):
    series: _Series | None = None


class _Written(Struct):
    """The written state of a series: its count, and the time of the last write in seconds since the
    epoch. `failure` is the reason why it was not written.
    """

    count: int
    at: float
    lasting: bool = True
    failure: str = ""


class EventRecorder:
    """Writes events by request. `instance` is the `reportingInstance`.

    The name of an event is derived from its series, so that another process continues the series.
    The API server allows changes only of an event's count and last observed time.
    """

    def __init__(self, api: Api, instance: str) -> None:
        self.written: Counter[str] = Counter()
        """Events since the start, by reason."""
        self.failures: Counter[str] = Counter()
        """Failures since the start, by reason."""
        self._api = api
        self._instance = instance[:128]
        self._series: dict[tracker.SeriesKey, _Written] = {}
        self._waiting: dict[tracker.SeriesKey, EventRequest] = {}
        self._problem = ""

    async def record(self, event_requests: Iterable[EventRequest], now: float) -> None:
        """Write new events, and repeat lasting ones periodically."""
        current = {event_request.key: event_request for event_request in event_requests}
        for key, written_event in self._series.items():
            written_event.lasting = written_event.lasting and key in current
        self._series = {
            key: series for key, series in self._series.items() if now - series.at < _KEPT_SECONDS
        }
        due = {key: event_request for key, event_request in current.items() if self._due(key, now)}
        self._waiting = _take_turns(self._waiting | due)
        for key, event_request in [*self._waiting.items()][:_AT_ONCE]:
            try:
                self._series[key] = _Written(await self._write(event_request, now), now)
            # Includes our own bugs, so that one event does not block the others
            except Exception as error:  # noqa: BLE001
                self._handle_failure(event_request, error)
                # The API server itself fails, so the next events would fail too; they stay for the
                # next report. This one is the last then: its namespace may be the cause, as with an
                # event that users made too large to be changed.
                if reason_of(error) not in _LOST:
                    self._waiting[key] = self._waiting.pop(key)
                    return
                self._series[key] = _Written(0, now, failure=kind_of(error))
            else:
                self._problem = ""
                self.written[key.reason] += 1
            del self._waiting[key]

    def _due(self, key: tracker.SeriesKey, now: float) -> bool:
        series = self._series.get(key)
        at, wait = (series.at, _STILL if series.lasting else _AGAIN) if series else (-inf, 0.0)
        return now - at >= wait

    async def _write(self, event_request: EventRequest, now: float) -> int:
        """Create an event or continue its series, and return the count. Raises ApiError."""
        series = self._series.get(event_request.key)
        if series is not None and series.count:
            try:
                return await self._repeat(event_request, series.count + 1, now)
            except ApiError as error:
                if error.reason != "missing":  # the event has expired
                    raise
        try:
            await self._api.create(_collection(event_request), self._body(event_request, now))
        except ApiError as error:
            # The name depends on the series alone: a previous leader has written the event.
            if error.reason != "conflict":
                raise
        else:
            return 1
        # The count continues from the stored one: a previous leader may have counted further.
        stored_event = await self._api.read(_path(event_request), _Event)
        return await self._repeat(
            event_request, (stored_event.series.count if stored_event.series else 1) + 1, now
        )

    async def _repeat(self, event_request: EventRequest, count: int, now: float) -> int:
        series = {"count": count, "lastObservedTime": timestamp(now)}
        change: Operation = {"op": "add", "path": "/series", "value": series}
        await self._api.patch(_path(event_request), [change])
        return count

    def _body(self, event_request: EventRequest, now: float) -> dict[str, Any]:
        regarding = {
            "apiVersion": f"{names.RAY_GROUP}/{names.RAY_VERSIONS[0]}",
            "kind": names.RAYCLUSTER_KIND,
            "namespace": event_request.namespace,
            "name": event_request.cluster,
            "uid": event_request.key.uid,
        }
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": event_request.namespace, "name": _name(event_request)},
            "eventTime": timestamp(now),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "action": ACTION,
            "reason": event_request.key.reason,
            "regarding": regarding,
            "type": event_request.kind,
            "note": one_line(event_request.note),
        }

    def _handle_failure(self, event_request: EventRequest, error: Exception) -> None:
        """Count a failure, and log it if it is new."""
        kind, series = kind_of(error), self._series.get(event_request.key)
        self.failures[reason_of(error)] += 1
        if kind == self._problem or (series is not None and series.failure == kind):
            return
        if isinstance(error, ApiError):
            self._problem = kind
        message = "events: one of RayCluster %s/%s cannot be written: %s (%s)"
        log_failure(error, message, event_request.namespace, event_request.cluster)


def _take_turns(
    waiting: Mapping[tracker.SeriesKey, EventRequest],
) -> dict[tracker.SeriesKey, EventRequest]:
    """Return the requests in turns between namespaces, and at most _WAITING_MAX of each: those of
    problems that last are due again with the next report.
    """
    turns: Counter[str] = Counter()
    numbered = []
    for key, event_request in waiting.items():
        turns[event_request.namespace] += 1
        numbered.append((turns[event_request.namespace], key))
    numbered.sort(key=itemgetter(0))
    return {key: waiting[key] for turn, key in numbered if turn <= _WAITING_MAX}


def _collection(event_request: EventRequest) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{quote(event_request.namespace, safe='')}/events"


def _path(event_request: EventRequest) -> str:
    return f"{_collection(event_request)}/{quote(_name(event_request), safe='')}"


def _name(event_request: EventRequest) -> str:
    key = event_request.key
    series = "\0".join((key.uid, *key.place, key.reason)).encode()
    return f"{event_request.cluster}.{sha256(series).hexdigest()[:16]}"


class ProblemReporter:
    """Examines changed objects, and all objects at first. `last` is the last report."""

    def __init__(
        self,
        object_cache: ObjectCache,
        observing: Observing,
        recorder: EventRecorder,
        timing: QueueTiming = TIMING,
        now: Callable[[], float] = time,
    ) -> None:
        self.last = NOTHING
        self._object_cache = object_cache
        self._observing = observing
        self.recorder = recorder
        self._now = now
        self.queue = WorkQueue("events", self._reconcile, lambda: observing.listed, timing)
        self._examiner: Examiner  # set by `run`, like the tracker
        self._tracker: Tracker

    async def run(self) -> None:
        self._examiner, self._tracker = Examiner(self._object_cache), Tracker()
        try:
            await self.queue.run()
        finally:
            self._object_cache.end()
            self.last = NOTHING

    async def _reconcile(self, _: Key) -> bool:
        examiner, now = self._examiner, self._now()
        for _step in examiner.steps(now, lambda _: None):
            await asyncio.sleep(0)  # lets probes and the Lease run between RayClusters
        for name, error, new in examiner.take_failures():
            self.recorder.failures[UNEXPECTED] += 1
            if new:
                log_failure(error, "events: %s cannot be examined: %s (%s)", name)
        self.last = self._tracker.track(examiner.cluster_report(now, self._observing.unread))
        await self.recorder.record(self.last.event_requests, now)
        return False
