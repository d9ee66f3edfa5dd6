"""Metrics of repair: what was deleted and why, what waits and why."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Protocol

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class Counters(Protocol):
    """What a repairer counts."""

    @property
    def deleted(self) -> dict[str, int]:
        """Pods by reason."""

    @property
    def failures(self) -> dict[str, int]:
        """Failures by reason."""


class Repairing(Protocol):
    """A repairer."""

    @property
    def counters(self) -> Counters:
        """What it has done."""

    @property
    def waiting(self) -> Mapping[tuple[str, str], Mapping[str, str]]:
        """Of each group, the broken replicas that are left, and why."""


class RepairCollector(Collector):
    """Reads a repairer when metrics are scraped. Few reasons."""

    def __init__(self, repairer: Repairing) -> None:
        self._repairer = repairer

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        deleted = CounterMetricFamily(
            "ray_webhook_repair_deleted_pods",
            "Pods that were deleted so that their replica is replaced whole.",
            labels=["reason"],
        )
        failures = CounterMetricFamily(
            "ray_webhook_repair_failures",
            "Failures to look at RayClusters that ask for repair, or to change their pods.",
            labels=["reason"],
        )
        waiting = GaugeMetricFamily(
            "ray_webhook_repair_waiting_replicas",
            "Broken replicas that are left as they are, for now.",
            labels=["why"],
        )
        for reason, count in self._repairer.counters.deleted.items():
            deleted.add_metric([reason], count)
        for reason, count in self._repairer.counters.failures.items():
            failures.add_metric([reason], count)
        why = Counter(why for found in self._repairer.waiting.values() for why in found.values())
        for text, count in why.items():
            waiting.add_metric([text], count)
        yield from (deleted, failures, waiting)
