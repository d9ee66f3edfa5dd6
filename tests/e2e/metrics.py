"""Metrics from an API server's `/metrics`."""

import re
from collections.abc import Iterator
from math import inf
from typing import Self

Buckets = dict[float, float]


def samples(exposition: str, name: str) -> Iterator[tuple[dict[str, str], float]]:
    for line in exposition.splitlines():
        if line.startswith(f"{name}{{"):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
            yield labels, float(line.rsplit(" ", 1)[1])


class Histogram:
    """Cumulative counts by upper bound, in seconds."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = dict(sorted(buckets.items()))

    @classmethod
    def read(cls, exposition: str, family: str, **labels: str) -> Self:
        buckets: Buckets = {}
        for found, count in samples(exposition, f"{family}_bucket"):
            if labels.items() <= found.items():
                bound = inf if found["le"] == "+Inf" else float(found["le"])
                buckets[bound] = buckets.get(bound, 0) + count
        return cls(buckets)

    def since(self, earlier: Self) -> Self:
        return type(self)(
            {
                bound: count - earlier._buckets.get(bound, 0)
                for bound, count in self._buckets.items()
            }
        )

    @property
    def count(self) -> int:
        return int(max(self._buckets.values(), default=0))

    def quantile(self, share: float) -> float:
        """The quantile, interpolated within its bucket as Prometheus does."""
        wanted, lower, below = share * self.count, 0.0, 0.0
        for bound, count in self._buckets.items():
            if count >= wanted and count > below:
                return (
                    lower
                    if bound == inf
                    else lower + (bound - lower) * (wanted - below) / (count - below)
                )
            lower, below = bound, count
        return lower
