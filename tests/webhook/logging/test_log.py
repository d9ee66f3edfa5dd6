"""The log contains reviews in order, with a short delay, and never blocks them; lines as JSON and
in readable form.
"""

import asyncio
import json
import logging
import os
import pty
from collections.abc import Callable
from typing import Any

import pytest

from tests.builders import a_cluster, a_pod, manifest
from tests.harness.apiserver import pod_review
from tests.harness.following import eventually
from tests.webhook.cli.test_hostile_texts import HOSTILE, NEVER
from webhook.admission.pod_handler import PodHandler
from webhook.admission.reviewer import Mutation, Outcome
from webhook.api import names
from webhook.logging.log import (
    Admission,
    DescriptorOutput,
    Format,
    Log,
    LogEvent,
    as_json,
    follow_logs,
    form_of,
    readable,
)
from webhook.manifest.standalone import load_state
from webhook.metrics.collector import Metrics
from webhook.metrics.observers import REFUSALS, REFUSALS_A_SECOND, ReviewCounts, ReviewObserver

GOOD = a_pod().of("c").worker("g").build()
BAD = a_pod().of("c").worker("none").build()


class Lines:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.text = b""

    def write(self, lines: bytes, /) -> None:
        self.text += lines

    def read(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.text.splitlines()]


def observed(**options: Any) -> tuple[Lines, Metrics, ReviewObserver]:  # noqa: ANN401 - as there
    lines, metrics = Lines(), Metrics("serve")
    return lines, metrics, ReviewObserver(Log(lines), ReviewCounts(metrics), **options)


async def outcomes(*pods: dict[str, object]) -> list[Outcome]:
    known = load_state([manifest(a_cluster("c").group("g").build())])
    mutation = Mutation(PodHandler(known.clusters, known.identities))
    bodies = [
        json.dumps(pod_review(pod, uid=f"review-{number}")).encode()
        for number, pod in enumerate(pods)
    ]
    return [await mutation.review(body) for body in bodies]


async def test_a_review_is_reported_a_moment_later_with_its_own_time_and_verdict() -> None:
    lines, metrics, observer = observed()
    for outcome in await outcomes(GOOD, BAD):
        observer.reviewed(outcome, 0.0012)
    assert lines.read() == []
    await eventually(lambda: bool(lines.text))
    first, second = lines.read()
    assert (first["uid"], first["verdict"], first["level"], first["ms"]) == (
        "review-0", "patched", "info", 1.2)  # fmt: skip
    assert (second["uid"], second["verdict"], second["level"]) == ("review-1", "denied", "warning")
    assert second["reasons"] == ["metadata.labels[ray.io/group]"]
    assert str(first["time"]).endswith("Z")
    assert b'verdict="patched"} 1.0' in metrics.exposition()[0]


def test_what_is_left_out_when_quiet_is_counted_all_the_same() -> None:
    lines, metrics, observer = observed(quiet=True)
    for outcome in asyncio.run(outcomes(GOOD, BAD)):
        observer.reviewed(outcome, 0.0)
    observer.flush()
    assert [line["uid"] for line in lines.read()] == ["review-1"]
    assert b'verdict="patched"} 1.0' in metrics.exposition()[0]


async def test_a_refusal_stands_behind_the_reviews_before_it() -> None:
    lines, _, observer = observed()
    (outcome,) = await outcomes(GOOD)
    observer.reviewed(outcome, 0.0)
    observer.refused(415, "wrong")
    assert [line["event"] for line in lines.read()] == ["admission", "refused"]


def test_a_line_has_no_fields_that_say_nothing() -> None:
    lines = Lines()
    log = Log(lines)
    log.event("info", "started", "listening")
    observer = ReviewObserver(log, ReviewCounts(Metrics("serve")))
    stray = {"metadata": {"name": "a", "namespace": "b"}, "spec": {"containers": []}}
    for outcome in asyncio.run(outcomes(stray)):
        observer.reviewed(outcome, 0.0)
    observer.flush()
    event, review = lines.read()
    assert event.keys() == {"time", "level", "process", "event", "message"}
    always = {"time", "level", "event", "uid", "kind", "namespace", "name", "operation"}
    assert review.keys() == always | {"verdict", "ms"}


