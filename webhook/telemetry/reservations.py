"""Metrics of reservations."""

from collections.abc import Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class Counters(Protocol):
    """Totals since the start."""

    reserved: int
    repeated: int
    denied: int
    unavailable: int
    conflicts: int
    writes: int
    lists: int
    seconds: float


class Reserving(Protocol):
    """Reservations, as metrics see them."""

    @property
    def counters(self) -> Counters:
        """The totals."""

    @property
    def unseen(self) -> int:
        """How many entries have no object."""


class ReservationCollector(Collector):
    """Reads the counters when it is asked."""

    def __init__(self, reservations: Reserving) -> None:
        self._reservations = reservations

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        counters = self._reservations.counters
        outcomes = CounterMetricFamily(
            "ray_webhook_reservations",
            "Requests for a replica index or shard index, by outcome.",
            labels=["outcome"],
        )
        for outcome in ("reserved", "repeated", "denied", "unavailable"):
            outcomes.add_metric([outcome], getattr(counters, outcome))
        yield outcomes
        yield CounterMetricFamily(
            "ray_webhook_reservation_seconds", "Seconds from request to answer.", counters.seconds
        )
        yield CounterMetricFamily(
            "ray_webhook_reservation_writes", "Writes of Leases that were tried.", counters.writes
        )
        yield CounterMetricFamily(
            "ray_webhook_reservation_conflicts",
            "Writes of Leases that were rejected with a conflict (HTTP 409).",
            counters.conflicts,
        )
        yield CounterMetricFamily(
            "ray_webhook_reservation_lists", "Live lists before a reservation.", counters.lists
        )
        yield GaugeMetricFamily(
            "ray_webhook_reservations_unseen",
            "Reservations that this process made 10 to 60 s ago and whose object has not appeared.",
            self._reservations.unseen,
        )
