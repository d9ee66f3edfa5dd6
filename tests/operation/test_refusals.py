"""Refused requests do not flood the log."""

import json

from webhook.logging.log import Log
from webhook.metrics.collector import Metrics
from webhook.metrics.observers import REFUSALS_A_SECOND, RefusalPace, ReviewCounts, ReviewObserver


def test_so_many_a_second_get_a_line_and_the_rest_is_counted_when_it_is_over() -> None:
    now = [5.2]
    pace = RefusalPace(lambda: now[0])
    assert [pace.line() for _ in range(REFUSALS_A_SECOND + 7)].count(True) == REFUSALS_A_SECOND
    assert pace.rest() == 0
    now[0] = 6.1
    assert (pace.rest(), pace.rest()) == (7, 0)
    assert pace.line()


class Lines:
    """An output that remembers its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, data: bytes) -> None:
        self.lines += data.decode().splitlines()


def test_a_flood_of_refusals_is_counted_by_the_metrics_and_not_by_the_log() -> None:
    output, metrics = Lines(), Metrics("serve")
    observer = ReviewObserver(Log(output, "serve"), ReviewCounts(metrics))
    for _ in range(1000):
        observer.refused(431, "too long")
    assert b'ray_webhook_refused_requests_total{status="431"} 1000.0' in metrics.exposition()[0]
    assert len(output.lines) <= 3 * REFUSALS_A_SECOND
    assert json.loads(output.lines[0])["status"] == 431
