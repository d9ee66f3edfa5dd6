"""Evictions of workers: reviews as bytes, over the state of a fake API server."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random
from typing import Any

import pytest

from tests.harness import ray_objects
from tests.harness.apiserver import object_review, pod_review
from tests.harness.fake_api import PODS, RAYCLUSTERS, FakeApi, Object
from tests.harness.following import Following, eventually, following
from tests.harness.objects import a_pod, a_raycluster, terminating
from webhook.admission.eviction_handler import UNSEEN_SECONDS, EvictionHandler
from webhook.admission.ray_handler import RayHandler
from webhook.admission.reviewer import ObjectReviewer
from webhook.api import names
from webhook.groups.identity import HostIdentity

READY = {
    "conditions": [{"type": "Initialized", "status": "True"}, {"type": "Ready", "status": "True"}]
}


def review(pod: str, *, dry_run: bool = False, **request: object) -> bytes:
    eviction: Object = {
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": pod, "namespace": "default"},
        "deleteOptions": {"dryRun": ["All"]} if dry_run else {},
    }  # fmt: skip
    body = pod_review(eviction)
    body["request"] |= {
        "kind": {"group": "policy", "version": "v1", "kind": "Eviction"},
        "subResource": "eviction", "name": pod, **request,
    }  # fmt: skip
    return json.dumps(body).encode()


class Drains:
    """Evictions by one process that follows a fake API server; `now` is its clock."""

    def __init__(self, api: FakeApi, followed: Following, default: int | None = None) -> None:
        self.api, self.followed, self.now = api, followed, 0.0
        self.handler = EvictionHandler(
            followed.clusters, followed.members, followed.state.reader, default, lambda: self.now
        )
        self._validation = ObjectReviewer(RayHandler(), self.handler)

    async def response(self, pod: str, **options: Any) -> Object:  # noqa: ANN401 - of a review
        outcome = await self._validation.review(review(pod, **options))
        response: Object = json.loads(outcome.body)["response"]
        return response

    async def allows(self, pod: str, **options: Any) -> bool:  # noqa: ANN401 - of a review
        return bool((await self.response(pod, **options))["allowed"])


def cluster(limit: str = "1", name: str = "ray", **group: Any) -> Object:  # noqa: ANN401 - fields
    document = a_raycluster(name, **group)
    document["metadata"]["annotations"][names.ANNOTATION_MAX_DISRUPTED] = limit
    return document


def worker(
    replica: int, host: int, *, ready: bool = True, of: str = "ray", name: str = ""
) -> Object:
    pod = a_pod(
        name or f"{of}-{replica}-{host}", HostIdentity(replica, host, f"tpu-{replica}"), cluster=of
    )
    return pod | {"status": READY if ready else {"conditions": None}}


@asynccontextmanager
async def draining(
    document: Object, replicas: int = 2, default: int | None = None
) -> AsyncIterator[Drains]:
    """Follow a RayCluster whose replicas are ready."""
    async with FakeApi().serving() as api, following(api) as followed:
        api.put(RAYCLUSTERS, document)
        for replica in range(replicas):
            for host in range(4):
                api.put(PODS, worker(replica, host))
        await eventually(lambda: len(followed.members) == replicas * 4)
        await eventually(lambda: len(followed.clusters) == 1 and api.watching == 2)
        yield Drains(api, followed, default)


async def test_a_second_replica_waits_until_the_first_one_is_whole_again() -> None:
    async with draining(cluster()) as drains:
        drains.api.mute()
        assert await drains.allows("ray-0-0")
        assert await drains.allows("ray-0-3"), "its replica is disrupted already"
        status = (await drains.response("ray-1-0"))["status"]
        assert (status["code"], status["reason"]) == (429, "TooManyRequests")
        assert "retryAfterSeconds" not in status["details"]
        assert "1 of at most 1" in status["message"]
        assert "replica 0" in status["message"]
        drains.api.put(PODS, terminating(worker(0, 0)))
        drains.api.put(PODS, terminating(worker(0, 3)))
        assert not await drains.allows("ray-1-0")
        for host in (0, 3):
            drains.api.delete(PODS, f"ray-0-{host}")
            drains.api.put(PODS, worker(0, host, name=f"new-{host}", ready=False))
        assert not await drains.allows("ray-1-0")
        for host in (0, 3):
            drains.api.put(PODS, worker(0, host, name=f"new-{host}"))
        assert await drains.allows("ray-1-0"), "a live read shows it before the watch does"
        assert drains.handler.counts == {"allowed": 3, "refused": 3}


async def test_an_allowed_eviction_that_was_not_made_is_forgotten_after_a_while() -> None:
    async with draining(cluster()) as drains:
        assert await drains.allows("ray-0-0")
        drains.now = UNSEEN_SECONDS - 1
        assert not await drains.allows("ray-1-0")
        drains.now = UNSEEN_SECONDS
        assert await drains.allows("ray-1-0")


@pytest.mark.parametrize("dry", [{"dry_run": True}, {"dryRun": True}])
async def test_a_dry_run_is_decided_and_not_remembered(dry: dict[str, Any]) -> None:
    async with draining(cluster()) as drains:
        assert await drains.allows("ray-0-0", **dry)
        assert await drains.allows("ray-1-0")
        assert not await drains.allows("ray-0-0", **dry)


@pytest.mark.parametrize(("limit", "default", "allowed"), [
    ("", None, True), ("", 0, False), ("one", 0, False), ("1", 0, True), ("0", 5, False),
])  # fmt: skip
async def test_the_setting_counts_where_the_annotation_is_absent_or_invalid(
    limit: str, default: int | None, allowed: bool
) -> None:
    async with draining(cluster(limit), default=default) as drains:
        assert await drains.allows("ray-0-0") == allowed


@pytest.mark.parametrize("change", [
    {"metadata": {"labels": {names.LABEL_IGNORE: "true"}}},
    {"metadata": {"deletionTimestamp": "2024-11-21T10:00:00Z"}},
    {"spec": {"suspend": True}}, {"spec": {"workerGroupSpecs": []}},
])  # fmt: skip
async def test_a_raycluster_that_ends_or_is_ignored_has_no_budget(change: Object) -> None:
    document = cluster("0")
    for part, fields in change.items():
        document[part] |= fields
    async with draining(document) as drains:
        assert await drains.allows("ray-0-0")


@pytest.mark.parametrize("hosts", [0, -1, 2_000_000_000])
async def test_an_invalid_number_of_hosts_has_no_budget(hosts: int) -> None:
    async with draining(cluster("0", numOfHosts=hosts)) as drains:
        assert await drains.allows("ray-0-0")


async def test_pods_that_are_not_workers_with_an_identity_are_allowed_without_a_read() -> None:
    async with draining(cluster("0")) as drains:
        for host in range(4):
            intruder = worker(0, host)  # with the uid of the RayCluster
            intruder["metadata"] |= {"namespace": "other", "uid": f"intruder-{host}"}
            drains.api.put(PODS, intruder)
        await eventually(lambda: len(drains.followed.members) == 12)
        reads = drains.followed.state.reader.reads
        for pod in ("unknown", "", "ray-0-0 "):
            assert await drains.allows(pod)
        assert await drains.allows("ray-0-0", namespace="other")
        assert await drains.allows("ray-0-0", operation="CONNECT")
        assert drains.followed.state.reader.reads == reads


async def test_ended_and_unidentified_pods_and_heads_may_always_go() -> None:
    async with draining(cluster("0")) as drains:
        ended = worker(1, 0, name="ray-1-0", ready=False)
        ended["status"]["phase"] = "Succeeded"
        drains.api.put(PODS, ended)
        unidentified = worker(5, 0, name="unidentified")
        head = worker(6, 0, name="head")
        for label in names.IDENTITY_LABELS:
            del unidentified["metadata"]["labels"][label]
            del head["metadata"]["labels"][label]
        head["metadata"]["labels"][names.LABEL_NODE_TYPE] = names.NODE_TYPE_HEAD
        for pod in (unidentified, head):
            drains.api.put(PODS, pod)
        for name in ("ray-1-0", "unidentified", "head"):
            assert await drains.allows(name), name
        assert not await drains.allows("ray-0-0")


async def test_surplus_replicas_of_a_group_that_was_scaled_down_may_go() -> None:
    async with draining(cluster(replicas=1), replicas=3) as drains:
        drains.api.mute()
        for replica in range(2):
            assert await drains.allows(f"ray-{replica}-0")
            drains.api.put(PODS, terminating(worker(replica, 0)))
        assert await drains.allows("ray-2-0")


async def test_a_user_of_many_groups_and_an_api_server_without_answers_do_not_matter() -> None:
    async with draining(cluster("0")) as drains:
        user = {"username": "admin", "groups": [f"group-{number}" for number in range(1000)]}
        assert not await drains.allows("ray-0-0", userInfo=user)
        drains.api.before = lambda request: 503 if request.verb == "list" else 0
        assert not await drains.allows("ray-0-0")


async def test_a_malformed_eviction_is_decided() -> None:
    async with draining(cluster("1")) as drains:
        for content in (None, 7, {"deleteOptions": 7}, {"deleteOptions": None}):
            assert await drains.allows("ray-0-0", object=content)


async def test_a_small_review_of_a_ray_object_is_decoded_once() -> None:
    async def without_body(
        _client: str, _body: bytes, function: Callable[..., object], *arguments: object
    ) -> object:
        return function(b"", *arguments)

    body = json.dumps(object_review(ray_objects.a_cluster().group().build())).encode()
    async with draining(cluster()) as drains:
        validation = ObjectReviewer(RayHandler(), drains.handler, in_thread=without_body)  # type: ignore[arg-type]
        assert (await validation.review(body)).answer.allowed


async def test_two_processes_may_each_use_the_budget_until_their_watches_show_it() -> None:
    async with draining(cluster(replicas=3), replicas=3) as first, following(first.api) as followed:
        second = Drains(first.api, followed)
        await eventually(lambda: len(followed.members) == 12 and first.api.watching == 4)
        await eventually(lambda: len(followed.clusters) == 1)
        first.api.mute()
        assert await first.allows("ray-0-0")
        assert await second.allows("ray-1-0")
        for drains in (first, second):
            assert not await drains.allows("ray-2-0")
        first.api.unmute()
        for replica in (0, 1):
            first.api.put(PODS, terminating(worker(replica, 0)))
        await eventually(lambda: len(followed.members) == 10)
        second.now = UNSEEN_SECONDS
        assert not await second.allows("ray-2-0")


class Simulated:
    """A RayCluster whose nodes are drained, as the API server and KubeRay see it. Its evictions are
    reviewed by any of several processes.
    """

    def __init__(self, api: FakeApi, processes: list[Drains], number: int, random: Random) -> None:
        self.api, self.processes, self.random = api, processes, random
        self.name = f"c{number}"
        self.hosts, self.replicas = random.choice([1, 2, 4]), random.randint(2, 5)
        self.limit = random.randint(1, self.replicas)
        self.pods: dict[tuple[int, int], tuple[str, str]] = {}
        """Name and state by identity: ready, failed, terminating, gone, starting."""
        self.created = 0
        self.desire(self.replicas)
        for replica in range(self.replicas):
            for host in range(self.hosts):
                self.put((replica, host), "ready")
        every = [name for name, _ in self.pods.values()]
        self.waiting = set(random.sample(every, random.randint(1, len(every))))
        """The pods on the nodes that are drained."""

    def desire(self, replicas: int) -> None:
        self.replicas = replicas
        limit, hosts = str(self.limit), self.hosts
        self.api.put(RAYCLUSTERS, cluster(limit, self.name, numOfHosts=hosts, replicas=replicas))

    def put(self, place: tuple[int, int], state: str, name: str = "") -> None:
        if not name:
            self.created += 1
            name = f"{self.name}-{place[0]}-{place[1]}-{self.created}"
        pod = worker(*place, ready=state == "ready", of=self.name, name=name)
        self.api.put(PODS, terminating(pod) if state == "terminating" else pod)
        self.pods[place] = name, state

    @property
    def disrupted(self) -> int:
        ready: defaultdict[int, int] = defaultdict(int)
        for (replica, _), (_, state) in self.pods.items():
            ready[replica] += state == "ready"
        return self.replicas - sum(number == self.hosts for number in ready.values())

    async def evict(self) -> None:
        """Evict the pods of the drained nodes in parallel, as `kubectl drain` does."""
        await asyncio.gather(*map(self._evict, sorted(self.waiting)))

    async def _evict(self, name: str) -> None:
        place = next((place for place, pod in self.pods.items() if pod[0] == name), None)
        if place is None:
            self.waiting.discard(name)
            return
        allowed = await self.random.choice(self.processes).allows(name)
        if not allowed or self.pods.get(place, ("", "terminating"))[1] == "terminating":
            return
        if self.random.random() < 0.1:
            return  # a PodDisruptionBudget refuses it
        before = self.disrupted
        self.put(place, "terminating", name)
        bound = self.limit + len(self.processes) - 1
        assert self.disrupted <= max(bound, before)

    def proceed(self, *, shown: bool) -> None:
        """Delete, create and start pods, one step each. If watches show it before the next round,
        some pods fail, within the budget, and some replicas are scaled down.
        """
        for place, (name, state) in list(self.pods.items()):
            if self.random.random() < 0.3:
                continue
            if state == "terminating":
                self.api.delete(PODS, name)
                self.put(place, "starting")
            elif state in ("starting", "failed"):
                self.put(place, "ready", name)
            elif shown and self.disrupted < self.limit and self.random.random() < 0.1:
                self.put(place, "failed", name)
        if shown and self.replicas > 1 and self.random.random() < 0.1:
            self.desire(self.replicas - 1)
            last = max(replica for replica, _ in self.pods)
            for host in range(self.hosts):
                self.api.delete(PODS, self.pods.pop((last, host))[0])


ROUNDS = 1000
"""Attempts of a drain, after which it counts as endless."""


@pytest.mark.parametrize("processes", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
async def test_drains_end_and_disrupt_no_more_than_the_budget(seed: int, processes: int) -> None:
    """With several processes, one more for each other process."""
    random = Random(seed)  # noqa: S311 - a simulation
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(FakeApi().serving())
        followed = [await stack.enter_async_context(following(api)) for _ in range(processes)]
        drains = [Drains(api, one) for one in followed]
        simulated = [Simulated(api, drains, number, random) for number in range(20)]
        pods = sum(len(each.pods) for each in simulated)
        await eventually(lambda: api.watching == 2 * processes)
        for one in followed:
            await eventually(lambda one=one: len(one.members) == pods)  # type: ignore[misc]
            await eventually(lambda one=one: len(one.clusters) == 20)  # type: ignore[misc]
        stores = [one.state.stores[""].pods for one in followed]
        for step in range(ROUNDS):
            await asyncio.gather(*(each.evict() for each in simulated))
            if not any(each.waiting for each in simulated):
                break
            for each in simulated:
                each.proceed(shown=step % 4 == 3)
            for process in drains:
                process.now += 5
            if step % 4 == 0:
                api.mute()  # the watch is late
            elif step % 4 == 3:
                api.unmute()
                await eventually(lambda: all(store.reached >= api.version for store in stores))
        assert not any(each.waiting for each in simulated)
        assert all(process.handler.counts["refused"] for process in drains)
