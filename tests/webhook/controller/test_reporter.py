"""The reporter: problems of a cluster become events and metrics."""

from collections.abc import AsyncIterator
from types import SimpleNamespace

import pytest

from tests.builders import a_cluster
from tests.harness.fake_api import EVENTS, PODS, RAYJOBS, FakeApi
from tests.harness.following import QUICK, beside, client_of, eventually, plain
from tests.harness.scenes import NOW, Scene
from tests.webhook.diagnostics.samples import samples
from webhook.cache.cluster_cache import REPORTED, Observing
from webhook.controller.events import NOTHING, EventRecorder, ProblemReporter
from webhook.controller.work_queue import QueueTiming
from webhook.diagnostics.examiner import RESTLESS_SECONDS, Examiner
from webhook.diagnostics.tracker import Tracker
from webhook.objects.object_cache import ObjectCache

HOST = "llama-tpu-worker-0-3"


@pytest.fixture
def clock() -> SimpleNamespace:
    return SimpleNamespace(now=NOW)


@pytest.fixture
def object_cache() -> ObjectCache:
    return ObjectCache()


@pytest.fixture
async def reporter(
    api: FakeApi, clock: SimpleNamespace, object_cache: ObjectCache
) -> AsyncIterator[ProblemReporter]:
    """A reporter of a RayCluster in which all is well, that does not run yet."""
    api.store(Scene().resources)
    connection = client_of(plain(api))
    observing = Observing(connection, object_cache, timing=QUICK, other_kinds=REPORTED)
    async with connection, beside(observing.run()):
        yield ProblemReporter(
            object_cache, observing, EventRecorder(connection, "one"),
            QueueTiming(resync=0.02, tick=0.01), now=lambda: clock.now)  # fmt: skip


def reasons(api: FakeApi) -> list[str]:
    return sorted(event["reason"] for event in api.objects(EVENTS).values())


def states(reporter: ProblemReporter) -> dict[str, int]:
    return reporter.last.tallies[0].replicas if reporter.last.tallies else {}


async def test_a_host_that_is_lost_becomes_an_event_and_its_return_another(
    api: FakeApi, clock: SimpleNamespace, reporter: ProblemReporter
) -> None:
    async with beside(reporter.run()):
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


async def test_an_owner_that_fails_becomes_an_event_and_a_metric(
    api: FakeApi, reporter: ProblemReporter
) -> None:
    scene = samples()["job-failed"].scene()
    api.store(scene.resources)
    async with beside(reporter.run()):
        await eventually(lambda: reasons(api) == ["RayJobFailed"])
        assert reporter.last.problems == {("team", "llama", "job-failed"): 1}
        (job,) = scene.ray_jobs
        api.put(RAYJOBS, {**job, "status": {"jobDeploymentStatus": "Retrying"}})
        await eventually(lambda: reasons(api) == ["RayJobFailed", "RayJobFailedResolved"])


async def test_a_process_reports_only_while_it_leads_and_then_everything(
    api: FakeApi, reporter: ProblemReporter, object_cache: ObjectCache
) -> None:
    async with beside(reporter.run()):
        await eventually(lambda: states(reporter) == {"complete": 2})
    assert reporter.last == NOTHING
    api.delete(PODS, HOST, "team")
    await eventually(lambda: len(object_cache.pods.all) == 8)
    assert object_cache.take_changed() == set(), "a process that stands by keeps no changes"
    async with beside(reporter.run()):
        await eventually(lambda: states(reporter) == {"complete": 1, "degraded": 1})


def examine_with_a_bug(examiner: Examiner, uid: str, now: float) -> bool:
    """Examine a RayCluster, unless it is `llama`."""
    if uid == "uid-of-llama":
        raise ValueError("a bug")
    return EXAMINE(examiner, uid, now)


EXAMINE = Examiner.examine


def clusters(reporter: ProblemReporter) -> list[str]:
    return [tally.cluster for tally in reporter.last.tallies]


async def test_a_bug_that_one_cluster_brings_out_keeps_no_other_and_is_reported_once(
    api: FakeApi,
    clock: SimpleNamespace,
    reporter: ProblemReporter,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(Examiner, "examine", examine_with_a_bug)
    api.store(Scene(a_cluster("qwen").group("cpu", hosts=2)).resources)
    async with beside(reporter.run()):
        await eventually(lambda: clusters(reporter) == ["qwen"])
        api.delete(PODS, "qwen-cpu-worker-0-1", "team")
        await eventually(lambda: states(reporter) == {"degraded": 1})
        clock.now += 120
        await eventually(lambda: reasons(api) == ["HostMissing"])
        for count in (2, 3):
            clock.now += RESTLESS_SECONDS
            await eventually(lambda: reporter.recorder.failures["unexpected"] >= count)  # noqa: B023 - at once
        monkeypatch.undo()
        clock.now += RESTLESS_SECONDS
        await eventually(lambda: clusters(reporter) == ["llama", "qwen"])
    (record,) = [each for each in caplog.records if "a bug" in each.getMessage()]
    text = "events: RayCluster team/llama cannot be examined: ValueError: a bug (unexpected)"
    assert record.getMessage() == text
    assert record.exc_info


async def test_a_bug_that_no_cluster_alone_brings_out_is_logged(
    reporter: ProblemReporter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Tracker, "track", None)
    async with beside(reporter.run()):
        await eventually(lambda: "events of all RayClusters: TypeError: " in caplog.text)
