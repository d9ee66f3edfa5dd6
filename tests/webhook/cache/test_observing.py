"""The observed state stays during an outage, and equals a snapshot after it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.harness.fake_api import (
    PODS,
    FakeApi,
    Fault,
)
from tests.harness.following import QUICK, beside, client_of, eventually, plain
from tests.harness.scenes import Scene
from webhook.cache.cluster_cache import REPORTED, Observing
from webhook.kubeclient.client import Api
from webhook.objects.object_cache import ObjectCache

HOST = "llama-tpu-worker-0-3"


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
    async with client_of(plain(api)) as connection:
        observed = Observed(connection)
        async with beside(observed.observing.run()):
            await eventually(lambda: observed.observing.listed)
            yield observed


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi(served={"v1beta1"}).serving() as serving:
        serving.store(Scene().resources)
        yield serving


async def test_changes_during_an_outage_are_seen_by_the_next_list(api: FakeApi) -> None:
    async with observing(api) as observed:
        assert len(observed.pods) == 9
        api.mute()
        api.delete(PODS, HOST, "team")
        api.compact()
        api.plan("watch", Fault.EXPIRED)
        await api.down()
        await eventually(lambda: observed.observing.problem == "refused")
        assert len(observed.pods) == 9
        await api.up()
        await eventually(lambda: HOST not in observed.pods)
        assert len(observed.pods) == 8
