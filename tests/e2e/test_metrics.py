"""Quantiles of histograms, as Prometheus computes them. Needs no control plane."""

import pytest

from tests.e2e.metrics import Histogram

EXPOSITION = """\
# TYPE seconds histogram
seconds_bucket{name="a",type="x",le="0.1"} 40
seconds_bucket{name="a",type="x",le="0.5"} 90
seconds_bucket{name="a",type="x",le="+Inf"} 100
seconds_bucket{name="a",type="y",le="0.1"} 10
seconds_bucket{name="a",type="y",le="0.5"} 10
seconds_bucket{name="a",type="y",le="+Inf"} 10
seconds_bucket{name="b",type="x",le="0.1"} 7
seconds_count{name="a",type="x"} 100
"""


def test_series_with_the_labels_are_added_up() -> None:
    assert Histogram.read(EXPOSITION, "seconds", name="a").count == 110
    assert Histogram.read(EXPOSITION, "seconds", name="a", type="y").count == 10
    assert Histogram.read(EXPOSITION, "seconds", name="c").count == 0


def test_a_quantile_is_interpolated_within_its_bucket() -> None:
    read = Histogram.read(EXPOSITION, "seconds", name="a", type="x")
    assert read.quantile(0.4) == 0.1
    assert read.quantile(0.65) == pytest.approx(0.3)
    assert read.quantile(0.99) == 0.5


def test_what_was_there_before_does_not_count() -> None:
    everything, earlier = (
        Histogram.read(EXPOSITION, "seconds", name="a", **more) for more in ({}, {"type": "x"})
    )
    assert everything.since(earlier).count == 10
    assert everything.since(earlier).quantile(0.5) == pytest.approx(0.05)
