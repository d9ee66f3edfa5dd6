"""The observed state equals a snapshot at any time, with any failures in between."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.harness.fake_api import (
    CONFIGURATIONS,
    NAMESPACES,
    NODES,
    PODS,
    RAYCLUSTERS,
    RAYJOBS,
    RAYSERVICES,
    SERVICES,
    FakeApi,
    Fault,
    Request,
)
from tests.harness.following import QUICK, beside, client_of, eventually, plain
from tests.harness.scenes import Scene
from tests.harness.scheduling_rules import PODGROUPS
from webhook.cache.cluster_cache import REPORTED, Observing
from webhook.kubeclient.client import Api
from webhook.objects.object_cache import ObjectCache

HOST = "llama-tpu-worker-0-3"


def put(api: FakeApi, scene: Scene) -> None:
    api.put(RAYCLUSTERS, scene.cluster)
    for pod in scene.pods.values():
        api.put(PODS, pod)
    for resource, objects in (
        (NODES, scene.nodes),
        (NAMESPACES, scene.namespaces),
        (CONFIGURATIONS, scene.webhooks),
        (SERVICES, scene.services),
        (RAYJOBS, scene.ray_jobs),
        (RAYSERVICES, scene.ray_services),
    ):
        for each in objects:
            api.put(resource, each)


class Observed:
    """A world, and who keeps it in step."""

    def __init__(self, api: Api) -> None:
        self.object_cache = ObjectCache()
        self.observing = Observing(api, self.object_cache, timing=QUICK, other_kinds=REPORTED)

    @property
    def pods(self) -> set[str]:
        return {pod.name for pod in self.object_cache.pods.all}


@asynccontextmanager
async def observing(api: FakeApi) -> AsyncIterator[Observed]:
    """Observe a fake API server, until the end of the block."""
    async with client_of(plain(api)) as connection:
        observed = Observed(connection)
        async with beside(observed.observing.run()):
            await eventually(lambda: observed.observing.listed)
            yield observed


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi(served={"v1beta1"}).serving() as serving:
        put(serving, Scene())
        yield serving


async def test_it_holds_what_is_there_and_follows_what_changes(api: FakeApi) -> None:
    async with observing(api) as observed:
        object_cache = observed.object_cache
        assert len(observed.pods) == 9
        assert [each.metadata.name for each in object_cache.clusters.all] == ["llama"]
        assert len(object_cache.nodes.all) == 9
        assert [each.metadata.name for each in object_cache.configurations.all] == ["ray-webhook"]
        assert observed.observing.unread == {}
        object_cache.begin()
        object_cache.take_changed()
        api.delete(PODS, HOST, "team")
        await eventually(lambda: HOST not in observed.pods)
        assert object_cache.take_changed()


async def test_what_is_not_followed_is_not_asked_for(api: FakeApi) -> None:
    async with observing(api) as observed:
        assert not observed.object_cache.events.known
        assert not observed.object_cache.workloads.known
    assert "events" not in {request.resource for request in api.requests}


async def test_what_may_not_be_read_is_named_and_keeps_nobody_waiting(api: FakeApi) -> None:
    def before(request: Request) -> int:
        return 403 if request.resource == NODES else 0

    api.before = before
    async with observing(api) as observed:
        assert observed.observing.unread == {"nodes": "forbidden"}
        assert not observed.object_cache.nodes.known
        assert len(observed.pods) == 9


async def test_changes_during_a_lost_history_are_seen_by_the_next_list(api: FakeApi) -> None:
    async with observing(api) as observed:
        api.mute()
        api.delete(PODS, HOST, "team")
        api.compact()
        api.plan("watch", Fault.EXPIRED)
        api.drop_connections()
        await eventually(lambda: HOST not in observed.pods)
        assert len(observed.pods) == 8


async def test_an_outage_is_reported_and_what_is_known_stays(api: FakeApi) -> None:
    async with observing(api) as observed:
        await api.down()
        await eventually(lambda: observed.observing.problem == "refused")
        assert len(observed.pods) == 9
        await api.up()
        await eventually(lambda: observed.observing.problem == "")


async def test_pod_groups_are_followed_where_they_are_served(api: FakeApi) -> None:
    group = {"metadata": {"name": "llama-all", "namespace": "team"}, "spec": {}}
    api.put(PODGROUPS, group)
    async with observing(api) as observed:
        await eventually(lambda: observed.object_cache.pod_groups.known)
        api.put(PODGROUPS, {"metadata": {"name": "more", "namespace": "team"}, "spec": {}})
        await eventually(lambda: len(observed.object_cache.pod_groups.all) == 2)
