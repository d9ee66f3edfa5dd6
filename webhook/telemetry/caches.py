"""Metrics of the caches on the way of a review: how often each knew the answer."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from prometheus_client.metrics_core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector


class Cache(Protocol):
    """A cache."""

    @property
    def hits(self) -> int:
        """How often it knew."""

    @property
    def misses(self) -> int:
        """How often it did not."""


class CacheCollector(Collector):
    """Reads the caches, by their names, when metrics are scraped."""

    def __init__(self, caches: Mapping[str, Cache]) -> None:
        self._caches = caches

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        hits = CounterMetricFamily(
            "ray_webhook_cache_hits", "Look-ups that a cache answered.", labels=["cache"]
        )
        misses = CounterMetricFamily(
            "ray_webhook_cache_misses", "Look-ups that a cache did not answer.", labels=["cache"]
        )
        for name, cache in self._caches.items():
            hits.add_metric([name], cache.hits)
            misses.add_metric([name], cache.misses)
        yield from (hits, misses)
