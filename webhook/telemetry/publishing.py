"""Metrics of the publisher of scheduling groups: what it did, and what it could not do."""

from collections.abc import Iterator
from typing import Protocol

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class Counters(Protocol):
    """What a publisher counts."""

    @property
    def done(self) -> dict[tuple[str, str], int]:
        """Objects by resource and verb."""

    @property
    def failures(self) -> dict[str, int]:
        """Failures by reason."""


class Publishing(Protocol):
    """A publisher."""

    @property
    def counters(self) -> Counters:
        """What it has done."""

    @property
    def taken_names(self) -> int:
        """How many names that it needs are those of objects which are not its own."""


class PublisherCollector(Collector):
    """Reads a publisher when metrics are scraped. Few resources, verbs and reasons."""

    def __init__(self, publisher: Publishing) -> None:
        self._publisher = publisher

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        done = CounterMetricFamily(
            "ray_webhook_scheduling_objects",
            "Workloads and PodGroups that were created, patched or deleted.",
            labels=["resource", "verb"],
        )
        failures = CounterMetricFamily(
            "ray_webhook_scheduling_failures",
            "Failures to list, create, patch or delete Workloads and PodGroups.",
            labels=["reason"],
        )
        taken = GaugeMetricFamily(
            "ray_webhook_scheduling_taken_names",
            "Workloads and PodGroups that are wanted, but whose name another object has.",
        )
        for labels, count in self._publisher.counters.done.items():
            done.add_metric([*labels], count)
        for reason, count in self._publisher.counters.failures.items():
            failures.add_metric([reason], count)
        taken.add_metric([], self._publisher.taken_names)
        yield from (done, failures, taken)
