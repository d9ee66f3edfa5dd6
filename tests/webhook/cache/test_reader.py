"""Live reads: objects that the watch lacks, with one request for many callers, in time."""

import asyncio

import pytest

from tests.harness.fake_api import PODS, RAYCLUSTERS, FakeApi, Fault
from tests.harness.following import eventually, following
from tests.harness.objects import KEY, a_pod, a_raycluster, terminating
from webhook.api.review import ClusterUnreadable
from webhook.cache.live import Flights, LiveReader
from webhook.groups.identity import GroupKey, HostIdentity
from webhook.groups.required_reads import ReadCluster, ReadClusters, ReadGroup

RAY = ReadCluster("default", "ray", "uid-of-ray")


async def test_a_group_is_read_with_its_cluster_and_older_events_do_not_undo_that() -> None:
    async with FakeApi(page_limit=1).serving() as api, following(api) as f:
        for host in range(3):
            api.put(PODS, a_pod(f"pod-{host}", HostIdentity(0, host, "tpu-x")))
        api.put(PODS, a_pod("elsewhere", HostIdentity(0, 0, "gpu-x"), group="gpu"))
        api.put(RAYCLUSTERS, a_raycluster(replicas=1))
        await eventually(lambda: len(f.members) == 4 and len(f.clusters) == 1 and api.watching == 2)
        api.mute()
        api.put(
            PODS, a_pod("pod-0", HostIdentity(0, 0, "tpu-x"))
        )  # a change that the watch will tell after the read
        api.delete(PODS, "pod-0")
        api.put(PODS, terminating(a_pod("pod-1", HostIdentity(0, 1, "tpu-x"))))
        api.put(PODS, a_pod("pod-3", HostIdentity(0, 3, "tpu-x")))
        api.put(PODS, a_pod("pod-4", HostIdentity(0, 3, "tpu-x"), cluster="other"))
        api.put(RAYCLUSTERS, a_raycluster(replicas=2))
        await f.state.reader.read(ReadGroup("ray", KEY))
        expected = [HostIdentity(0, 2, "tpu-x"), HostIdentity(0, 3, "tpu-x")]
        assert f.identities(KEY) == expected
        assert len(f.members) == 3
        assert f.clusters.get("default", "ray").groups["tpu"].desired == 2  # type: ignore[union-attr] # it is there
        api.unmute()
        api.put(PODS, a_pod("last", HostIdentity(0, 1, "gpu-x"), group="gpu"))
        await eventually(
            lambda: len(f.members) == 4 + 1
        )  # the watch also tells of the pod of the other cluster
        assert f.identities(KEY) == expected


async def test_other_tasks_run_between_the_clusters_of_a_namespace(api: FakeApi) -> None:
    async with following(api) as f:
        await eventually(lambda: api.watching == 2)
        api.mute()
        for number in range(9):
            api.put(RAYCLUSTERS, a_raycluster(f"ray-{number}"))
        reading = asyncio.create_task(f.state.reader.read(ReadClusters("default")))
        lengths = set()
        while not reading.done():
            lengths.add(len(f.clusters))
            await asyncio.sleep(0)
        assert lengths >= set(range(9))


async def test_a_raycluster_that_became_unreadable_is_not_deleted(api: FakeApi) -> None:
    async with following(api) as f:
        api.put(RAYCLUSTERS, a_raycluster())
        await eventually(lambda: len(f.clusters) == 1)
        api.put(RAYCLUSTERS, {**a_raycluster(), "spec": "nothing that is known"})
        with pytest.raises(ClusterUnreadable, match="not of the expected shape"):
            await f.state.reader.read(ReadClusters("default"))
        assert f.clusters.get("default", "ray") is not None


@pytest.mark.parametrize(
    "fault", [Fault.RESET, Fault.SILENCE, Fault.BROKEN, Fault.FORBIDDEN, Fault.GARBAGE, Fault.CUT]
)
async def test_a_read_that_fails_says_so_within_its_deadline(api: FakeApi, fault: Fault) -> None:
    async with following(api) as f:
        await eventually(lambda: f.synced)
        api.always("list", fault)
        reader = LiveReader(f.api, f.state.stores, 0.2)
        with pytest.raises(ClusterUnreadable):
            await reader.read(ReadGroup("ray", KEY))
        await reader.close()


async def test_a_namespace_that_is_not_watched_cannot_be_read(api: FakeApi) -> None:
    async with following(api, namespaces=("blue",)) as f:
        with pytest.raises(ClusterUnreadable, match="red is not watched"):
            await f.state.reader.read(ReadCluster("red", "ray", ""))
        with pytest.raises(ClusterUnreadable, match="red is not watched"):
            await f.state.reader.read(ReadGroup("ray", GroupKey("red", "uid", "tpu")))


async def test_many_who_ask_at_once_share_one_read_and_who_asks_later_gets_a_later_one() -> None:
    async with FakeApi(list_delay=0.1).serving() as api, following(api) as f:
        await eventually(lambda: f.synced)
        before = api.count("list", RAYCLUSTERS)
        early = [asyncio.create_task(f.state.reader.read(RAY)) for _ in range(20)]
        await eventually(lambda: api.count("list", RAYCLUSTERS) == before + 1)
        api.put(RAYCLUSTERS, a_raycluster())
        late = [asyncio.create_task(f.state.reader.read(RAY)) for _ in range(20)]
        await asyncio.gather(*early, *late)
        assert api.count("list", RAYCLUSTERS) == before + 2
        assert f.clusters.get("default", "ray")


async def test_a_caller_who_leaves_does_not_end_the_read_and_a_failure_is_raised_once() -> None:
    flights, landed = Flights(), asyncio.Event()

    async def work() -> None:
        await landed.wait()
        raise ClusterUnreadable

    first = asyncio.create_task(flights.join("key", work))
    second = asyncio.create_task(flights.join("key", work))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    assert not second.done()
    landed.set()
    with pytest.raises(ClusterUnreadable):
        await second
    await flights.close()


async def test_clusters_that_do_not_exist_are_read_only_so_many_at_once() -> None:
    async with FakeApi(list_delay=0.2).serving() as api, following(api) as f:
        await eventually(lambda: f.synced)
        before, api.most_at_once = api.count("list", RAYCLUSTERS), 0
        reads = [
            asyncio.create_task(f.state.reader.read(ReadCluster("default", f"ray-{number}", "")))
            for number in range(40)
        ]
        await asyncio.gather(*reads)
        assert api.most_at_once == 8
        assert api.count("list", RAYCLUSTERS) == before + 40
