"""Metrics of one process: a registry, its exposition, and the version that runs."""

from collections.abc import Callable, Iterator

from prometheus_client import (
    CollectorRegistry,
    Gauge,
    GCCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from webhook import __version__


class ProcessMetrics:
    """The registry of a process, which `ray_webhook_build_info` names, with its memory, CPU,
    descriptors and garbage collections. Others register what they count in it.
    """

    def __init__(self, process: str) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        info = Gauge(
            "ray_webhook_build_info",
            "The process and version that runs.",
            ("process", "version"),
            registry=self.registry,
        )
        info.labels(process, __version__).set(1)

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Expose a number that is read when metrics are scraped."""
        Gauge(name, text, registry=self.registry).set_function(value)

    def counter(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Expose a number that only grows, and is read when metrics are scraped."""
        self.registry.register(_Counted(name, text, value))

    def exposition(self) -> tuple[bytes, str]:
        """Return the metrics as text, and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST


class _Counted(Collector):
    def __init__(self, name: str, text: str, value: Callable[[], float]) -> None:
        self._name = name
        self._text = text
        self._value = value

    def collect(self) -> Iterator[Metric]:
        """Yield the metric."""
        yield CounterMetricFamily(self._name, self._text, self._value())
