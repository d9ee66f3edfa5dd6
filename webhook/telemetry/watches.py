"""Metrics of the watches: what each has done, and whether it is in step."""

from collections.abc import Iterator, Sequence
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
    def errors(self) -> dict[str, int]:
        """Failures by reason."""


class Watching(Protocol):
    """A list-watch."""

    @property
    def name(self) -> str:
        """What it watches."""

    @property
    def synced(self) -> bool:
        """Tell whether its first list is complete."""

    @property
    def counters(self) -> Counters:
        """What it has done."""


class WatchCollector(Collector):
    """Reads the list-watches when metrics are scraped. One label value for each watch, and few reasons of errors."""

    def __init__(self, watches: Sequence[Watching]) -> None:
        self._watches = watches

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        synced = GaugeMetricFamily("ray_webhook_watch_synced", "1 when the first list of a watch is complete.", labels=["watch"])
        lists = CounterMetricFamily("ray_webhook_watch_lists", "Full lists begun.", labels=["watch"])
        opened = CounterMetricFamily("ray_webhook_watch_opened", "Watches opened.", labels=["watch"])
        events = CounterMetricFamily("ray_webhook_watch_events", "Events taken in.", labels=["watch"])
        errors = CounterMetricFamily("ray_webhook_watch_errors", "Failures of lists and watches.", labels=["watch", "reason"])
        for watch in self._watches:
            synced.add_metric([watch.name], float(watch.synced))
            lists.add_metric([watch.name], watch.counters.lists)
            opened.add_metric([watch.name], watch.counters.watches)
            events.add_metric([watch.name], watch.counters.events)
            for reason, count in watch.counters.errors.items():
                errors.add_metric([watch.name, reason], count)
        yield from (synced, lists, opened, events, errors)
