"""Metrics of one process: a registry, its exposition, and the version that runs."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from webhook import __version__


class ProcessMetrics:
    """The registry of a process, which `ray_webhook_build_info` names. Others register what they count in it."""

    def __init__(self, process: str) -> None:
        self.registry = CollectorRegistry()
        info = Gauge("ray_webhook_build_info", "The process and version that runs.", ("process", "version"), registry=self.registry)
        info.labels(process, __version__).set(1)

    def gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Expose a number that is read when metrics are scraped."""
        Gauge(name, text, registry=self.registry).set_function(value)

    def exposition(self) -> tuple[bytes, str]:
        """Return the metrics as text, and its content type."""
        return generate_latest(self.registry), CONTENT_TYPE_LATEST
