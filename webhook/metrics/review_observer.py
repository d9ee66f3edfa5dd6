"""The observer of reviews: a log line and a count for each."""

import traceback
from collections.abc import Callable
from time import monotonic, time
from typing import Final

from webhook.admission.reviewer import Outcome
from webhook.api import names
from webhook.api.objects import Pod
from webhook.api.review import Answer
from webhook.logging.batch import Batch
from webhook.logging.log import Admission, Log, timestamp
from webhook.metrics.review_metrics import ReviewCounts

REFUSALS_A_SECOND: Final = 10
"""Maximum log lines of rejected requests per second: any client can send such requests."""


class ReviewObserver:
    """Logs and counts reviews. `quiet` omits the log lines of allowed reviews.

    Both are written in batches; `flush` writes them at once.
    """

    def __init__(self, log: Log, counts: ReviewCounts, *, quiet: bool = False) -> None:
        self._log = log
        self._counts = counts
        self._quiet = quiet
        self._batch = Batch(self._note)
        self._pace = RefusalPace()
        self._undecided = "", 0.0

    def flush(self) -> None:
        self._batch.flush()
        self._tell_rest()

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
            "admission",
            request.uid,
            kind,
            request.namespace or "",
            outcome.name,
            request.operation,
            "denied" if causes else "allowed" if answer.patch is None else "patched",
            0.0,
            request.dry_run is True,
            [cause.field for cause in causes] if causes else [],
            len(answer.warnings),
            rules,
            cluster,
            group,
            replica,
            host,
        )
        self._batch.add((line, time(), seconds))
        if causes or rules:
            self._count_reasons(kind, answer)

    def _count_reasons(self, kind: str, answer: Answer) -> None:
        for cause in answer.causes:
            self._counts.denied(kind, cause.reason)
        for rule in answer.rules:
            self._counts.ruled_out(rule)
        for rule in answer.warned:
            self._counts.warned_of(rule)

    def undecided(self, reason: str) -> None:
        """Record a review without a decision."""
        self._counts.undecided += 1
        self._undecided = reason, time()

    def undecided_reviews(self) -> str:
        """Return the number of reviews without a decision, and the reason of the last."""
        reason, at = self._undecided
        last = f"; the last one at {timestamp(at)}: {reason}" if reason else ""
        return f"{self._counts.undecided} since the start{last}"

    def refused(self, status: int, reason: str) -> None:
        """Record a request with another response than a review."""
        self._counts.refused(status)
        self._tell_rest()
        if self._pace.line():
            self._batch.flush()
            self._log.event("warning", "refused", reason, status)

    def failed(self, error: Exception) -> None:
        """Record a bug of ours, with its traceback."""
        self.flush()
        trace = "".join(traceback.format_exception(error))
        self._log.event("error", "failed", f"{type(error).__name__} in a review", trace=trace)

    def _tell_rest(self) -> None:
        rest = self._pace.rest()
        if rest:
            self._log.event(
                "warning",
                "refused",
                f"{rest} more requests were refused within a second, and have no line",
            )

    def _note(self, reviews: list[tuple[Admission, float, float]]) -> None:
        """Log reviews: for each its line, its time, and its duration in seconds."""
        for line, at, seconds in reviews:
            line.time = timestamp(at)
            line.ms = round(seconds * 1e6) / 1000
            self._counts.reviewed(line.kind, line.operation, line.verdict, seconds)
        lines = [line for line, _, _ in reviews if line.reasons or not self._quiet]
        if lines:
            self._log.write(lines)


class RefusalPace:
    """Limits the log lines of rejected requests, and counts the omitted ones."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._second = 0
        self._lines = 0
        self._left_out = 0

    def line(self) -> bool:
        """Return whether a rejected request is logged, and count it if not."""
        second = int(self._clock())
        if second != self._second:
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines <= REFUSALS_A_SECOND:
            return True
        self._left_out += 1
        return False

    def rest(self) -> int:
        """Return the number of omitted lines since the last call after a second, else 0."""
        if int(self._clock()) == self._second:
            return 0
        rest, self._left_out = self._left_out, 0
        return rest
