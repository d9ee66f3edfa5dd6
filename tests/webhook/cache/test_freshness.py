"""RayClusters change while their watch is silent: pods are reviewed with a live read."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.utils import formatdate
from math import ceil

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import NAMESPACE, ClusterBuilder, PodBuilder, Webhook, a_cluster, a_pod
from tests.harness.apiserver import Object, object_review, pod_review
from tests.harness.fake_api import RAYCLUSTERS, FakeApi
from tests.harness.following import Following, eventually, following
from webhook.admission.pod_handler import PodHandler
from webhook.admission.reviewer import Mutation
from webhook.admission.shard_handler import ShardHandler
from webhook.api import names
from webhook.api.review import Answer, ClusterUnreadable
from webhook.groups.identity_index import Membership
from webhook.groups.required_reads import SILENCE_SECONDS
from webhook.reservation.identities import StandaloneIdentities
from webhook.reservation.reservations import standalone

PUNCTUAL, SILENT = 0.0, 2 * SILENCE_SECONDS
"""How long the watch has been silent."""


def a_group(hosts: int = 2, name: str = "workers", replicas: int = 4) -> ClusterBuilder:
    return a_cluster("x").group(name, hosts=hosts, replicas=replicas)


def a_worker(replica: int, host: int, group: str = "workers") -> PodBuilder:
    return a_pod().of("x").worker(group).identity(replica, host, f"{group}-abcde").gpu(8)


class Admission:
    """The webhook as it follows a fake API server, whose watches may be late."""

    def __init__(self, api: FakeApi, followed: Following) -> None:
        self.api = api
        self.followed = followed
        self.mutation = Mutation(
            PodHandler(followed.clusters, StandaloneIdentities(followed.members)),
            followed.state.reader,
            ShardHandler(followed.clusters, standalone(Membership(), followed.clusters)),
        )

    @property
    def reads(self) -> int:
        return self.api.count("list", RAYCLUSTERS)

    def wait(self, silent: float) -> None:
        """Let a time pass after the last event, by the clock of the API server."""
        time = self.followed.api.server_time
        until = self.followed.state.stores[""].clusters.contact_at + silent
        if until > time.now():
            time.observe(formatdate(ceil(until), usegmt=True))

    async def review(self, review: Object, silent: float) -> Answer:
        """Return the answer to a review after a time without events."""
        self.wait(silent)
        return (await self.mutation.review(json.dumps(review).encode())).answer

    async def create(self, pod: PodBuilder, silent: float) -> Object | str:
        """Return a pod as it is stored, or why it is denied."""
        document = pod.build()
        answer = await self.review(pod_review(document), silent)
        if not answer.allowed:
            return "; ".join(cause.message for cause in answer.causes)
        stored: Object = jsonpatch.apply_patch(document, json.loads(answer.patch or b"[]"))
        return stored

    async def apply(self, cluster: ClusterBuilder, silent: float) -> list[str]:
        """Return why a new RayCluster is denied."""
        answer = await self.review(object_review(cluster.build()), silent)
        return [cause.message for cause in answer.causes]


@asynccontextmanager
async def admitting(*clusters: ClusterBuilder) -> AsyncIterator[Admission]:
    """Yield the webhook with these RayClusters in its cache, which receives no event."""
    async with FakeApi().serving() as api, following(api) as followed:
        for cluster in clusters:
            api.put(RAYCLUSTERS, cluster.build())
        await eventually(lambda: api.watching == 2 and len(followed.clusters) == len(clusters))
        api.mute()
        yield Admission(api, followed)


def stored(found: Object | str) -> Object:
    assert isinstance(found, dict), found
    return found


@pytest.mark.parametrize("silent", [PUNCTUAL, SILENT])
@pytest.mark.parametrize("head", [False, True])
async def test_a_pod_of_a_recreated_raycluster_is_read_from_it(silent: float, head: bool) -> None:
    async with admitting(a_group(2)) as webhook:
        webhook.api.delete(RAYCLUSTERS, "x", NAMESPACE)
        again = a_group(4).build()
        again["metadata"]["uid"] = "uid-of-another"
        webhook.api.put(RAYCLUSTERS, again)
        document = (a_pod().of("x").head() if head else a_worker(0, 3)).build()
        document["metadata"]["ownerReferences"][0]["uid"] = "uid-of-another"
        assert (await webhook.review(pod_review(document), silent)).allowed
        found = await webhook.create(a_worker(0, 0), silent)  # of the one before
        assert "it was deleted or recreated" in str(found)


@pytest.mark.parametrize("pod", [a_worker(0, 0), a_pod().of("x").head()], ids=["worker", "head"])
async def test_a_pod_of_a_raycluster_that_is_gone_by_now_is_denied(pod: PodBuilder) -> None:
    async with admitting(a_group(2)) as webhook:
        webhook.api.delete(RAYCLUSTERS, "x", NAMESPACE)
        assert "it was deleted or recreated" in str(await webhook.create(pod, SILENT))


def a_shard(name: str, index: str = "", count: str = "") -> ClusterBuilder:
    built = a_cluster(name).group("workers").opting(shard_group="search")
    if index:
        built.opting(shard_index=index)
    return built.opting(shard_count=count) if count else built


@pytest.mark.parametrize("silent", [PUNCTUAL, SILENT])
@pytest.mark.parametrize(("before", "after", "new"), [
    (a_shard("x", "0", "4"), a_shard("x", "0", "2"), a_shard("y", "", "2")),
    (a_shard("x", "3", "4"), a_shard("x", "1", "2"), a_shard("y", "", "2")),
    (a_shard("x", "0"), None, a_shard("y", "0")),
    (a_shard("x", "0", "1"), None, a_shard("y", "", "1")),
], ids=["fewer", "cut off", "taken", "full"])  # fmt: skip
async def test_a_raycluster_is_denied_a_shard_by_the_others_as_they_are_by_now(
    before: ClusterBuilder, after: ClusterBuilder | None, new: ClusterBuilder, silent: float
) -> None:
    async with admitting(before) as webhook:
        assert await webhook.apply(new, PUNCTUAL)
    async with admitting(before) as webhook:
        webhook.api.delete(RAYCLUSTERS, "x", NAMESPACE)
        if after is not None:
            webhook.api.put(RAYCLUSTERS, after.build())
        assert await webhook.apply(new, silent) == []


async def test_an_index_that_is_taken_by_now_is_not_given_again() -> None:
    async with admitting() as webhook:
        webhook.api.put(RAYCLUSTERS, a_shard("x", "0", "4").build())
        (message,) = await webhook.apply(a_shard("y", "0"), SILENT)
        assert "x" in message
        (message,) = await webhook.apply(a_shard("y", "", "2"), SILENT)
        assert "4" in message


async def test_a_denial_is_read_live_once_and_names_what_the_read_showed() -> None:
    async with admitting(a_group(2)) as webhook:
        webhook.api.put(RAYCLUSTERS, a_group(3).build())
        before = webhook.reads
        assert "3 is out of range" in str(await webhook.create(a_worker(0, 3), PUNCTUAL))
        assert webhook.reads == before + 1


async def test_pods_that_no_raycluster_decides_about_are_denied_without_a_read() -> None:
    async with admitting(a_group(2)) as webhook:
        before = webhook.reads
        stray = a_worker(0, 0).orphan()
        assert "needs a controller ownerReference" in str(await webhook.create(stray, PUNCTUAL))
        assert webhook.reads == before


async def test_while_the_watch_is_silent_one_read_serves_all_pods_until_it_is_as_old() -> None:
    async with admitting(a_group(2, replicas=40)) as webhook:
        before = webhook.reads
        pods = [a_worker(replica, host) for replica in range(20) for host in range(2)]
        for pod in await asyncio.gather(*(webhook.create(pod, SILENT) for pod in pods)):
            stored(pod)
        assert webhook.reads == before + 1
        stored(await webhook.create(a_worker(0, 0), SILENT + 0.5 * SILENCE_SECONDS))
        assert webhook.reads == before + 1
        webhook.api.unmute()
        webhook.api.put(RAYCLUSTERS, a_group(2).annotated("any", "thing").build())
        await eventually(lambda: webhook.followed.clusters.fresh(NAMESPACE, "unread"))
        stored(await webhook.create(a_worker(0, 1), PUNCTUAL))
        assert webhook.reads == before + 1


async def test_a_read_is_repeated_when_the_api_server_says_when_to_come_again() -> None:
    async with admitting(a_group(2)) as webhook:
        statuses = [429]
        webhook.api.before = lambda request: (
            statuses.pop() if statuses and request.resource == RAYCLUSTERS else 0
        )
        stored(await webhook.create(a_worker(0, 0), SILENT))
        assert not statuses


@st.composite
def rayclusters(draw: st.DrawFn) -> ClusterBuilder:
    built = a_cluster("x")
    for name in draw(st.lists(st.sampled_from(["a", "b", "c"]), unique=True, min_size=1)):
        built.group(name, hosts=draw(st.integers(0, 4)), replicas=3)
    if draw(st.booleans()):
        built.annotated("admission.ray.io/topology-key", draw(st.sampled_from(["zone", "rack"])))
    if draw(st.booleans()):
        built.annotated("admission.ray.io/profiles", "torchrun")
    if draw(st.booleans()):
        built.annotated(
            names.ANNOTATION_IPPR,
            '{"groups": {"a": {"max-cpu": 8, "max-memory": "16Gi", "resize-timeout": 60}}}',
        )
    if draw(st.integers(0, 3)) == 0:
        built.label(names.LABEL_IGNORE, "true")
    return built


@st.composite
def workers(draw: st.DrawFn) -> PodBuilder:
    group = draw(st.sampled_from(["a", "b", "c"]))
    built = a_pod().of("x").worker(group).resource("cpu", 1).resource("memory", "1Gi")
    if draw(st.booleans()):
        built.identity(draw(st.integers(0, 2)), draw(st.integers(0, 3)), f"{group}-abcde")
    if draw(st.booleans()):
        return built.tpu(4).topology(draw(st.sampled_from(["2x2x1", "2x2x2", "2x2x4"])))
    return built.gpu(8)


@given(rayclusters(), rayclusters(), workers(), st.sampled_from([PUNCTUAL, SILENT]))
@settings(max_examples=100)
def test_any_edit_that_no_watch_delivered_is_seen_by_the_next_pod_that_depends_on_it(
    before: ClusterBuilder, after: ClusterBuilder, pod: PodBuilder, silent: float
) -> None:
    """While the watch is believed, only denials are certain to be by the RayCluster as it is."""

    async def story() -> Object | str:
        async with admitting(before) as webhook:
            webhook.api.put(RAYCLUSTERS, after.build())
            return await webhook.create(pod, silent)

    found = asyncio.run(story())
    cold = Webhook(after.build()).admit(pod.build())
    if isinstance(found, str):
        assert found == "; ".join(cause.message for cause in cold.answer.causes)
    elif silent:
        assert cold.answer.allowed
        assert comparable(found) == comparable(cold.pod)


def comparable(pod: Object) -> str:
    """Return a pod without what follows from the uid of its request: the end of a replica name that
    was drawn, and the holder of its reservation.
    """
    meta = pod["metadata"]
    drawn = (
        meta["labels"].get(names.LABEL_REPLICA_NAME, ""),
        meta.get("annotations", {}).get(names.ANNOTATION_HOLDER, ""),
    )
    text = json.dumps(pod)
    for each in filter(None, drawn):
        text = text.replace(each, "drawn")
    return text


@pytest.mark.parametrize("pod", [a_worker(0, 0), a_worker(0, 7)], ids=["allowed", "denied"])
async def test_without_an_answer_to_the_read_nothing_is_decided(pod: PodBuilder) -> None:
    async with admitting(a_group(2)) as webhook:
        webhook.api.before = lambda request: 500 * (request.resource == RAYCLUSTERS)
        with pytest.raises(ClusterUnreadable):
            await webhook.create(pod, SILENT)
