"""The observer of reviews: each becomes a line of the journal and a count in the metrics."""

import traceback

from webhook.admission.reviewer import Outcome
from webhook.telemetry.journal import Admission, Journal, now
from webhook.telemetry.metrics import Metrics


class ReviewObserver:
    """Tells journal and metrics of reviews. `quiet` leaves out the line of a review that was allowed."""

    def __init__(self, journal: Journal, metrics: Metrics, *, quiet: bool = False) -> None:
        self._journal = journal
        self._metrics = metrics
        self._quiet = quiet

    def reviewed(self, outcome: Outcome, seconds: float) -> None:
        """Note a review that was answered."""
        request, answer = outcome.request, outcome.answer
        verdict = "denied" if answer.causes else "patched" if answer.patch else "allowed"
        kind = request.kind.kind
        self._metrics.reviewed(kind, request.operation, verdict, seconds)
        for cause in answer.causes:
            self._metrics.denied(kind, cause.reason)
        for rule in answer.rules:
            self._metrics.ruled_out(rule)
        if self._quiet and not answer.causes:
            return
        self._journal.line(
            Admission(
                time=now(),
                level="warning" if answer.causes else "info",
                event="admission",
                uid=request.uid,
                kind=kind,
                namespace=request.namespace or "",
                name=outcome.name,
                operation=request.operation,
                verdict=verdict,
                ms=round(seconds * 1000, 3),
                dry_run=bool(request.dry_run),
                reasons=[cause.field for cause in answer.causes],
                warnings=len(answer.warnings),
            )
        )

    def refused(self, status: int, reason: str) -> None:
        """Note a request that got another answer than a review."""
        self._metrics.refused(status)
        self._journal.event("warning", "refused", reason, status)

    def failed(self, error: Exception) -> None:
        """Note a bug of ours, with its traceback."""
        trace = "".join(traceback.format_exception(error))
        self._journal.event("error", "failed", f"{type(error).__name__} in a review", trace=trace)
