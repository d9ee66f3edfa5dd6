"""The reporter: what is wrong in a cluster becomes events, and numbers for metrics."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

from tests.follow.fake_api import EVENTS, PODS, FakeApi
from tests.follow.following import QUICK, beside, eventually, plain
from tests.follow.test_observing import HOST, put
from tests.status.scenes import NOW, Scene
from webhook.control.event_recorder import EventRecorder
from webhook.control.reporter import NOTHING, Reporter, ReportTiming
from webhook.follow.client import Api
from webhook.follow.observing import Observing


class Clock:
    """The time of day, as a story sets it."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        """Return it."""
        return self.now


@asynccontextmanager
async def reporting(api: FakeApi, clock: Clock) -> AsyncIterator[Reporter]:
    """Report to a fake API server, until the end of the block."""
    connection = Api(plain(api))
    await connection.open()
    reporter = Reporter(
        lambda world: Observing(connection, world, timing=QUICK, beside=()),
        EventRecorder(connection, "one"),
        ReportTiming(period=0.02, poll=0.01),
        now=clock,
    )
    try:
        async with beside(reporter.run()):
            yield reporter
    finally:
        await connection.close()


def run(story: Callable[[FakeApi, Clock], Coroutine[None, None, None]]) -> None:
    """Tell a story against a fake API server with a scene."""

    async def told() -> None:
        async with FakeApi().serving() as api:
            put(api, Scene())
            await story(api, Clock())

    asyncio.run(told())


def reasons(api: FakeApi) -> list[str]:
    """Return the reasons of all events."""
    return sorted(event["reason"] for event in api.objects(EVENTS).values())


def states(reporter: Reporter) -> dict[str, int]:
    """Return the replicas of the one group, by state."""
    return reporter.last.tallies[0].replicas if reporter.last.tallies else {}


def test_a_host_that_is_lost_becomes_an_event_and_its_return_another() -> None:
    async def story(api: FakeApi, clock: Clock) -> None:
        async with reporting(api, clock) as reporter:
            await eventually(lambda: states(reporter) == {"complete": 2})
            pod = api.objects(PODS)[HOST]
            api.delete(PODS, HOST, "team")
            await eventually(lambda: states(reporter) == {"complete": 1, "waits": 1})
            assert reasons(api) == []
            clock.now += 120
            await eventually(lambda: reasons(api) == ["HostMissing"])
            api.put(PODS, pod)
            await eventually(lambda: reasons(api) == ["HostMissing", "ReplicaComplete"])
            assert reporter.last.troubles == {}

    run(story)


def test_a_process_that_no_longer_leads_knows_nothing() -> None:
    async def story(api: FakeApi, clock: Clock) -> None:
        async with reporting(api, clock) as reporter:
            await eventually(lambda: states(reporter) == {"complete": 2})
            assert reporter.watches
        assert reporter.last == NOTHING
        assert reporter.watches == []

    run(story)
