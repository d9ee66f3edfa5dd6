"""The objects of the dashboard, watched: the report is available immediately."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from msgspec import structs

from tests.builders import NAMESPACE
from tests.harness.fake_api import (
    CONFIGURATIONS,
    NAMESPACES,
    NODES,
    PODS,
    RAYCLUSTERS,
    SERVICES,
    FakeApi,
    Request,
)
from tests.harness.following import QUICK, beside, client_of, eventually, plain
from tests.harness.scenes import NOW, Scene
from tests.webhook.diagnostics.samples import samples
from webhook.cache.cluster_cache import Observing
from webhook.diagnostics.examiner import Examiner
from webhook.diagnostics.report import ClusterReport
from webhook.kubeclient.client import Api
from webhook.objects.object_cache import ObjectCache

PATIENT = structs.replace(QUICK, page_deadline=60.0, idle=60.0)
"""Nothing happens in between, and a fake API server sends no bookmarks by itself."""


class Followed:
    """What is known of a fake API server."""

    def __init__(self, api: Api, namespaces: Sequence[str], *, person: bool) -> None:
        self.object_cache = ObjectCache()
        self.examiner = Examiner(self.object_cache)
        self.observing = Observing(api, self.object_cache, namespaces, PATIENT, person=person)

    @property
    def cluster_report(self) -> ClusterReport:
        """The picture, an hour after the scene's start."""
        self.examiner.catch_up(NOW)
        return self.examiner.cluster_report(NOW, {})

    @property
    def ids(self) -> list[str]:
        return [problem.id for problem in self.cluster_report.every_problem]

    @property
    def whole(self) -> bool:
        """Whether all kinds are known, but for Workloads, which are read for users only."""
        tables = {**vars(self.object_cache), "workloads": None}
        return all(getattr(table, "known", True) for table in tables.values())


@asynccontextmanager
async def following(
    fake: FakeApi, *namespaces: str, person: bool = False
) -> AsyncIterator[Followed]:
    async with client_of(plain(fake)) as api:
        followed = Followed(api, namespaces, person=person)
        async with beside(followed.observing.run()):
            yield followed


@pytest.fixture
async def fake() -> AsyncIterator[FakeApi]:
    """A fake API server that serves PodGroups."""
    async with FakeApi(served={"v1beta1"}).serving() as serving:
        yield serving


@pytest.mark.parametrize(
    "name", ["host-missing", "pod-refused", "podgroup-not-scheduled", "second-webhook", "ignored"]
)
async def test_a_followed_cluster_looks_as_one_that_is_read(fake: FakeApi, name: str) -> None:
    scene = samples()[name].scene()
    fake.store(scene.resources)
    async with following(fake) as followed:
        await eventually(lambda: followed.whole)
        assert followed.cluster_report == scene.examined()
        assert followed.observing.unread == {}


async def test_changes_of_every_kind_are_seen(fake: FakeApi) -> None:
    scene = Scene()
    fake.store(scene.resources)
    async with following(fake) as followed:
        await eventually(lambda: followed.whole)
        assert followed.ids == []
        host = scene.pods["llama-tpu-worker-0-3"]
        fake.delete(PODS, host["metadata"]["name"], NAMESPACE)
        await eventually(lambda: followed.ids == ["host-missing"])
        fake.put(PODS, host)
        await eventually(lambda: followed.ids == [])
        fake.delete(SERVICES, "llama-headless", NAMESPACE)
        await eventually(lambda: followed.ids == ["headless-service-missing"])
        fake.put(SERVICES, scene.services[0])
        other = {**scene.nodes[-1], "metadata": dict(scene.nodes[-1]["metadata"], labels={})}
        fake.put(NODES, other)
        await eventually(lambda: followed.ids == ["replica-split"])
        fake.put(NODES, scene.nodes[-1])
        ignored = {"name": NAMESPACE, "labels": {"admission.ray.io/ignore": "true"}}
        fake.put(NAMESPACES, {"metadata": ignored})
        await eventually(lambda: followed.ids == ["ignored"])
        fake.put(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        for webhook in samples()["second-webhook"].webhooks:
            fake.put(CONFIGURATIONS, webhook)
        await eventually(lambda: followed.ids == ["second-webhook"])


@pytest.mark.parametrize("person", [False, True])
async def test_of_one_namespace_only_that_is_asked_for(fake: FakeApi, person: bool) -> None:
    def refuse(request: Request) -> int:
        return 403 if request.resource == "nodes" else 0

    fake.before = refuse
    fake.store(Scene().resources)
    elsewhere = Scene().cluster
    elsewhere["metadata"] |= {"namespace": "elsewhere", "uid": "another"}
    fake.put(RAYCLUSTERS, elsewhere)
    fake.put(NAMESPACES, {"metadata": {"name": "elsewhere"}})
    async with following(fake, NAMESPACE, person=person) as followed:
        await eventually(
            lambda: followed.observing.synced and followed.object_cache.namespaces.known
        )
        assert [each.namespace for each in followed.cluster_report.clusters] == [NAMESPACE]
        await eventually(lambda: followed.observing.unread == {"nodes": "forbidden"})
        await eventually(lambda: followed.observing.problem == "")
        assert [each.metadata.name for each in followed.object_cache.namespaces.all] == [NAMESPACE]
        by_name = {each.name for each in fake.requests if each.resource == NAMESPACES}
        assert by_name == {NAMESPACE if person else ""}, "an account has to list"
        assert {each.namespace for each in fake.requests if each.resource == NODES} == {""}


async def test_pod_groups_that_are_no_longer_served_are_forgotten(fake: FakeApi) -> None:
    fake.store(samples()["podgroup-not-scheduled"].scene().resources)
    async with following(fake) as followed:
        await eventually(lambda: followed.object_cache.pod_groups.known)
        assert len(followed.object_cache.pod_groups.all) == 1
        assert any("podgroups" in task.get_name() for task in asyncio.all_tasks())
        for listener in followed.observing.discovery._listeners:  # noqa: SLF001
            listener(None)
        await eventually(lambda: not followed.object_cache.pod_groups.known)
        assert not followed.object_cache.pod_groups.all
        await eventually(
            lambda: not any("podgroups" in task.get_name() for task in asyncio.all_tasks())
        )
