"""Faults of the API server: informers recover, back off, and log each fault once."""

import asyncio
import logging
from contextlib import suppress
from functools import partial

import pytest
from msgspec.structs import replace

from tests.harness.fake_api import PODS, RAYCLUSTERS, FakeApi, Fault
from tests.harness.following import QUICK, beside, client_of, eventually, following, plain
from tests.harness.objects import KEY, a_pod, a_raycluster, terminating
from tests.harness.scenes import Scene
from webhook.cache.cluster_cache import REPORTED, Observing
from webhook.cache.informer import ListWatch, _Outage
from webhook.cache.serve_stores import PodStore, pods_in
from webhook.groups.identity import HostIdentity
from webhook.groups.identity_index import Membership
from webhook.kubeclient import wire
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import Backoff, Clock, Timing
from webhook.objects.object_cache import ObjectCache

BROKEN_WATCHES = {
    Fault.RESET: "disconnected", Fault.SILENCE: "timeout", Fault.UNAUTHORIZED: "unauthorized",
    Fault.FORBIDDEN: "forbidden", Fault.BROKEN: "server", Fault.EXPIRED: "expired",
    Fault.EXPIRED_EVENT: "expired", Fault.STRANGE_EVENT: "garbled", Fault.GARBAGE: "garbled",
    Fault.TRUNCATED: "truncated", Fault.CUT: "disconnected",
}  # fmt: skip
OF_WATCHES = {Fault.EXPIRED_EVENT, Fault.STRANGE_EVENT, Fault.TRUNCATED}


STEADY = replace(QUICK, page_deadline=60.0, idle=60.0)
"""However slow the machine is, nothing but the fault ends a request."""


def identity(host: int, replica: int = 0) -> HostIdentity:
    return HostIdentity(replica, host, f"tpu-{replica}")


def pod_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    cached = [record for record in caplog.records if record.name == "webhook.cache"]
    return [text for record in cached if "pods" in (text := record.getMessage())]


@pytest.mark.parametrize("fault", [each for each in BROKEN_WATCHES if each is not Fault.SILENCE])
async def test_a_failed_watch_is_resumed(
    api: FakeApi, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "webhook.cache")
    for host in range(3):
        api.put(PODS, a_pod(f"pod-{host}", identity(host)))
    if fault in (Fault.UNAUTHORIZED, Fault.RESET):
        api.plan("watch", fault)  # repeated once: with new credentials or another connection
    api.plan("watch", fault)
    async with following(api, timing=STEADY) as f:
        await eventually(lambda: f.synced)
        api.delete(PODS, "pod-0")
        api.put(PODS, a_pod("pod-3", identity(3)))
        api.put(PODS, a_pod("pod-4", identity(0)))
        await eventually(lambda: f.pods.errors and len(f.members) == 4)
        assert f.identities(KEY) == [identity(0), identity(1), identity(2), identity(3)]
        api.put(PODS, terminating(a_pod("pod-4", identity(0))))
        await eventually(lambda: len(f.members) == 3)
        while "watching again" not in pod_lines(caplog)[-1]:
            api.put(PODS, terminating(a_pod("pod-3", identity(3))))  # a healthy watch delivers
            await asyncio.sleep(0.02)
    assert set(f.pods.errors) == {BROKEN_WATCHES[fault]}
    assert f.pods.relists == ("expired" in f.pods.errors)
    first, problem, *_, again = pod_lines(caplog)
    assert first.startswith("pods in all namespaces: listed")
    assert f"({BROKEN_WATCHES[fault]})" in problem
    assert "watching again" in again


async def test_a_silent_watch_is_reopened_and_reported(
    api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "webhook.cache")
    api.plan("watch", Fault.SILENCE)
    async with following(api, timing=replace(STEADY, idle=1.0)) as f:
        await eventually(lambda: f.pods.errors.get("timeout") == 1)
        api.put(PODS, a_pod("pod-0", identity(0)))
        await eventually(lambda: len(f.members) == 1)
    assert (set(f.pods.errors), f.pods.relists) == ({"timeout"}, 0)
    lines = [line for line in pod_lines(caplog) if "listed" not in line]
    assert any("sent nothing for" in line for line in lines)


@pytest.mark.parametrize("fault", [fault for fault in BROKEN_WATCHES if fault not in OF_WATCHES])
async def test_a_failed_list_is_repeated(
    api: FakeApi, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "webhook.cache")
    api.put(PODS, a_pod("pod-0", identity(0)))
    api.always("list", fault)
    async with following(api, timing=QUICK if fault is Fault.SILENCE else STEADY) as f:
        await eventually(lambda: sum(f.pods.errors.values()) >= 3)
        assert not f.synced
        api.always("list", None)
        await eventually(lambda: f.synced and len(f.members) == 1)
    assert set(f.pods.errors) == {BROKEN_WATCHES[fault]}
    assert len([line for line in pod_lines(caplog) if "next" in line]) == 1


