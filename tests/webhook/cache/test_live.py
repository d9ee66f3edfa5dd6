"""Live reads: objects that the watch lacks, with one request for many callers, and in time."""

import asyncio
import json
from collections.abc import Callable

import msgspec
import pytest

from tests.harness.apiserver import pod_review
from tests.harness.fake_api import PODS, RAYCLUSTERS, FakeApi, Fault, Object
from tests.harness.following import eventually, following
from tests.harness.objects import KEY, a_pod, a_raycluster, terminating
from tests.harness.single_process import Lists
from webhook.admission.pod_handler import PodHandler
from webhook.admission.reviewer import Mutation
from webhook.api.objects import RayCluster
from webhook.api.review import Answer, ClusterUnreadable
from webhook.cache.live import Flights, LiveReader
from webhook.groups.group_config import ClusterIndex, read_cluster_config
from webhook.groups.identity import GroupKey, HostIdentity
from webhook.groups.identity_index import Member, Membership
from webhook.groups.required_reads import Read, ReadCluster, ReadClusters, ReadGroup
from webhook.reservation.allocation import VACANT_SECONDS

RAY = ReadCluster("default", "ray", "uid-of-ray")


async def test_a_group_is_read_with_its_cluster_and_older_events_do_not_undo_that() -> None:
    async with FakeApi(page_limit=1).serving() as api, following(api) as f:
        for host in range(3):
            api.put(PODS, a_pod(f"pod-{host}", HostIdentity(0, host, "tpu-x")))
        api.put(PODS, a_pod("elsewhere", HostIdentity(0, 0, "gpu-x"), group="gpu"))
        api.put(RAYCLUSTERS, a_raycluster(replicas=1))
        await eventually(lambda: len(f.members) == 4 and len(f.clusters) == 1 and api.watching == 2)
        api.mute()
        # A change that the watch delivers after the read
        api.put(PODS, a_pod("pod-0", HostIdentity(0, 0, "tpu-x")))
        api.delete(PODS, "pod-0")
        api.put(PODS, terminating(a_pod("pod-1", HostIdentity(0, 1, "tpu-x"))))
        api.put(PODS, a_pod("pod-3", HostIdentity(0, 3, "tpu-x")))
        api.put(PODS, a_pod("pod-4", HostIdentity(0, 3, "tpu-x"), cluster="other"))
        api.put(RAYCLUSTERS, a_raycluster(replicas=2))
        await f.state.reader.read(ReadGroup("ray", KEY))
        (read,) = (each for each in api.requests[-2:] if each.resource == RAYCLUSTERS)
        assert read.query["fieldSelector"] == "metadata.name=ray"
        expected = [HostIdentity(0, 2, "tpu-x"), HostIdentity(0, 3, "tpu-x")]
        assert f.identities(KEY) == expected
        assert len(f.members) == 3
        assert f.clusters.get("default", "ray").groups["tpu"].desired == 2  # type: ignore[union-attr] # it is there
        api.unmute()
        api.put(PODS, a_pod("last", HostIdentity(0, 1, "gpu-x"), group="gpu"))
        await eventually(lambda: len(f.members) == 4 + 1)  # also the pod of the other cluster
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


READ_CLUSTER, READ_GROUP = ReadCluster("default", "ray", "uid-of-ray"), ReadGroup("ray", KEY)


class Webhook:
    """A reviewer over a group `tpu` of a RayCluster `ray`, with its live reads; `finds` does what
    they would bring to light.
    """

    def __init__(self, replicas: int, hosts: int = 1) -> None:
        document = a_raycluster(replicas=replicas, numOfHosts=hosts)
        self.config = read_cluster_config(msgspec.convert(document, RayCluster))
        self.members, self.clusters, self.lists = Membership(), ClusterIndex(), Lists()
        self.clusters.put(self.config)
        self.reads: list[Read] = []
        self.finds: Callable[[], None] = lambda: None
        handler = PodHandler(self.clusters, self.lists.identities(self.members))
        self.mutation = Mutation(handler, self)

    async def read(self, what: Read) -> None:
        self.reads.append(what)
        self.finds()

    def holds(self, *identities: HostIdentity) -> None:
        for identity in identities:
            self.members.put(f"pod-{identity.replica}-{identity.host}", Member(KEY, identity))

    def create(self, now: float = 0.0, pod: Object | None = None) -> Answer:
        self.lists.time = 1000.0 + now
        return asyncio.run(create(self.mutation, pod))

    def identity(self, now: float = 0.0) -> tuple[int, int]:
        """Return the replica and host index that a new pod gets."""
        return identity_in(self.create(now))


