"""The observer of reviews: a log line and metrics of each."""

import asyncio
import traceback
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable
from itertools import accumulate
from operator import add
from time import monotonic, time
from typing import Final

from webhook.admission.reviewer import Outcome
from webhook.api import names
from webhook.api.formats import shorten
from webhook.api.objects import Pod
from webhook.api.review import CAUSE_TYPES, Answer
from webhook.logging.log import Admission, Log, timestamp
from webhook.metrics import table
from webhook.metrics.collector import Buckets, Metrics, RateLimit

REFUSALS: Final = 10
REFUSALS_A_SECOND: Final = 5
"""Maximum log lines of rejected requests, in a burst and per second: any client can send such
requests."""

BATCH_SECONDS: Final = 0.25
"""Delay of log lines. A timer after each review wakes the process a second time, which at 50
reviews a second takes a fifth of its CPU time."""

_BATCH_LINES: Final = 256

_TEXT: Final = 253
"""Characters of each text of a request in a line: as many as a name has at most."""
_REASONS: Final = 20
"""Fields in the line of a denial."""

_OPERATIONS: Final = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})
_KINDS: Final = frozenset({"Pod", "RayCluster", "RayJob", "RayService", "RayCronJob", "Eviction"})
_OTHER: Final = "other"

_BOUNDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0)
"""Seconds. A single review takes well under a millisecond, plus the time of concurrent reviews; 25
ms is the second bucket of kube-apiserver's own histogram."""


