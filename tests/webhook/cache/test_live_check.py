"""Before a replica above the desired count is started, the cache is verified with one live read."""

import asyncio
import base64
import json
from collections.abc import Callable

import msgspec
import pytest

from tests.harness.apiserver import pod_review
from tests.harness.fake_api import PODS, RAYCLUSTERS, FakeApi, Object
from tests.harness.following import eventually, following
from tests.harness.objects import KEY, a_pod, a_raycluster
from tests.harness.single_process import Lists
from webhook.admission.pod_handler import PodHandler
from webhook.admission.reviewer import Mutation
from webhook.api.objects import RayCluster
from webhook.api.review import ClusterUnreadable
from webhook.groups.group_config import ClusterIndex, read_cluster_config
from webhook.groups.identity import HostIdentity
from webhook.groups.identity_index import Member, Membership
from webhook.groups.required_reads import Read, ReadCluster, ReadGroup
from webhook.reservation.allocation import VACANT_SECONDS

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

    def create(self, now: float = 0.0, pod: Object | None = None) -> Object:
        self.lists.time = 1000.0 + now
        return asyncio.run(create(self.mutation, pod))

    def identity(self, now: float = 0.0) -> tuple[int, int]:
        """Return the replica and host index that a new pod gets."""
        return identity_in(self.create(now))


async def create(mutation: Mutation, pod: Object | None = None) -> Object:
    outcome = await mutation.review(msgspec.json.encode(pod_review(pod or a_pod("new"))))
    answer: Object = json.loads(outcome.body)["response"]
    return answer


def identity_in(answer: Object) -> tuple[int, int]:
    assert answer["allowed"], answer
    patch = json.loads(base64.b64decode(answer["patch"]))
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
    assert not answer["allowed"]
    assert answer["status"]["details"]["causes"][0]["reason"] == "FieldValueForbidden"
    assert webhook.reads == [READ_GROUP]
    assert (webhook.identity(VACANT_SECONDS), webhook.reads) == ((0, hosts - 1), [READ_GROUP])


def test_nobody_is_asked_while_a_desired_identity_is_free_or_the_pod_has_its_identity() -> None:
    webhook = Webhook(2, 2)
    webhook.holds(HostIdentity(5, 0, "tpu-x"))
    assert [webhook.identity(), webhook.identity()] == [(5, 1), (0, 0)]
    assert webhook.create(pod=a_pod("new", HostIdentity(9, 0, "tpu-z")))["allowed"]
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
        assert not any(answer["allowed"] for answer in answers)
        assert api.count("list") == before + 2
