"""Metrics of reviews and of the membership, in the Prometheus exposition format."""

from functools import cache
from typing import Final

from prometheus_client import Counter, Histogram

from webhook.kube.review import CAUSE_TYPES
from webhook.telemetry.process_metrics import ProcessMetrics

_BUCKETS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.5, 1.0, 5.0)
"""Seconds. A review takes well under a millisecond; 25 ms is the second bucket of kube-apiserver's
own histogram.
"""

_OPERATIONS: Final = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})
_KINDS: Final = frozenset({"Pod", "RayCluster", "RayJob", "RayService", "RayCronJob"})


class Metrics(ProcessMetrics):
    """All metrics of `serve`. Labels have few values, whatever is sent to us."""

    def __init__(self) -> None:
        super().__init__("serve")
        admissions = Counter(
            "ray_webhook_admissions",
            "Reviews answered, by kind, operation and verdict (allowed, patched, denied).",
            ("kind", "operation", "verdict"),
            registry=self.registry,
        )
        durations = Histogram(
            "ray_webhook_admission_duration_seconds",
            "Time from the first byte of a review to the last byte of its answer.",
            ("kind",),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._denials = Counter(
            "ray_webhook_denials",
            "Causes of denials, by kind and Kubernetes cause type.",
            ("kind", "reason"),
            registry=self.registry,
        )
        self._rules = Counter(
            "ray_webhook_rule_denials",
            "Denied Ray objects, by the rule that refused them; an object may count for several.",
            ("rule",),
            registry=self.registry,
        )
        self._warned = Counter(
            "ray_webhook_rule_warnings",
            "Admitted or denied Ray objects, by the rule that warned of them.",
            ("rule",),
            registry=self.registry,
        )
        self._refusals = Counter(
            "ray_webhook_refused_requests",
            "Requests that got an HTTP error in place of a review, by status.",
            ("status",),
            registry=self.registry,
        )
        # Of each review: remembered, because looking labels up takes longer than counting.
        self._admissions_of = cache(admissions.labels)
        self._durations_of = cache(durations.labels)

    def reviewed(self, kind: str, operation: str, verdict: str, seconds: float) -> None:
        """Count one review."""
        if kind not in _KINDS or operation not in _OPERATIONS:
            kind, operation = (
                kind if kind in _KINDS else "other",
                operation if operation in _OPERATIONS else "other",
            )
        self._admissions_of(kind, operation, verdict).inc()
        self._durations_of(kind).observe(seconds)

    def denied(self, kind: str, reason: str) -> None:
        """Count one cause of a denial."""
        self._denials.labels(
            kind if kind in _KINDS else "other", reason if reason in CAUSE_TYPES else "other"
        ).inc()

    def ruled_out(self, rule: str) -> None:
        """Count one object that a rule refused. Rules are ours, so there are only so many."""
        self._rules.labels(rule).inc()

    def warned_of(self, rule: str) -> None:
        """Count one object that a rule warned of."""
        self._warned.labels(rule).inc()

    def refused(self, status: int) -> None:
        """Count one request that was no review."""
        self._refusals.labels(str(status)).inc()
