"""Metrics of reviews: plain numbers, which become metrics when they are scraped, for a review should not wait for metrics."""

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from msgspec import Struct
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

_BOUNDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0)
"""Seconds. A review takes well under a millisecond; 25 ms is the second bucket of kube-apiserver's own histogram."""

_NAMES: Final = (*(str(bound) for bound in _BOUNDS), "+Inf")


class _Durations(Struct):
    """How many reviews took how long: one count for each bound and one for what is above, and the sum in seconds."""

    counts: list[int]
    seconds: float = 0.0


class ReviewMetrics(Collector):
    """Counts reviews by kind, operation and verdict, which must have few values."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, str, str], _Durations] = {}

    def add(self, kind: str, operation: str, verdict: str, seconds: float) -> None:
        """Count one review."""
        found = self._tallies.get((kind, operation, verdict))
        if found is None:
            found = self._tallies[kind, operation, verdict] = _Durations([0] * len(_NAMES))
        found.counts[bisect_left(_BOUNDS, seconds)] += 1
        found.seconds += seconds

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        text = "Reviews answered, by kind, operation and verdict (allowed, patched, denied)."
        admissions = CounterMetricFamily("ray_webhook_admissions", text, labels=["kind", "operation", "verdict"])
        text = "Time from the first byte of a review to the last byte of its answer."
        durations = HistogramMetricFamily("ray_webhook_admission_duration_seconds", text, labels=["kind"])
        by_kind: dict[str, _Durations] = {}
        for labels, tally in self._tallies.items():
            admissions.add_metric(labels, sum(tally.counts))
            total = by_kind.setdefault(labels[0], _Durations([0] * len(_NAMES)))
            total.counts = [one + other for one, other in zip(total.counts, tally.counts, strict=True)]
            total.seconds += tally.seconds
        for kind, total in by_kind.items():
            durations.add_metric([kind], list(zip(_NAMES, map(float, accumulate(total.counts)), strict=True)), total.seconds)
        yield from (admissions, durations)
