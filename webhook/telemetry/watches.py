"""Metrics of the watches: what each has done, and whether it is in step."""

from collections.abc import Callable, Iterable, Iterator
from time import monotonic
from typing import Protocol

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class Counters(Protocol):
    """What a list-watch counts."""

    @property
    def lists(self) -> int:
        """Full lists that were begun."""

    @property
    def watches(self) -> int:
        """Watches that were opened."""

    @property
    def events(self) -> int:
        """Events that were taken in."""

    @property
    def unreadable(self) -> int:
        """Objects that were not of the expected shape."""

    @property
    def errors(self) -> dict[str, int]:
        """Failures by reason."""


class Resource(Protocol):
    """What is watched."""

    @property
    def plural(self) -> str:
        """The plural of the kind."""

    @property
    def namespace(self) -> str:
        """The namespace, empty for all."""


class Watching(Protocol):
    """A list-watch."""

    @property
    def resource(self) -> Resource:
        """What it watches."""

    @property
    def heard_at(self) -> float:
        """Until when what had happened has been told, in monotonic seconds."""

    @property
    def synced(self) -> bool:
        """Tell whether its first list is complete."""

    @property
    def counters(self) -> Counters:
        """What it has done."""


class WatchCollector(Collector):
    """Reads the list-watches when metrics are scraped. A series for each resource and namespace
    that is watched, and few reasons of errors.
    """

    def __init__(
        self,
        watches: Callable[[], Iterable[Watching]],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._watches = watches
        self._clock = clock

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        labels = ["watch", "watched_namespace"]
        synced = GaugeMetricFamily(
            "ray_webhook_watch_synced",
            "1 when the first list of a watch is complete.",
            labels=labels,
        )
        age = GaugeMetricFamily(
            "ray_webhook_watch_age_seconds",
            "Seconds since the watch last received data; a healthy one is under 70 s.",
            labels=labels,
        )
        lists = CounterMetricFamily("ray_webhook_watch_lists", "Full lists begun.", labels=labels)
        opened = CounterMetricFamily("ray_webhook_watch_opened", "Watches opened.", labels=labels)
        events = CounterMetricFamily("ray_webhook_watch_events", "Events taken in.", labels=labels)
        malformed = CounterMetricFamily(
            "ray_webhook_malformed_objects",
            "Objects that were not of the shape that their kind has; they count as gone.",
            labels=labels,
        )
        errors = CounterMetricFamily(
            "ray_webhook_watch_errors",
            "Failures of lists and watches.",
            labels=[*labels, "reason"],
        )
        now = self._clock()
        for watch in self._watches():
            what = [watch.resource.plural, watch.resource.namespace]
            counters = watch.counters
            synced.add_metric(what, float(watch.synced))
            if watch.synced:
                age.add_metric(what, now - watch.heard_at)
            lists.add_metric(what, counters.lists)
            opened.add_metric(what, counters.watches)
            events.add_metric(what, counters.events)
            malformed.add_metric(what, counters.unreadable)
            for reason, count in counters.errors.items():
                errors.add_metric([*what, reason], count)
        yield from (synced, age, lists, opened, events, malformed, errors)
