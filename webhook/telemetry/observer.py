"""The observer of reviews: each becomes a line of the log and a count in the metrics."""

import traceback
from time import time

from webhook.admission.reviewer import Outcome
from webhook.kube import names
from webhook.kube.objects import Pod
from webhook.kube.review import Answer
from webhook.telemetry.batch import Batch
from webhook.telemetry.log import Admission, Log, timestamp
from webhook.telemetry.metrics import Metrics
from webhook.telemetry.refusals import RefusalPace


class ReviewObserver:
    """Tells log and metrics of reviews. `quiet` leaves out the line of a review that was allowed.

    Both are told a moment later; `flush` writes them now.
    """

    def __init__(self, log: Log, metrics: Metrics, *, quiet: bool = False) -> None:
        self._log = log
        self._metrics = metrics
        self._quiet = quiet
        self._batch = Batch(self._note)
        self._pace = RefusalPace()

    def flush(self) -> None:
        """Write now what was noted."""
        self._batch.flush()
        self._tell_rest()

    def reviewed(self, outcome: Outcome, seconds: float) -> None:
        """Note a review that was answered."""
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
            self._metrics.denied(kind, cause.reason)
        for rule in answer.rules:
            self._metrics.ruled_out(rule)
        for rule in answer.warned:
            self._metrics.warned_of(rule)

    def refused(self, status: int, reason: str) -> None:
        """Note a request that got another answer than a review."""
        self._metrics.refused(status)
        self._tell_rest()
        if self._pace.line():
            self._batch.flush()
            self._log.event("warning", "refused", reason, status)

    def failed(self, error: Exception) -> None:
        """Note a bug of ours, with its traceback."""
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
        """Tell of reviews: the line of each, when it was, and how many seconds it took."""
        for line, at, seconds in reviews:
            line.time = timestamp(at)
            line.ms = round(seconds * 1e6) / 1000
            self._metrics.reviewed(line.kind, line.operation, line.verdict, seconds)
        lines = [line for line, _, _ in reviews if line.reasons or not self._quiet]
        if lines:
            self._log.write(lines)