@pytest.mark.parametrize("fault", [*BROKEN_WATCHES, Fault.BRIEF])
async def test_a_watch_that_always_fails_does_not_make_us_hammer_the_server(
    api: FakeApi, fault: Fault
) -> None:
    api.always("watch", fault)
    async with following(api, timing=PATIENT) as f:
        await eventually(lambda: f.synced)
        begun = asyncio.get_running_loop().time()
        await eventually(lambda: api.count("watch") + api.count("list") > 12)
        # Delays of 0.05 to 0.1, 0.1 to 0.2, 0.2 to 0.4 s; a watch that ends properly comes every
        # 0.1 s; 401 and 410 double requests.
        assert asyncio.get_running_loop().time() - begun >= 0.3


PATIENT = Timing(
    page_deadline=0.3, idle=0.3, watch_interval=0.1, first_delay=0.1, longest_delay=5.0
)


async def test_a_server_that_is_down_for_ten_minutes_is_asked_some_thirty_times() -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if sum(pauses) > 600:
            raise asyncio.CancelledError

    fake = FakeApi()
    async with fake.serving():
        await fake.down()  # nobody listens
        api, clock = client_of(plain(fake)), Clock(random=lambda: 0.5, sleep=sleep)
        watch = ListWatch(api, pods_in(""), PodStore(Membership()), Timing(), clock)
        with suppress(asyncio.CancelledError):
            async with api:
                await watch.run()
    assert watch.counters.errors == {"refused": len(pauses)}
    assert 20 <= len(pauses) <= 40
    assert pauses[:2] == [0.25 * 0.75, 0.5 * 0.75]
    assert max(pauses) <= 30


def test_delays_double_up_to_a_limit_are_spread_by_chance_and_start_again() -> None:
    backoff = Backoff(1.0, 10.0, lambda: 0.0)
    assert [backoff.next() for _ in range(6)] == [0.5, 1.0, 2.0, 4.0, 5.0, 5.0]
    assert backoff.next(at_least=7.0) == 7.0
    assert backoff.next(at_least=3600.0) == 10.0
    backoff.reset()
    assert backoff.next() == 0.5
    assert Backoff(1.0, 10.0, lambda: 1.0).next() == 1.0


def test_every_fifth_failure_of_a_watch_is_followed_by_a_list() -> None:
    outage, error = _Outage("pods", Timing(), Clock()), ApiError("server", "500")
    resumed = [outage.failed(error, resumed=True)[1] for _ in range(15)]
    assert resumed == 3 * [True, True, True, True, False]


async def test_a_server_that_asks_for_a_pause_gets_it(api: FakeApi) -> None:
    api.plan("list", Fault.THROTTLED)
    # Within a deadline of more than the pause of 1 s the client itself would repeat
    async with following(api, timing=replace(PATIENT, page_deadline=0.9)) as f:
        await eventually(lambda: f.synced)
        lists = [each for each in api.requests if (each.verb, each.resource) == ("list", PODS)]
        assert f.pods.errors == {"throttled": 1}
        assert lists[1].at - lists[0].at >= 0.99


async def test_a_watch_that_ends_every_second_is_resumed_at_once(api: FakeApi) -> None:
    api.always("watch", Fault.BRIEF)
    async with following(api, timing=STEADY) as f:
        await eventually(lambda: f.synced)
        for host in range(4):
            api.put(PODS, a_pod(f"pod-{host}", identity(host)))
            await eventually(partial(lambda expected: len(f.members) == expected, host + 1))
        await eventually(lambda: f.pods.watches >= 6)
        assert f.pods.events == 4
        assert f.pods.lists == 1
        assert not f.pods.errors


async def test_a_new_server_is_followed(api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "webhook.cache")

    api.put(PODS, a_pod("pod-0", identity(0)))
    async with following(api, timing=STEADY) as f:
        await eventually(lambda: api.watching == 2)
        caplog.clear()
        await api.down()
        await eventually(lambda: f.pods.errors.get("refused", 0) >= 8)
        assert f.synced
        assert len(f.members) == 1
        api.put(PODS, a_pod("pod-1", identity(1)))
        await api.up()
        await eventually(lambda: len(f.members) == 2)
        assert f.pods.lists == 1
    reasons = [line.rsplit("(", 1)[1].split(")")[0] for line in pod_lines(caplog) if "next" in line]
    assert reasons in (["disconnected", "refused"], ["refused"])


async def test_a_list_in_pages_whose_token_expires_begins_again() -> None:
    async with FakeApi(page_limit=3, continue_expires=2).serving() as api:
        for replica in range(10):
            api.put(PODS, a_pod(f"pod-{replica}", identity(0, replica)))
        async with following(api, timing=STEADY) as f:
            await eventually(lambda: f.synced)
            assert len(f.identities(KEY)) == 10
            assert f.pods.errors == {"expired": 2}
            assert f.pods.lists == 3