async def create(mutation: Mutation, pod: Object | None = None) -> Answer:
    return (await mutation.review(json.dumps(pod_review(pod or a_pod("new"))).encode())).answer


def identity_in(answer: Answer) -> tuple[int, int]:
    assert answer.allowed, answer
    patch = json.loads(answer.patch or b"")
    labels = {operation["path"].rpartition("/")[2]: operation["value"] for operation in patch}
    return int(labels["ray.io~1worker-group-replica-index"]), int(
        labels.get("ray.io~1replica-host-index", "0")
    )


def test_a_group_that_is_still_full_of_pods_after_the_read_gets_its_extra_replica() -> None:
    webhook = Webhook(2)
    webhook.holds(HostIdentity(0, 0, ""), HostIdentity(1, 0, ""))
    assert (webhook.identity(), webhook.reads) == ((2, 0), [READ_GROUP])


@pytest.mark.parametrize("hosts", [1, 4])
def test_identities_of_pods_that_never_appeared_are_reused_after_a_wait(hosts: int) -> None:
    webhook = Webhook(1, hosts)
    name = "tpu-x" if hosts > 1 else ""
    webhook.holds(*(HostIdentity(0, host, name) for host in range(hosts - 1)))
    assert webhook.identity(0.0) == (0, hosts - 1)
    answer = webhook.create(1.0)
    assert answer.causes[0].reason == "FieldValueForbidden"
    assert webhook.reads == [READ_GROUP]
    assert (webhook.identity(VACANT_SECONDS), webhook.reads) == ((0, hosts - 1), [READ_GROUP])


def test_nobody_is_asked_while_a_desired_identity_is_free_or_the_pod_has_its_identity() -> None:
    webhook = Webhook(2, 2)
    webhook.holds(HostIdentity(5, 0, "tpu-x"))
    assert [webhook.identity(), webhook.identity()] == [(5, 1), (0, 0)]
    assert webhook.create(pod=a_pod("new", HostIdentity(9, 0, "tpu-z"))).allowed
    assert webhook.reads == []


def test_a_cluster_that_is_not_known_is_read_and_then_its_group_if_it_looks_full() -> None:
    webhook = Webhook(0)
    webhook.clusters.remove("default", "ray", "uid-of-ray")
    webhook.finds = lambda: webhook.clusters.put(webhook.config)
    assert (webhook.identity(), webhook.reads) == ((0, 0), [READ_CLUSTER, READ_GROUP])


def test_a_cluster_that_cannot_be_asked_is_no_denial_and_nothing_is_recorded() -> None:
    def fail() -> None:
        raise ClusterUnreadable

    webhook = Webhook(1)
    webhook.finds = fail
    webhook.holds(HostIdentity(0, 0, ""))
    with pytest.raises(ClusterUnreadable):
        webhook.create()
    webhook.members.remove("pod-0-0")
    assert webhook.identity() == (0, 0)


async def test_behind_a_watch_that_lags_a_replaced_pod_gets_its_identity(api: FakeApi) -> None:
    async with following(api) as f:
        handler = PodHandler(f.clusters, Lists().identities(f.members))
        mutation = Mutation(handler, f.state.reader)
        api.put(RAYCLUSTERS, a_raycluster(replicas=1, numOfHosts=2))
        for host in range(2):
            api.put(PODS, a_pod(f"pod-{host}", HostIdentity(0, host, "tpu-x")))
        await eventually(lambda: len(f.members) == 2 and len(f.clusters) == 1 and api.watching == 2)
        api.mute()
        api.delete(PODS, "pod-1")
        before = api.count("list")
        assert identity_in(await create(mutation)) == (0, 1)
        assert api.count("list") == before + 1
        answers = await asyncio.gather(*(create(mutation) for _ in range(10)))
        assert not any(answer.allowed for answer in answers)
        assert api.count("list") == before + 2
