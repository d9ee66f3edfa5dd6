"""Counts of reviews: their number, durations, and reasons of denials."""

from bisect import bisect_left
from collections import Counter, defaultdict
from itertools import accumulate
from operator import add
from typing import Final

from webhook.api.review import CAUSE_TYPES
from webhook.metrics import table
from webhook.metrics.collector import Buckets, Metrics

_OPERATIONS: Final = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})
_KINDS: Final = frozenset({"Pod", "RayCluster", "RayJob", "RayService", "RayCronJob"})
_OTHER: Final = "other"

_BOUNDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0)
"""Seconds. A single review takes well under a millisecond, plus the time of concurrent reviews; 25
ms is the second bucket of kube-apiserver's own histogram."""


class _Reviews:
    """Reviews of one kind, operation and verdict: counts by bucket, and the sum in seconds."""

    __slots__ = ("buckets", "seconds")

    def __init__(self) -> None:
        self.buckets = [0] * (len(_BOUNDS) + 1)
        self.seconds = 0.0


class ReviewCounts:
    """Counts reviews in plain numbers, which a scrape converts to metrics.

    Only the event loop uses the counts, so they need none of the locks of a Counter and a
    Histogram, which take a third of the time to record a review. Labels have few values, whatever
    clients send.
    """

    def __init__(self, metrics: Metrics) -> None:
        self._reviews: defaultdict[tuple[str, str, str], _Reviews] = defaultdict(_Reviews)
        self._denials: Counter[tuple[str, str]] = Counter()
        self._rules: Counter[str] = Counter()
        self._warned: Counter[str] = Counter()
        self._refusals: Counter[str] = Counter()
        self.undecided = 0
        metrics.expose(table.ADMISSIONS, self._admissions)
        metrics.expose(table.ADMISSION_DURATION, self._durations)
        metrics.expose(table.DENIALS, lambda: self._denials)
        metrics.expose(table.RULE_DENIALS, lambda: self._rules)
        metrics.expose(table.RULE_WARNINGS, lambda: self._warned)
        metrics.expose(table.REFUSED_REQUESTS, lambda: self._refusals)
        metrics.expose(table.UNDECIDED_REVIEWS, lambda: self.undecided)

    def reviewed(self, kind: str, operation: str, verdict: str, seconds: float) -> None:
        if kind not in _KINDS:
            kind = _OTHER
        if operation not in _OPERATIONS:
            operation = _OTHER
        reviews = self._reviews[kind, operation, verdict]
        reviews.buckets[bisect_left(_BOUNDS, seconds)] += 1
        reviews.seconds += seconds

    def denied(self, kind: str, reason: str) -> None:
        """Count one cause of a denial."""
        known = kind if kind in _KINDS else _OTHER, reason if reason in CAUSE_TYPES else _OTHER
        self._denials[known] += 1

    def ruled_out(self, rule: str) -> None:
        """Count one object that a rule denied."""
        self._rules[rule] += 1

    def warned_of(self, rule: str) -> None:
        """Count one object that a rule warned of."""
        self._warned[rule] += 1

    def refused(self, status: int) -> None:
        """Count one request that was no review."""
        self._refusals[str(status)] += 1

    def _admissions(self) -> dict[tuple[str, str, str], int]:
        return {labels: sum(reviews.buckets) for labels, reviews in self._reviews.items()}

    def _durations(self) -> dict[str, Buckets]:
        by_kind: defaultdict[str, _Reviews] = defaultdict(_Reviews)
        for (kind, _, _), reviews in self._reviews.items():
            by_kind[kind].buckets = [*map(add, by_kind[kind].buckets, reviews.buckets)]
            by_kind[kind].seconds += reviews.seconds
        bounds = (*map(str, _BOUNDS), "+Inf")
        return {
            kind: Buckets([*zip(bounds, accumulate(found.buckets), strict=True)], found.seconds)
            for kind, found in by_kind.items()
        }
