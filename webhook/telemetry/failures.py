"""Metrics of what the dashboard could not look at."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector


class FailureCollector(Collector):
    """Exposes how often something could not be looked at, by reason."""

    def __init__(self, failures: Callable[[], Mapping[str, int]]) -> None:
        self._failures = failures

    def collect(self) -> Iterator[Metric]:
        """Yield the metric."""
        text = "Times a RayCluster, or the installation, could not be looked at."
        failures = CounterMetricFamily("ray_webhook_dashboard_failures", text, labels=["reason"])
        for reason, count in self._failures().items():
            failures.add_metric([reason], count)
        yield failures
