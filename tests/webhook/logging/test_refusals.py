"""Refused requests do not flood the log."""

import json

from webhook.logging.log import Log
from webhook.metrics.collector import Metrics
from webhook.metrics.observers import REFUSALS, REFUSALS_A_SECOND, ReviewCounts, ReviewObserver


class Lines:
    """An output that remembers its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, data: bytes) -> None:
        self.lines += data.decode().splitlines()


def test_a_burst_gets_a_line_each_and_the_rest_is_counted_with_the_next_line() -> None:
    output, now = Lines(), [5.0]
    counts = ReviewCounts(Metrics("serve"))
    observer = ReviewObserver(Log(output, "serve"), counts, clock=lambda: now[0])

    def lines_of(requests: int) -> list[str]:
        before = len(output.lines)
        for _ in range(requests):
            observer.refused(400, "no review")
        return [json.loads(line)["message"] for line in output.lines[before:]]

    assert lines_of(REFUSALS + 7) == ["no review"] * REFUSALS
    now[0] += 1.0
    omitted = "7 more requests were refused, and have no line"
    assert lines_of(REFUSALS) == [omitted, *["no review"] * REFUSALS_A_SECOND]
    observer.flush()
    assert json.loads(output.lines[-1])["message"] == omitted.replace("7", "5")


def test_a_flood_of_refusals_is_counted_by_the_metrics_and_not_by_the_log() -> None:
    output, metrics = Lines(), Metrics("serve")
    observer = ReviewObserver(Log(output, "serve"), ReviewCounts(metrics))
    for _ in range(1000):
        observer.refused(431, "too long")
    assert b'ray_webhook_refused_requests_total{status="431"} 1000.0' in metrics.exposition()[0]
    assert len(output.lines) <= 2 * REFUSALS
    assert json.loads(output.lines[0])["status"] == 431
