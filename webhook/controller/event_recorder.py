"""Events on RayClusters, by `events.k8s.io/v1`: a series for each key of a notice.

https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
"""

from collections.abc import Iterable
from hashlib import sha256
from math import inf
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct, field

from webhook.api import names
from webhook.controller.requests import SECONDS, kind_of, log_failure, reason_of, timestamp
from webhook.diagnostics.tracker import EventRequest, Key
from webhook.kubeclient.client import Api, Operation
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.wire import decoded

_AT_ONCE: Final = 100
"""Maximum writes per report; the rest is written with the next reports."""
_AGAIN: Final = 300.0
"""Minimum seconds between two writes of one series, if its condition has ended in between."""
_STILL: Final = 1800.0
"""The same while the condition lasts. The API server deletes an event after an hour."""
_FORGET: Final = 2 * 3600.0
_LOST: Final = frozenset({"missing", "forbidden", "invalid", "status"})
"""Failures of one event, unrelated to other events: its namespace may be terminating."""

CONTROLLER: Final = f"{names.PREFIX.rstrip('/')}/ray-webhook-controller"
ACTION: Final = "Examine"


class _Series(Struct):
    count: int = 1


class _Event(Struct):
    series: _Series | None = None


class _Told(Struct):
    """The written state of a series: its count, and the time of the last write in seconds since the
    epoch. `bug` is the type of our own exception that prevented a write.
    """

    count: int
    at: float
    lasting: bool = True
    bug: str = ""


class EventCounters(Struct):
    """Counters since the start, for metrics."""

    written: dict[str, int] = field(default_factory=dict)
    """By reason of the event."""
    failures: dict[str, int] = field(default_factory=dict)
    """By reason of the failure."""

    def count(self, error: Exception) -> None:
        reason = reason_of(error)
        self.failures[reason] = self.failures.get(reason, 0) + 1


class EventRecorder:
    """Writes notices as events. `instance` is the `reportingInstance`.

    The name of an event is derived from its series, so that another process continues the series.
    The API server allows changes only of an event's count and last observed time.
    """

    def __init__(self, api: Api, instance: str) -> None:
        self.counters = EventCounters()
        self._api = api
        self._instance = instance[:128]
        self._series: dict[Key, _Told] = {}
        self._waiting: dict[Key, EventRequest] = {}
        self._trouble = ""

    async def record(self, notices: Iterable[EventRequest], now: float) -> None:
        """Write new notices, and repeat lasting ones periodically."""
        current = {notice.key: notice for notice in notices}
        for key, one in self._series.items():
            one.lasting = one.lasting and key in current
        self._series = {
            key: series for key, series in self._series.items() if now - series.at < _FORGET
        }
        self._waiting |= {key: notice for key, notice in current.items() if self._due(key, now)}
        for key, notice in [*self._waiting.items()][:_AT_ONCE]:
            try:
                self._series[key] = _Told(await self._write(notice, now), now)
            except ApiError as error:
                self._failed(error)
                if error.reason not in _LOST:
                    return
                self._series[key] = _Told(0, now)
            # Includes our own bugs, so that one notice does not block the others
            except Exception as error:  # noqa: BLE001
                self._stumbled(notice, error)
                self._series[key] = _Told(0, now, bug=kind_of(error))
            else:
                self._trouble = ""
                reason = key.reason
                self.counters.written[reason] = self.counters.written.get(reason, 0) + 1
            del self._waiting[key]

    def _due(self, key: Key, now: float) -> bool:
        series = self._series.get(key)
        at, wait = (series.at, _STILL if series.lasting else _AGAIN) if series else (-inf, 0.0)
        return now - at >= wait

    async def _write(self, notice: EventRequest, now: float) -> int:
        """Create an event or continue its series, and return the count. Raises ApiError."""
        series = self._series.get(notice.key)
        if series is not None and series.count:
            try:
                return await self._repeat(notice, series.count + 1, now)
            except ApiError as error:
                if error.reason != "missing":  # the event has expired
                    raise
        try:
            await self._api.create(_collection(notice), self._body(notice, now), SECONDS)
        except ApiError as error:
            if error.reason != "conflict":
                raise
        else:
            return 1
        there = decoded(await self._api.get(_path(notice), (), SECONDS), _Event, "an Event")
        return await self._repeat(notice, (there.series.count if there.series else 1) + 1, now)

    async def _repeat(self, notice: EventRequest, count: int, now: float) -> int:
        series = {"count": count, "lastObservedTime": timestamp(now)}
        change: Operation = {"op": "add", "path": "/series", "value": series}
        await self._api.patch(_path(notice), [change], SECONDS)
        return count

    def _body(self, notice: EventRequest, now: float) -> dict[str, Any]:
        regarding = {
            "apiVersion": f"{names.RAY_GROUP}/{names.RAY_VERSIONS[0]}",
            "kind": names.RAYCLUSTER_KIND,
            "namespace": notice.namespace,
            "name": notice.cluster,
            "uid": notice.key.uid,
        }
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"namespace": notice.namespace, "name": _name(notice)},
            "eventTime": timestamp(now),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "action": ACTION,
            "reason": notice.key.reason,
            "regarding": regarding,
            "type": notice.kind,
            "note": notice.note,
        }

    def _failed(self, error: ApiError) -> None:
        """Count a failure, and log it if it is new."""
        self.counters.count(error)
        if error.reason != self._trouble:
            self._trouble = error.reason
            log_failure(error, "events: one cannot be written: %s (%s)")

    def _stumbled(self, notice: EventRequest, error: Exception) -> None:
        """Count our own bug, and log it if it is new for the series."""
        self.counters.count(error)
        series = self._series.get(notice.key)
        if series is None or series.bug != kind_of(error):
            text = "events: one of RayCluster %s/%s cannot be written: %s (%s)"
            log_failure(error, text, notice.namespace, notice.cluster)


def _collection(notice: EventRequest) -> str:
    return f"/apis/events.k8s.io/v1/namespaces/{quote(notice.namespace, safe='')}/events"


def _path(notice: EventRequest) -> str:
    return f"{_collection(notice)}/{quote(_name(notice), safe='')}"


def _name(notice: EventRequest) -> str:
    key = notice.key
    series = "\0".join((key.uid, *key.place, key.reason)).encode()
    return f"{notice.cluster}.{sha256(series).hexdigest()[:16]}"
