"""Metrics of the claims that processes share."""

from collections.abc import Iterator
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector


class Counters(Protocol):
    """What claiming has done since the start."""

    writes: int
    write_seconds: float
    conflicts: int
    failures: int
    reads: int


class Claiming(Protocol):
    """Claims, as metrics see them."""

    @property
    def counters(self) -> Counters:
        """What was done."""

    @property
    def unseen(self) -> int:
        """How many claims wait for their object, of all processes."""


class ClaimCollector(Collector):
    """Reads the counters when it is asked."""

    def __init__(self, claims: Claiming) -> None:
        self._claims = claims

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics."""
        counters = self._claims.counters
        yield CounterMetricFamily(
            "ray_webhook_claim_writes", "Writes of Leases that were tried.", counters.writes
        )
        yield CounterMetricFamily(
            "ray_webhook_claim_write_seconds",
            "Seconds from each of these writes to the API server's answer.",
            counters.write_seconds,
        )
        yield CounterMetricFamily(
            "ray_webhook_claim_conflicts",
            "Writes that another process forestalled.",
            counters.conflicts,
        )
        yield CounterMetricFamily(
            "ray_webhook_claim_failures",
            "Reads and writes of Leases that failed.",
            counters.failures,
        )
        yield CounterMetricFamily(
            "ray_webhook_claim_reads", "Live lists of a group before a claim.", counters.reads
        )
        text = (
            "Claims of all processes whose object was not seen yet: each process tells of all, so "
            "take the maximum."
        )
        yield GaugeMetricFamily("ray_webhook_claims_unseen", text, self._claims.unseen)