class ReviewObserver:
    """Logs and counts reviews. `quiet` omits the log lines of allowed reviews.

    Both are done in batches, in order, with warm CPU caches; without an event loop, at once. See
    docs/contributing/decisions/0023-patch-templates-and-other-layers.md.
    """

    def __init__(
        self,
        log: Log,
        counts: "ReviewCounts",
        *,
        quiet: bool = False,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._log = log
        self._counts = counts
        self._quiet = quiet
        self._reviews: list[tuple[Admission, float, float]] = []
        """For each review its line, its time, and its duration in seconds. Large items would leave
        the CPU caches during the delay."""
        self._timer: asyncio.TimerHandle | None = None
        self._limit = RateLimit(REFUSALS, REFUSALS_A_SECOND, clock)
        self._omitted = 0
        """Rejected requests without a line."""
        self._undecided = "", 0.0

    def flush(self) -> None:
        """Log and count what is pending. Call this before the process ends."""
        self._write()
        self._log_omitted()

    def reviewed(self, outcome: Outcome, seconds: float) -> None:
        request, answer = outcome.request, outcome.answer
        causes, rules, place = answer.causes, answer.rules + answer.warned, answer.place
        kind = request.kind.kind
        cluster, group, replica, host = "", "", -1, -1
        if place is not None:
            cluster, group, replica, host = place.cluster, place.group, place.replica, place.host
        elif isinstance(request.object, Pod):
            labels = request.object.labels
            cluster = labels.get(names.LABEL_CLUSTER, "")
            group = labels.get(names.LABEL_GROUP, "")
        line = Admission(
            "",
            "warning" if causes else "info",
            event="admission",
            uid=shorten(request.uid, _TEXT),
            kind=shorten(kind, _TEXT),
            namespace=shorten(request.namespace or "", _TEXT),
            name=shorten(outcome.name, _TEXT),
            operation=shorten(request.operation, _TEXT),
            verdict="denied" if causes else "allowed" if answer.patch is None else "patched",
            ms=0.0,
            dry_run=request.dry_run is True,
            reasons=[shorten(cause.field, _TEXT) for cause in causes[:_REASONS]] if causes else [],
            warnings=len(answer.warnings),
            rules=rules,
            cluster=shorten(cluster, _TEXT),
            group=shorten(group, _TEXT),
            replica=replica,
            host=host,
        )
        self._reviews.append((line, time(), seconds))
        self._counts.reasons(kind, answer)
        # Bounds the memory and the time of one batch, which holds the event loop.
        if len(self._reviews) >= _BATCH_LINES:
            self._write()
        elif self._timer is None:
            try:
                self._timer = asyncio.get_running_loop().call_later(BATCH_SECONDS, self._write)
            except RuntimeError:
                self._write()

    def undecided(self, reason: str) -> None:
        self._counts.undecided += 1
        self._undecided = reason, time()

    def undecided_reviews(self) -> str:
        """Return the number of reviews without a decision, and the reason of the last."""
        reason, at = self._undecided
        last = f"; the last one at {timestamp(at)}: {reason}" if reason else ""
        return f"{self._counts.undecided} since the start{last}"

    def refused(self, status: int, reason: str) -> None:
        """Record a request with another response than a review."""
        self._counts.refusals[str(status)] += 1
        if not self._limit.spend():
            self._omitted += 1
            return
        self._log_omitted()
        self._write()
        self._log.event("warning", "refused", reason, status)

    def failed(self, error: Exception) -> None:
        self.flush()
        trace = "".join(traceback.format_exception(error))
        self._log.event("error", "failed", f"{type(error).__name__} in a review", trace=trace)

    def _log_omitted(self) -> None:
        if self._omitted:
            message = f"{self._omitted} more requests were refused, and have no line"
            self._log.event("warning", "refused", message)
            self._omitted = 0

    def _write(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        reviews, self._reviews = self._reviews, []
        for line, at, seconds in reviews:
            line.time = timestamp(at)
            line.ms = round(seconds * 1e6) / 1000
            self._counts.reviewed(line.kind, line.operation, line.verdict, seconds)
        lines = [line for line, _, _ in reviews if line.reasons or not self._quiet]
        if lines:
            self._log.write(lines)


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
        self.refusals: Counter[str] = Counter()
        """Requests that were no review, by status."""
        self.undecided = 0
        metrics.expose(table.ADMISSIONS, self._admissions)
        metrics.expose(table.ADMISSION_DURATION, self._durations)
        metrics.expose(table.DENIALS, lambda: self._denials)
        metrics.expose(table.RULE_DENIALS, lambda: self._rules)
        metrics.expose(table.RULE_WARNINGS, lambda: self._warned)
        metrics.expose(table.REFUSED_REQUESTS, lambda: self.refusals)
        metrics.expose(table.UNDECIDED_REVIEWS, lambda: self.undecided)

    def reviewed(self, kind: str, operation: str, verdict: str, seconds: float) -> None:
        if kind not in _KINDS:
            kind = _OTHER
        if operation not in _OPERATIONS:
            operation = _OTHER
        reviews = self._reviews[kind, operation, verdict]
        reviews.buckets[bisect_left(_BOUNDS, seconds)] += 1
        reviews.seconds += seconds

    def reasons(self, kind: str, answer: Answer) -> None:
        """Count the causes of a denial, and the rules that denied an object or warned of it."""
        for cause in answer.causes:
            reason = cause.reason if cause.reason in CAUSE_TYPES else _OTHER
            self._denials[kind if kind in _KINDS else _OTHER, reason] += 1
        self._rules.update(answer.rules)
        self._warned.update(answer.warned)

    def _admissions(self) -> dict[tuple[str, str, str], int]:
        return {labels: sum(reviews.buckets) for labels, reviews in self._reviews.items()}

    def _durations(self) -> dict[str, Buckets]:
        by_kind: defaultdict[str, _Reviews] = defaultdict(_Reviews)
        for (kind, _, _), reviews in self._reviews.items():
            by_kind[kind].buckets = [*map(add, by_kind[kind].buckets, reviews.buckets)]
            by_kind[kind].seconds += reviews.seconds
        bounds = (*map(str, _BOUNDS), "+Inf")
        return {
            kind: Buckets(
                [*zip(bounds, accumulate(kind_reviews.buckets), strict=True)], kind_reviews.seconds
            )
            for kind, kind_reviews in by_kind.items()
        }
