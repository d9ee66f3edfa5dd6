"""The reporter: problems of a cluster become events and metrics."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest

from tests.builders import a_cluster
from tests.harness.fake_api import EVENTS, PODS, RAYJOBS, FakeApi
from tests.harness.following import QUICK, beside, client_of, eventually, plain
from tests.harness.scenes import NOW, Scene
from tests.webhook.cache.test_observing import HOST, put
from tests.webhook.diagnostics.samples import samples
from webhook.cache.cluster_cache import REPORTED, Observing
from webhook.controller.events import NOTHING, EventRecorder, ProblemReporter
from webhook.controller.work_queue import QueueTiming
from webhook.diagnostics.examiner import RESTLESS_SECONDS, Examiner
from webhook.diagnostics.tracker import Tracker
from webhook.objects.object_cache import ObjectCache


class Clock:
    """The time of day, as a story sets it."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def standing_by(
    api: FakeApi, clock: Clock
) -> AsyncIterator[tuple[ProblemReporter, ObjectCache]]:
    """Observe a fake API server until the end of the block, with a reporter that does not run."""
    connection, object_cache = client_of(plain(api)), ObjectCache()
    observing = Observing(connection, object_cache, timing=QUICK, other_kinds=REPORTED)
    reporter = ProblemReporter(
        object_cache, observing, EventRecorder(connection, "one"),
        QueueTiming(resync=0.02, tick=0.01), now=clock)  # fmt: skip
    async with connection, beside(observing.run()):
        yield reporter, object_cache


@asynccontextmanager
async def reporting(api: FakeApi, clock: Clock) -> AsyncIterator[ProblemReporter]:
    """Report to a fake API server, until the end of the block."""
    async with standing_by(api, clock) as (reporter, _), beside(reporter.run()):
        yield reporter


def run(story: Callable[[FakeApi, Clock], Coroutine[None, None, None]]) -> None:
    async def report() -> None:
        async with FakeApi().serving() as api:
            put(api, Scene())
            await story(api, Clock())

    asyncio.run(report())


def reasons(api: FakeApi) -> list[str]:
    return sorted(event["reason"] for event in api.objects(EVENTS).values())


def states(reporter: ProblemReporter) -> dict[str, int]:
    return reporter.last.tallies[0].replicas if reporter.last.tallies else {}


def test_a_host_that_is_lost_becomes_an_event_and_its_return_another() -> None:
    async def story(api: FakeApi, clock: Clock) -> None:
        async with reporting(api, clock) as reporter:
            await eventually(lambda: states(reporter) == {"complete": 2})
            pod = api.objects(PODS)[HOST]
            api.delete(PODS, HOST, "team")
            await eventually(lambda: states(reporter) == {"complete": 1, "degraded": 1})
            assert reasons(api) == []
            clock.now += 120
            await eventually(lambda: reasons(api) == ["HostMissing"])
            api.put(PODS, pod)
            await eventually(
                lambda: reasons(api) == ["HostMissing", "HostMissingResolved", "ReplicaComplete"]
            )
            assert reporter.last.problems == {}

    run(story)


def test_an_owner_that_fails_becomes_an_event_and_a_metric() -> None:
    async def story(api: FakeApi, clock: Clock) -> None:
        scene = samples()["job-failed"].scene()
        put(api, scene)
        async with reporting(api, clock) as reporter:
            await eventually(lambda: reasons(api) == ["RayJobFailed"])
            assert reporter.last.problems == {("team", "llama", "job-failed"): 1}
            (job,) = scene.ray_jobs
            api.put(RAYJOBS, {**job, "status": {"jobDeploymentStatus": "Retrying"}})
            await eventually(lambda: reasons(api) == ["RayJobFailed", "RayJobFailedResolved"])

    run(story)


def test_a_process_reports_only_while_it_leads_and_then_everything() -> None:
    async def story(api: FakeApi, clock: Clock) -> None:
        async with standing_by(api, clock) as (reporter, object_cache):
            async with beside(reporter.run()):
                await eventually(lambda: states(reporter) == {"complete": 2})
            assert reporter.last == NOTHING
            api.delete(PODS, HOST, "team")
            await eventually(lambda: len(object_cache.pods.all) == 8)
            assert object_cache.take_changed() == set(), "a process that stands by keeps no changes"
            async with beside(reporter.run()):
                await eventually(lambda: states(reporter) == {"complete": 1, "degraded": 1})

    run(story)


def examine_with_a_bug(examiner: Examiner, uid: str, now: float) -> bool:
    """Examine a RayCluster, unless it is `llama`."""
    if uid == "uid-of-llama":
        raise ValueError("a bug")
    return EXAMINE(examiner, uid, now)


EXAMINE = Examiner.examine


def unexpected(reporter: ProblemReporter) -> int:
    return reporter.recorder.failures.get("unexpected", 0)


def clusters(reporter: ProblemReporter) -> list[str]:
    return [tally.cluster for tally in reporter.last.tallies]


def test_a_bug_that_one_cluster_brings_out_keeps_no_other_and_is_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = Scene(a_cluster("qwen").group("cpu", hosts=2))
    monkeypatch.setattr(Examiner, "examine", examine_with_a_bug)

    async def story(api: FakeApi, clock: Clock) -> None:
        put(api, other)
        async with reporting(api, clock) as reporter:
            await eventually(lambda: clusters(reporter) == ["qwen"])
            api.delete(PODS, "qwen-cpu-worker-0-1", "team")
            await eventually(lambda: states(reporter) == {"degraded": 1})
            clock.now += 120
            await eventually(lambda: reasons(api) == ["HostMissing"])
            for count in (2, 3):
                clock.now += RESTLESS_SECONDS
                await eventually(lambda: unexpected(reporter) >= count)  # noqa: B023 - at once
            monkeypatch.undo()
            clock.now += RESTLESS_SECONDS
            await eventually(lambda: clusters(reporter) == ["llama", "qwen"])

    run(story)
    (record,) = [each for each in caplog.records if "a bug" in each.getMessage()]
    text = "events: RayCluster team/llama cannot be examined: ValueError: a bug (unexpected)"
    assert record.getMessage() == text
    assert record.exc_info


@pytest.mark.parametrize(("kind", "name"), [(Examiner, "due"), (Tracker, "track")])
def test_a_bug_that_no_cluster_alone_brings_out_ends_nothing(
    kind: type, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*arguments: object) -> None:
        monkeypatch.undo()
        raise ValueError("a bug", arguments)

    monkeypatch.setattr(kind, name, broken)

    async def story(api: FakeApi, clock: Clock) -> None:
        async with reporting(api, clock) as reporter:
            await eventually(lambda: states(reporter) == {"complete": 2})
            assert reporter.queue.failures == {"unexpected": 1}

    run(story)
    (message,) = [each for each in caplog.messages if "a bug" in each]
    assert message.startswith("events of all RayClusters: ValueError: ")
