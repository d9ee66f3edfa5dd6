"""Metrics of reviews, in the Prometheus exposition format."""

from typing import Final

from prometheus_client import Counter

from webhook.kube.review import CAUSE_TYPES
from webhook.telemetry.process_metrics import ProcessMetrics
from webhook.telemetry.reviews import ReviewCollector

_OPERATIONS: Final = frozenset({"CREATE", "UPDATE", "DELETE", "CONNECT"})
_KINDS: Final = frozenset({"Pod", "RayCluster", "RayJob", "RayService", "RayCronJob"})


class Metrics(ProcessMetrics):
    """All metrics of `serve`. Labels have few values, whatever is sent to us."""

    def __init__(self) -> None:
        super().__init__("serve")
        self._reviews = ReviewCollector()
        self.registry.register(self._reviews)
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

    def reviewed(self, kind: str, operation: str, verdict: str, seconds: float) -> None:
        """Count one review."""
        if kind not in _KINDS or operation not in _OPERATIONS:
            kind, operation = (
                kind if kind in _KINDS else "other",
                operation if operation in _OPERATIONS else "other",
            )
        self._reviews.add(kind, operation, verdict, seconds)

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
