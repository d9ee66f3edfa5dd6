"""Log lines in readable form."""

import asyncio
import os
import pty
from collections.abc import Callable

import pytest

from tests.builders import a_pod
from tests.webhook.logging.test_log import Lines, outcomes
from webhook.logging.log import (
    Admission,
    DescriptorOutput,
    Format,
    Log,
    LogEvent,
    as_json,
    form_of,
    readable,
)
from webhook.metrics.collector import Metrics
from webhook.metrics.observers import ReviewCounts, ReviewObserver


def test_a_review_is_one_line_with_the_identity_that_it_gave() -> None:
    lines = Lines()
    observer = ReviewObserver(Log(lines, form=readable), ReviewCounts(Metrics("serve")))
    good, bad = a_pod().of("c").worker("g").build(), a_pod().of("c").worker("none").build()
    for outcome in asyncio.run(outcomes(good, bad)):
        observer.reviewed(outcome, 0.0012)
    observer.flush()
    first, second = (line[10:] for line in lines.text.decode().splitlines())
    assert first == "patched  CREATE Pod team/c-worker-  c/g replica 0 host 0  1.2 ms"
    assert (
        second
        == "denied   CREATE Pod team/c-worker-  c/none  metadata.labels[ray.io/group]  1.2 ms"
    )


def test_an_event_keeps_its_trace() -> None:
    event = LogEvent(
        "2026-11-21T12:00:00.000Z", "error", "serve", "failed", "KeyError in a review", 500,
        "Traceback\n")  # fmt: skip
    assert (
        readable([event]) == b"12:00:00  error    failed 500: KeyError in a review\n  Traceback\n"
    )


@pytest.mark.parametrize(("opened", "wanted", "form"), [
    (pty.openpty, "auto", readable), (pty.openpty, "text", readable),
    (pty.openpty, "json", as_json), (os.pipe, "auto", as_json), (os.pipe, "text", readable),
])  # fmt: skip
def test_lines_are_text_on_a_terminal_and_json_elsewhere_unless_set(
    opened: Callable[[], tuple[int, int]], wanted: Format, form: object
) -> None:
    descriptors = opened()
    try:
        assert form_of(wanted, DescriptorOutput(descriptors[1])) is form
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def test_what_others_wrote_starts_no_line_and_moves_no_cursor() -> None:
    time, forged = "2026-11-21T12:00:00.000Z", "\x1b[2J\n12:00:00  info     all is well"
    admission = Admission(
        time, "info", "review", "1", "Pod", "team", forged, "CREATE", "denied", 1.0, rules=(forged,)
    )
    event = LogEvent(
        time, "error", "serve", f"failed{forged}", forged, 500, f"Traceback\n{forged}\n"
    )
    text = readable([admission, event]).decode()
    assert "\x1b" not in text
    first, second, *trace = text.splitlines()
    assert "denied" in first
    assert "failed" in second
    assert trace == ["  Traceback", "   [2J", "  12:00:00  info     all is well"]