def test_a_terminal_that_shows_lines_of_json_runs_no_text_of_an_object() -> None:
    lines = Lines()
    Log(lines).event("warning", "pods", HOSTILE, trace=HOSTILE)
    (line,) = lines.read()
    assert (line["message"], line["trace"]) == (HOSTILE, HOSTILE)
    assert not [character for character in NEVER if character in lines.text.decode()]


async def test_a_full_batch_does_not_wait() -> None:
    lines, _, observer = observed()
    for outcome in await outcomes(*[GOOD] * 300):
        observer.reviewed(outcome, 0.0)
    assert 0 < len(lines.read()) < 300
    observer.flush()
    assert [line["uid"] for line in lines.read()] == [f"review-{number}" for number in range(300)]


def test_a_reader_that_has_gone_does_not_stop_reviews() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        Log(DescriptorOutput(writer)).event("info", "started", "nobody reads this")
    finally:
        os.close(writer)


def test_what_uvicorn_and_the_event_loop_say_are_lines_of_ours_with_their_trace() -> None:
    lines = Lines()
    followed = ("uvicorn.error", "asyncio", "webhook.cache")
    follow_logs(Log(lines))
    logging.getLogger("uvicorn.error").info("Started server process [1]")
    for name in followed:
        logging.getLogger(name).warning("%s went wrong\n", "something")
    try:
        raise KeyError("x")  # noqa: TRY301 - what is logged has a trace
    except KeyError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application\n")
    *plain, traced = lines.read()
    assert [(line["event"], line["message"]) for line in plain] == [
        (name, "something went wrong") for name in followed
    ]
    assert traced["level"] == "error"
    assert "KeyError: 'x'" in str(traced["trace"])


@pytest.mark.parametrize("start", [1, 2])
def test_no_test_changes_the_loggers_of_the_next(start: int) -> None:
    assert logging.getLogger("webhook").propagate, f"test {start}"
    follow_logs(Log(Lines()))


def test_texts_of_any_length_are_shortened() -> None:
    (lines, _, observer), long = observed(), "x" * 100_000
    pod = a_pod().of("c").worker("g").build()
    pod["metadata"]["labels"][names.LABEL_GROUP] = long
    pod["metadata"]["generateName"] = long
    body = pod_review(pod)
    body["request"] |= {"name": long, "operation": long}
    known = load_state([manifest(a_cluster("c").group("g").build())])
    mutation = Mutation(PodHandler(known.clusters, known.identities))
    outcome = asyncio.run(mutation.review(json.dumps(body).encode()))
    observer.reviewed(outcome, 0.0)
    observer.flush()
    observer.refused(400, long)
    Log(lines).event("error", "failed", long, trace=long)
    assert max(map(len, lines.text.splitlines())) < 25_000
    assert len(lines.text.splitlines()[0]) < 5000


def test_a_burst_gets_a_line_each_and_the_rest_is_counted_with_the_next_line() -> None:
    now = [5.0]
    output, _, observer = observed(clock=lambda: now[0])

    def lines_of(requests: int) -> list[str]:
        before = len(output.read())
        for _ in range(requests):
            observer.refused(400, "no review")
        return [str(line["message"]) for line in output.read()[before:]]

    assert lines_of(REFUSALS + 7) == ["no review"] * REFUSALS
    now[0] += 1.0
    omitted = "7 more requests were refused, and have no line"
    assert lines_of(REFUSALS) == [omitted, *["no review"] * REFUSALS_A_SECOND]
    observer.flush()
    assert output.read()[-1]["message"] == omitted.replace("7", "5")


def test_a_flood_of_refusals_is_counted_by_the_metrics_and_not_by_the_log() -> None:
    output, metrics, observer = observed()
    for _ in range(1000):
        observer.refused(431, "too long")
    assert b'ray_webhook_refused_requests_total{status="431"} 1000.0' in metrics.exposition()[0]
    assert len(output.read()) <= 2 * REFUSALS
    assert output.read()[0]["status"] == 431


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
        "2024-11-21T12:00:00.000Z", "error", "serve", "failed", "KeyError in a review", 500,
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
    time, forged = "2024-11-21T12:00:00.000Z", "\x1b[2J\n12:00:00  info     all is well"
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
