"""Metrics of reviews: how many there were, and how long each took."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from operator import add
from typing import Final

from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

_BOUNDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0)
"""Seconds. A review alone takes well under a millisecond, and waits for those that came with it;
25 ms is the second bucket of kube-apiserver's own histogram.
"""


class _Reviews:
    """Reviews of one kind, operation and verdict: how many took as long as each bucket says, and
    how many seconds all of them took.
    """

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(_BOUNDS) + 1)
        self.seconds = 0.0


class ReviewCollector(Collector):
    """Counts reviews in plain numbers, and makes metrics of them when they are scraped.

    It is used on the event loop alone, so it needs none of the locks of a Counter and a Histogram,
    which account for a third of the cost of recording a review.
    """

    def __init__(self) -> None:
        self._reviews: defaultdict[tuple[str, str, str], _Reviews] = defaultdict(_Reviews)

    def add(self, kind: str, operation: str, verdict: str, seconds: float) -> None:
        """Count one review."""
        reviews = self._reviews[kind, operation, verdict]
        reviews.buckets[bisect_left(_BOUNDS, seconds)] += 1
        reviews.seconds += seconds

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        admissions = CounterMetricFamily(
            "ray_webhook_admissions",
            "Reviews answered, by kind, operation and verdict (allowed, patched, denied).",
            labels=("kind", "operation", "verdict"),
        )
        by_kind: defaultdict[str, _Reviews] = defaultdict(_Reviews)
        for labels, reviews in self._reviews.items():
            admissions.add_metric(labels, sum(reviews.buckets))
            of_kind = by_kind[labels[0]]
            of_kind.buckets = [*map(add, of_kind.buckets, reviews.buckets)]
            of_kind.seconds += reviews.seconds
        histogram = HistogramMetricFamily(
            "ray_webhook_admission_duration_seconds",
            "Time from the first byte of a review to the last byte of its answer.",
            labels=("kind",),
        )
        for kind, reviews in by_kind.items():
            buckets = [*zip((*map(str, _BOUNDS), "+Inf"), accumulate(reviews.buckets), strict=True)]
            histogram.add_metric((kind,), buckets, reviews.seconds)
        yield from (admissions, histogram)
