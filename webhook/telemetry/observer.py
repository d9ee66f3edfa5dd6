"""The observer of reviews: each becomes a line of the journal and a count in the metrics."""

import traceback
from time import time

from msgspec import Struct

from webhook.admission.reviewer import Outcome
from webhook.kube.review import Cause
from webhook.telemetry.batch import Batch
from webhook.telemetry.journal import Admission, Journal, timestamp
from webhook.telemetry.metrics import Metrics


class _Reviewed(Struct, gc=False):
    """What is kept of a review until its line is written: not the object, which is large."""

    at: float
    seconds: float
    uid: str
    kind: str
    namespace: str
    name: str
    operation: str
    patched: bool
    dry_run: bool
    causes: tuple[Cause, ...]
    rules: tuple[str, ...]
    warnings: int


class ReviewObserver:
    """Tells journal and metrics of reviews. `quiet` leaves out the line of a review that was allowed.

    Both are told a moment later; `settle` tells them now.
    """

    def __init__(self, journal: Journal, metrics: Metrics, *, quiet: bool = False) -> None:
        self._journal = journal
        self._metrics = metrics
        self._quiet = quiet
        self._batch = Batch(self._note)
        self.settle = self._batch.flush

    def reviewed(self, outcome: Outcome, seconds: float) -> None:
        """Note a review that was answered."""
        request, answer = outcome.request, outcome.answer
        self._batch.add(
            _Reviewed(
                time(),
                seconds,
                request.uid,
                request.kind.kind,
                request.namespace or "",
                outcome.name,
                request.operation,
                answer.patch is not None,
                bool(request.dry_run),
                answer.causes,
                answer.rules,
                len(answer.warnings),
            )
        )

    def refused(self, status: int, reason: str) -> None:
        """Note a request that got another answer than a review."""
        self.settle()
        self._metrics.refused(status)
        self._journal.event("warning", "refused", reason, status)

    def failed(self, error: Exception) -> None:
        """Note a bug of ours, with its traceback."""
        self.settle()
        trace = "".join(traceback.format_exception(error))
        self._journal.event("error", "failed", f"{type(error).__name__} in a review", trace=trace)

    def _note(self, reviews: list[_Reviewed]) -> None:
        for review in reviews:
            self._metrics.reviewed(review.kind, review.operation, _verdict(review), review.seconds)
            for cause in review.causes:
                self._metrics.denied(review.kind, cause.reason)
            for rule in review.rules:
                self._metrics.ruled_out(rule)
        lines = [_line(review) for review in reviews if review.causes or not self._quiet]
        if lines:
            self._journal.write(lines)


def _verdict(review: _Reviewed) -> str:
    return "denied" if review.causes else "patched" if review.patched else "allowed"


def _line(review: _Reviewed) -> Admission:
    return Admission(
        time=timestamp(review.at),
        level="warning" if review.causes else "info",
        event="admission",
        uid=review.uid,
        kind=review.kind,
        namespace=review.namespace,
        name=review.name,
        operation=review.operation,
        verdict=_verdict(review),
        ms=round(review.seconds * 1000, 3),
        dry_run=review.dry_run,
        reasons=[cause.field for cause in review.causes],
        warnings=review.warnings,
    )
