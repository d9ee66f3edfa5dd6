"""Metrics of replicas: how many are complete, since when others are not, and what is wrong."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

STATES: Final = ("complete", "coming", "waits", "missing")
_CLUSTER: Final = ("raycluster_namespace", "raycluster")
"""A label `namespace` would be that of the process that was scraped."""
_GROUP: Final = (*_CLUSTER, "group")


class Tally(Protocol):
    """The replicas of one group."""

    @property
    def namespace(self) -> str:
        """The namespace of the RayCluster."""

    @property
    def cluster(self) -> str:
        """The name of the RayCluster."""

    @property
    def group(self) -> str:
        """The name of the group."""

    @property
    def replicas(self) -> Mapping[str, int]:
        """How many are in each state."""

    @property
    def unseated(self) -> int:
        """How many pods lack a seat."""

    @property
    def incomplete_since(self) -> float | None:
        """When the first that is not complete became so, in seconds since the epoch."""


class Look(Protocol):
    """What was found."""

    @property
    def tallies(self) -> Sequence[Tally]:
        """Every group."""

    @property
    def troubles(self) -> Mapping[tuple[str, str, str], int]:
        """Troubles by namespace, RayCluster and diagnosis."""


class Counters(Protocol):
    """What was written."""

    @property
    def written(self) -> Mapping[str, int]:
        """Events by reason."""

    @property
    def failures(self) -> Mapping[str, int]:
        """Failures by reason."""


class ReplicaCollector(Collector):
    """Shows what was found last. Labels are names of objects, a series for each group and state."""

    def __init__(self, last: Callable[[], Look], counters: Counters) -> None:
        self._last = last
        self._counters = counters

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        replicas = GaugeMetricFamily(
            "ray_webhook_replicas",
            "Replicas by state: complete, coming, waits (something is wrong), missing.",
            labels=[*_GROUP, "state"],
        )
        since = GaugeMetricFamily(
            "ray_webhook_replica_incomplete_since_timestamp_seconds",
            "Since when the group has had a replica that is not complete; none when all are.",
            labels=_GROUP,
        )
        unseated = GaugeMetricFamily(
            "ray_webhook_pods_without_seat",
            "Worker pods without a seat that need one.",
            labels=_GROUP,
        )
        last = self._last()
        for tally in last.tallies:
            place = [tally.namespace, tally.cluster, tally.group]
            for state in STATES:
                replicas.add_metric([*place, state], tally.replicas.get(state, 0))
            unseated.add_metric(place, tally.unseated)
            if tally.incomplete_since is not None:
                since.add_metric(place, tally.incomplete_since)
        yield from (replicas, since, unseated)
        yield self._troubles(last)
        yield from self._events()

    def _troubles(self, last: Look) -> Metric:
        troubles = GaugeMetricFamily(
            "ray_webhook_troubles",
            "What is wrong, by diagnosis; that of no RayCluster has neither namespace nor name.",
            labels=[*_CLUSTER, "diagnosis"],
        )
        for place, count in last.troubles.items():
            troubles.add_metric([*place], count)
        return troubles

    def _events(self) -> Iterator[Metric]:
        text = "Events written on RayClusters, by reason."
        written = CounterMetricFamily("ray_webhook_events", text, labels=["reason"])
        for reason, count in self._counters.written.items():
            written.add_metric([reason], count)
        text = "Events that could not be written, and RayClusters that could not be looked at."
        failures = CounterMetricFamily("ray_webhook_event_failures", text, labels=["reason"])
        for reason, count in self._counters.failures.items():
            failures.add_metric([reason], count)
        yield from (written, failures)
