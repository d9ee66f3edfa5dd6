"""Metrics of reviews: counters, and a histogram for each kind."""

from prometheus_client.parser import text_string_to_metric_families

from webhook.metrics.collector import Metrics
from webhook.metrics.observers import ReviewCounts


def samples(metrics: Metrics) -> dict[str, float]:
    text = metrics.exposition()[0].decode()
    return {
        f"{sample.name}{sorted(sample.labels.values())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_reviews_are_counted_by_kind_operation_and_verdict() -> None:
    metrics = Metrics("serve")
    counts = ReviewCounts(metrics)
    for verdict in ("patched", "patched", "denied"):
        counts.reviewed("Pod", "CREATE", verdict, 0.001)
    counts.reviewed("Unheard", "PATCH", "allowed", 0.001)
    found = samples(metrics)
    assert found["ray_webhook_admissions_total['CREATE', 'Pod', 'patched']"] == 2
    assert found["ray_webhook_admissions_total['CREATE', 'Pod', 'denied']"] == 1
    assert found["ray_webhook_admissions_total['allowed', 'other', 'other']"] == 1


def test_durations_are_a_histogram_for_each_kind_whose_bounds_are_inclusive() -> None:
    metrics = Metrics("serve")
    counts = ReviewCounts(metrics)
    for seconds, verdict in (
        (0.0001, "patched"),
        (0.0002, "patched"),
        (0.02, "denied"),
        (9.0, "patched"),
    ):
        counts.reviewed("Pod", "CREATE", verdict, seconds)
    found = samples(metrics)
    name = "ray_webhook_admission_duration_seconds"
    bounds = {"0.0001": 1, "0.00025": 2, "0.01": 2, "0.025": 3, "5.0": 3, "+Inf": 4}
    assert {bound: found[f"{name}_bucket{sorted([bound, 'Pod'])}"] for bound in bounds} == bounds
    assert found[f"{name}_count['Pod']"] == 4
    assert round(found[f"{name}_sum['Pod']"], 6) == 9.0203
