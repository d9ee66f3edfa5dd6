"""The work queue: when and how often a key is reconciled, with a clock that tests advance."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from msgspec.structs import replace

from tests.webhook.controller.electing import PassingTime
from webhook.controller.work_queue import ALL, Key, QueueTiming, WorkQueue
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import Clock

TIMING = QueueTiming(resync=600.0, tick=1.0, first_delay=4.0, longest_delay=16.0)
RAY = ("team", "ray")
OTHER = ("team", "other")


def exact(time: PassingTime) -> Clock:
    """Return a clock with which delays are not left to chance."""
    return replace(time.time_source, random=lambda: 1.0)


class Work:
    """A reconciler: the times at which it was called for each key, and what happens then."""

    def __init__(self, time: PassingTime) -> None:
        self.calls: list[tuple[float, Key]] = []
        self.error: Exception | None = None
        self.spared: set[Key] = {ALL}
        """Keys without an error."""
        self.again = False
        self.gate: asyncio.Event | None = None
        self._time = time

    async def reconcile(self, key: Key) -> bool:
        self.calls.append((self._time.now - 1000.0, key))
        if self.gate is not None and key != ALL:
            await self.gate.wait()
        if self.error is not None and key not in self.spared:
            raise self.error
        return self.again and key != ALL

    @property
    def times(self) -> list[float]:
        """When `RAY` was reconciled."""
        return [at for at, key in self.calls if key == RAY]


@asynccontextmanager
async def working(workers: int = 1) -> AsyncIterator[tuple[PassingTime, Work, WorkQueue]]:
    time = PassingTime()
    work = Work(time)
    queue = WorkQueue("things", work.reconcile, lambda: True, TIMING, exact(time), workers)
    task = asyncio.create_task(queue.run())
    await time.pass_by(0)
    try:
        yield time, work, queue
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_changes_within_a_tick_are_reconciled_once_and_nothing_follows() -> None:
    async with working() as (time, work, queue):
        for _ in range(3):
            queue.add(RAY)
        await time.pass_by(500)
        assert work.times == [1.0]


async def test_a_change_during_a_reconciliation_leads_to_another_one_after_it() -> None:
    async with working(workers=2) as (time, work, queue):
        work.gate = asyncio.Event()
        queue.add(RAY)
        await time.pass_by(5)
        queue.add(RAY)
        await time.pass_by(5)
        assert work.times == [1.0]
        work.gate.set()
        await time.pass_by(5)
        assert work.times == [1.0, 11.0]


async def test_no_more_keys_are_reconciled_at_once_than_there_are_workers() -> None:
    async with working(workers=2) as (time, work, queue):
        work.gate = asyncio.Event()
        for number in range(5):
            queue.add((f"team-{number}", "ray"))
        await time.pass_by(5)
        assert len(work.calls) == 1 + 2
        work.gate.set()
        await time.pass_by(5)
        assert len(work.calls) == 1 + 5


@pytest.mark.parametrize("workers", [1, 2, 8])
async def test_the_keys_of_a_namespace_leave_a_turn_to_others(workers: int) -> None:
    async with working(workers) as (time, work, queue):
        work.gate = asyncio.Event()
        for number in range(20):
            queue.add(("many", str(number)))
        queue.add(RAY)
        await time.pass_by(5)
        assert (workers == 1) != bool(work.times)
        work.gate.set()
        await time.pass_by(5)
        assert RAY in [key for _, key in work.calls[: 2 + max(workers // 2, 1)]]
        assert len(work.calls) == 1 + 20 + 1


async def test_after_a_failure_nothing_is_tried_for_a_time_that_grows_up_to_a_limit() -> None:
    async with working() as (time, work, queue):
        work.error = ApiError("forbidden", "no")
        queue.add(RAY)
        for _ in range(60):
            await time.pass_by(1)
            queue.add(RAY)
        assert work.times == [1.0, 5.0, 13.0, 29.0, 45.0]
        work.error = None
        await time.pass_by(40)
        queue.add(RAY)
        await time.pass_by(40)
        assert work.times[5:] == [61.0, 101.0]
        assert queue.failures == {"forbidden": 5}


async def test_the_api_server_may_ask_for_a_longer_delay() -> None:
    async with working() as (time, work, queue):
        work.error = ApiError("throttled", "later", retry_after=9.0)
        queue.add(RAY)
        await time.pass_by(11)
        assert work.times == [1.0, 10.0]


async def test_a_changed_configuration_is_tried_at_once_but_not_during_an_outage() -> None:
    async with working() as (time, work, queue):
        work.error = ApiError("invalid", "no")
        queue.add(RAY)
        await time.pass_by(6)
        queue.add(RAY, changed=True)
        await time.pass_by(6)
        assert work.times == [1.0, 5.0, 7.0, 11.0]
        work.error = ApiError("refused", "no connection")
        queue.add(OTHER)
        await time.pass_by(2)
        queue.add(OTHER, changed=True)
        await time.pass_by(2)
        assert [at for at, key in work.calls if key == OTHER] == [13.0]


async def test_a_change_during_a_reconciliation_that_is_refused_is_tried_at_once() -> None:
    async with working() as (time, work, queue):
        work.error, work.gate = ApiError("invalid", "no"), asyncio.Event()
        queue.add(RAY)
        await time.pass_by(2)
        queue.add(RAY, changed=True)
        work.gate.set()
        await time.pass_by(2)
        assert work.times == [1.0, 3.0]


async def test_what_only_time_can_change_is_reconciled_again_and_then_more_rarely() -> None:
    async with working() as (time, work, queue):
        work.again = True
        queue.add(RAY)
        await time.pass_by(20)
        assert work.times == [1.0, 5.0, 13.0]
        queue.add(RAY)
        work.again = False
        await time.pass_by(500)
        assert work.times == [1.0, 5.0, 13.0, 21.0]


async def test_a_bug_is_logged_once_and_stops_no_key(caplog: pytest.LogCaptureFixture) -> None:
    async with working() as (time, work, queue):
        work.error, work.spared = ValueError("a bug"), {OTHER}
        queue.add(RAY)
        queue.add(OTHER)
        queue.add(ALL)
        await time.pass_by(20)
        work.error = KeyError("a bug")
        await time.pass_by(20)
        assert [key for _, key in work.calls].count(OTHER) == 1
        assert queue.failures["unexpected"] > 4
    bug_records = [each for each in caplog.records if "a bug" in each.getMessage()]
    assert sorted(each.getMessage() for each in bug_records) == [
        f"things of {key}: {error} (unexpected)"
        for key in ("RayCluster team/ray", "all RayClusters")
        for error in ("KeyError: 'a bug'", "ValueError: a bug")
    ]
    assert all(each.exc_info and each.levelname == "ERROR" for each in bug_records)


async def test_a_queue_that_does_not_run_keeps_nothing() -> None:
    async with working() as (time, work, queue):
        await time.pass_by(0)
        idle = WorkQueue("things", work.reconcile, lambda: True, TIMING, exact(time))
        idle.add(RAY)
        task = asyncio.create_task(idle.run())
        await time.pass_by(100)
        task.cancel()
        assert {key for _, key in work.calls} == {ALL}
        assert queue.failures == {}
