"""The collector of a process, which reads all values when metrics are scraped."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from time import monotonic
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest
from prometheus_client import metrics_core as families
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from webhook import __version__
from webhook.api.formats import one_line, shorten
from webhook.metrics.table import BUILD_INFO, Metric

_BURST: Final = 20
_A_SECOND: Final = 5
"""The rate of expositions per second in the long run. Each blocks reviews for milliseconds."""
_LABEL_MAX: Final = 253
_PAUSE: Final = 20
"""The pause after an exposition, as a multiple of its time."""


class Buckets(NamedTuple):
    """A histogram: the cumulative count of each upper bound, and the sum of the values."""

    counts: Sequence[tuple[str, float]]
    total: float


Values = float | Mapping[Any, float] | Mapping[Any, Buckets]
"""One value, or values by their label, or by the tuple of their labels."""


class Metrics(Collector):
    """The metrics of a process, and its version, memory, CPU, descriptors and collections."""

    def __init__(self, process: str) -> None:
        self._read: dict[Metric, Callable[[], Values]] = {}
        self._registry = CollectorRegistry()
        for collect in (ProcessCollector, GCCollector):
            collect(registry=self._registry)
        self._registry.register(self)
        self.expose(BUILD_INFO, lambda: {(process, __version__): 1})

    def expose(self, metric: Metric, read: Callable[[], Values]) -> None:
        """Expose a metric, whose values `read` returns on each scrape."""
        self._read[metric] = read

    def exposition(self) -> tuple[bytes, str]:
        """Return the metrics as text, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def collect(self) -> Iterator[families.Metric]:
        for metric, read in self._read.items():
            values = read()
            yield _family(metric, values if isinstance(values, Mapping) else {(): values})


def _family(metric: Metric, values: Mapping[Any, Any]) -> families.Metric:
    kind, name, documentation, labels = metric
    samples = {_clean(key): value for key, value in values.items()}
    if kind == "histogram":
        histogram = families.HistogramMetricFamily(name, documentation, labels=labels)
        for key, (counts, total) in samples.items():
            histogram.add_metric(key, counts, total)
        return histogram
    family_class = families.CounterMetricFamily if kind == "counter" else families.GaugeMetricFamily
    family = family_class(name, documentation, labels=labels)
    for key, value in samples.items():
        family.add_metric(key, value)
    return family


def _clean(key: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the values of labels in one line each, cut to the length of a name: names of worker
    groups may have any length.
    """
    texts = (key,) if isinstance(key, str) else key
    return tuple(one_line(shorten(label, _LABEL_MAX)) for label in texts)


class RateLimit:
    """A limit of uses: a burst, then a number per second."""

    def __init__(self, burst: float, per_second: float, clock: Callable[[], float]) -> None:
        self._burst = self._left = burst
        self._per_second = per_second
        self._clock = clock
        self._since = clock()

    def spend(self) -> bool:
        """Return whether the limit allows another use, and count it."""
        now = self._clock()
        self._left = min(self._left + (now - self._since) * self._per_second, self._burst)
        self._since = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class PacedScrapes:
    """Limits expositions to a burst, a rate and a twentieth of the time; else the last one is
    returned.
    """

    def __init__(
        self, make: Callable[[], tuple[bytes, str]], clock: Callable[[], float] = monotonic
    ) -> None:
        self._make = make
        self._limit = RateLimit(_BURST, _A_SECOND, clock)
        self._clock = clock
        self._next = -inf
        self._last: tuple[bytes, str] | None = None

    def __call__(self) -> tuple[bytes, str]:
        begun = self._clock()
        allowed = begun >= self._next and self._limit.spend()
        if allowed or self._last is None:
            self._last = self._make()
            end = self._clock()
            self._next = end + _PAUSE * (end - begun)
        return self._last
