"""One of several processes is the leader, and another takes over soon after it has ended."""

from collections.abc import AsyncIterator

import pytest

from tests.harness.fake_api import LEASES, FakeApi
from tests.harness.following import client_of, plain
from tests.webhook.controller.electing import Candidate, PassingTime, candidates
from webhook.controller.leader import LEASE_SECONDS, POLL_SECONDS, RETRY_SECONDS, Holding, Lease
from webhook.kubeclient.errors import ApiError


def working(found: list[Candidate]) -> list[str]:
    """Return who works; who works leads, and no one else does."""
    assert [each.identity for each in found if each.leader.leading] == [
        each.identity for each in found if each.work.working
    ]
    return [each.identity for each in found if each.work.working]


async def begin(time: PassingTime, processes: list[Candidate], seconds: float) -> None:
    """Start processes one after the other, and let time pass."""
    for process in processes:
        process.start()
        await time.pass_by(0)
    await time.pass_by(seconds)


async def test_of_many_that_start_at_once_one_works_and_goes_on_working(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "webhook.controller")
    async with candidates(5) as (time, lease, found):
        for process in found:
            process.start()
        await time.pass_by(0)
        (first,) = working(found)
        for _ in range(120):
            await time.pass_by(1)
            assert working(found) == [first]
        assert lease.holding.holder_identity == first
        assert lease.holding.lease_duration_seconds == 15
        assert lease.writes <= 62, "one renewal every two seconds"
        assert lease.reads <= 62 + 4 * 120 / POLL_SECONDS, "the others poll twice a second"
        assert all(each.leader.answered for each in found)
        assert caplog.text.count("; this process stands by") == 4, "each of the others, once"


async def test_who_is_asked_to_end_stops_working_first_and_another_begins_within_a_second() -> None:
    async with candidates(2) as (time, lease, found):
        await begin(time, found, 7)
        await found[0].stop()
        assert working(found) == []
        assert lease.holding.holder_identity == ""
        await time.pass_by(1)
        assert working(found) == ["b"]
        assert lease.holding.lease_transitions == 1


async def test_after_a_crash_another_begins_when_the_lease_is_over_and_not_before() -> None:
    async with candidates(2) as (time, lease, found):
        await begin(time, found, 60)
        await found[0].crash()
        await time.pass_by(LEASE_SECONDS - RETRY_SECONDS - POLL_SECONDS)
        assert working(found) == []
        await time.pass_by(RETRY_SECONDS + 4 * POLL_SECONDS)
        assert working(found) == ["b"]
        assert lease.holding.holder_identity == "b"


@pytest.mark.parametrize(("refused", "late"), [(True, False), (False, False), (False, True)])
async def test_two_never_work_at_once_without_the_api_server(refused: bool, late: bool) -> None:
    async with candidates(2) as (time, lease, found):
        one, other = found
        await begin(time, found, 30)
        one.view.reachable, one.view.refused, one.view.late = False, refused, late
        seen = []
        for _ in range(300):
            await time.pass_by(0.1)
            seen.append(working(found))
        assert all(len(each) <= 1 for each in seen)
        assert seen.index([]) in range(79, 102), "it stops ten seconds after its last renewal"
        assert seen[-1] == ["b"]
        one.view.reachable = True
        await time.pass_by(30)
        assert working(found) == ["b"]
        await other.stop()
        await time.pass_by(1)
        assert working(found) == ["a"]
        assert one.work.terms == 2
        assert lease.holding.lease_transitions == 2


async def test_a_leader_that_is_alone_works_again_after_an_outage() -> None:
    async with candidates(1) as (time, _, found):
        (one,) = found
        await begin(time, found, 5)
        one.view.reachable = False
        await time.pass_by(8)
        assert working(found) == ["a"], "a short outage stops nothing"
        await time.pass_by(60)
        assert working(found) == []
        one.view.reachable = True
        await time.pass_by(1)
        assert working(found) == ["a"]


async def test_a_process_that_takes_the_lease_by_force_is_noticed_at_the_next_renewal() -> None:
    async with candidates(1) as (time, lease, found):
        await begin(time, found, 5)
        lease.holding = Holding("thief", 15, lease.holding.acquire_time, "now", 7)
        lease.version += 1
        await time.pass_by(2)
        assert working(found) == []
        await time.pass_by(16)
        assert working(found) == ["a"], "it never renewed it"


@pytest.mark.parametrize("bug", ["a bug", ""])
async def test_a_work_that_ends_ends_the_process_and_gives_the_lease_back(bug: str) -> None:
    async with candidates(1) as (time, lease, found):
        (one,) = found
        one.work.bug = bug
        one.start()
        await time.pass_by(0)
        with pytest.raises(ExceptionGroup) as ended:
            await one.ended()
        assert ended.group_contains(RuntimeError, match=bug or "ended by itself")
        assert lease.holding.holder_identity == ""


async def test_no_leader_is_named_before_an_answer(caplog: pytest.LogCaptureFixture) -> None:
    async with candidates(1) as (time, _, found):
        (one,) = found
        one.view.reachable = False
        one.start()
        await time.pass_by(30)
        before = one.leader.answered
        one.view.reachable = True
        await time.pass_by(1)
        assert (before, one.leader.answered) == (False, True)
        assert working(found) == ["a"]
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1, warnings
    assert "no connection to the API server (refused); trying again" in warnings[0]


SECONDS = 5.0
HELD = Holding("me", 15, "2024-11-21T10:00:00.000000Z", "2024-11-21T10:00:02.000000Z", 3)


@pytest.fixture
async def lease(api: FakeApi) -> AsyncIterator[Lease]:
    async with client_of(plain(api)) as connection:
        yield Lease(connection, "ray-webhook", "ray-webhook-controller")


async def test_what_is_written_is_what_is_read(api: FakeApi, lease: Lease) -> None:
    assert await lease.read(SECONDS) == (Holding(), "")
    await lease.write(HELD, "", SECONDS)
    stored = api.objects(LEASES)["ray-webhook-controller"]
    assert stored["spec"] == {
        "holderIdentity": "me", "leaseDurationSeconds": 15,
        "acquireTime": "2024-11-21T10:00:00.000000Z", "renewTime": "2024-11-21T10:00:02.000000Z",
        "leaseTransitions": 3}  # fmt: skip
    found, version = await lease.read(SECONDS)
    assert found == HELD
    assert version == stored["metadata"]["resourceVersion"]
    await lease.write(Holding("", 1), version, SECONDS)
    assert (await lease.read(SECONDS))[0] == Holding("", 1)


@pytest.mark.parametrize("version", ["", "1"])
async def test_a_changed_lease_is_not_written(api: FakeApi, lease: Lease, version: str) -> None:
    await lease.write(HELD, "", SECONDS)
    with pytest.raises(ApiError) as refusal:
        await lease.write(Holding("other", 15), version, SECONDS)
    assert refusal.value.reason == "conflict"
    assert api.objects(LEASES)["ray-webhook-controller"]["spec"]["holderIdentity"] == "me"


async def test_a_lease_without_a_spec_is_held_by_nobody(api: FakeApi, lease: Lease) -> None:
    api.put(LEASES, {"metadata": {"namespace": "ray-webhook", "name": "ray-webhook-controller"}})
    assert (await lease.read(SECONDS))[0] == Holding()