async def test_a_list_that_is_too_slow_is_given_up_and_a_slow_one_is_awaited() -> None:
    async with FakeApi(list_delay=QUICK.page_deadline * 2).serving() as api:
        api.put(PODS, a_pod("pod-0", identity(0)))
        async with following(api) as f:
            await eventually(lambda: f.pods.errors.get("timeout"))
            api.list_delay = QUICK.page_deadline / 2
            await eventually(lambda: f.synced)
            assert len(f.members) == 1


async def test_bookmarks_move_the_place_to_resume_from(api: FakeApi) -> None:
    async with following(api, timing=STEADY) as f:
        await eventually(lambda: api.watching == 2)
        api.put(RAYCLUSTERS, a_raycluster())  # nothing that the pod feed is told of
        (pods,) = f.state.pods
        before = pods.contacted_at
        api.bookmark()
        await eventually(lambda: pods.contacted_at > before)
        api.compact()
        api.drop_connections()
        await eventually(lambda: f.pods.watches == 2)
        assert api.requests[-1].query["resourceVersion"] == str(api.version)
        assert 300 <= int(api.requests[-1].query["timeoutSeconds"]) < 600
        assert f.pods.lists == 1


async def test_a_store_that_was_set_back_by_a_restore_is_listed_again(api: FakeApi) -> None:
    for host in range(4):
        api.put(PODS, a_pod(f"pod-{host}", identity(host)))
    async with following(api) as f:
        await eventually(lambda: api.watching == 2)
        await api.down()
        api.delete(PODS, "pod-3")
        api.rewind(10)
        api.plan("watch", *[Fault.BROKEN] * 10)  # the answer to a version from the future
        await api.up()
        await eventually(lambda: f.pods.relists)
        assert len(f.members) == 3
        api.put(PODS, terminating(a_pod("pod-2", identity(2))))
        await eventually(lambda: len(f.members) == 2)


async def test_an_object_of_another_shape_has_no_identity_and_stops_none(api: FakeApi) -> None:
    strange = a_pod("strange", identity(0))
    strange["metadata"]["ownerReferences"] = "none"
    bare = a_pod("bare")
    del bare["metadata"]["ownerReferences"]
    bare["metadata"]["labels"] = {"ray.io/node-type": "worker"}
    for pod in (strange, bare, a_pod("pod-1", identity(1))):
        api.put(PODS, pod)
    async with following(api, timing=STEADY) as f:
        await eventually(lambda: f.synced)
        assert f.identities(KEY) == [identity(1)]
        for pod in (strange, bare, a_pod("pod-2", identity(2))):
            api.put(PODS, pod)
        await eventually(lambda: len(f.members) == 2)
        assert f.pods.unreadable == 2  # in the list, and in an event
        assert not f.pods.errors


async def test_a_monotonic_clock_that_jumps_ahead_changes_nothing(api: FakeApi) -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 86_400.0
        return now[0]

    api.always("watch", Fault.BRIEF)

    connection, members = client_of(plain(api)), Membership()
    watch = ListWatch(connection, pods_in(""), PodStore(members), QUICK, Clock(clock=clock))
    async with connection, beside(watch.run()):
        await eventually(lambda: watch.synced)
        api.put(PODS, a_pod("pod-0", identity(0)))
        await eventually(lambda: len(members) == 1)


async def test_a_list_whose_pages_never_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "PAGES_MAX", 3)
    async with FakeApi(page_limit=1).serving() as api, client_of(plain(api)) as client:
        for host in range(4):
            api.put(PODS, a_pod(f"pod-{host}", identity(0, host)))
        with pytest.raises(ApiError, match="more than 3 pages"):
            await wire.read_list(client, pods_in(""), 5.0)


HOST = "llama-tpu-worker-0-3"


async def test_changes_during_an_outage_are_seen_by_the_next_list(api: FakeApi) -> None:
    api.store(Scene().resources)
    object_cache = ObjectCache()

    def pods() -> set[str]:
        return {pod.name for pod in object_cache.pods.all}

    async with client_of(plain(api)) as client:
        observing = Observing(client, object_cache, timing=QUICK, other_kinds=REPORTED)
        async with beside(observing.run()):
            await eventually(lambda: observing.listed)
            assert len(pods()) == 9
            light = {each.resource for each in api.requests if "PartialObj" in str(each.headers)}
            assert light == {"namespaces", "services"}
            api.mute()
            api.delete(PODS, HOST, "team")
            api.compact()
            api.plan("watch", Fault.EXPIRED)
            await api.down()
            await eventually(lambda: observing.problem == "refused")
            assert len(pods()) == 9
            await api.up()
            await eventually(lambda: HOST not in pods())
            assert len(pods()) == 8
