"""The Lease over loopback: created if absent, and written only at the version that was read."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from tests.kubeclient.fake_api import LEASES, FakeApi
from tests.kubeclient.following import plain
from webhook.controller.leader import Holding, Lease
from webhook.kubeclient.client import Api
from webhook.kubeclient.errors import ApiError

SECONDS = 5.0
HELD = Holding("me", 15, "2026-11-21T10:00:00.000000Z", "2026-11-21T10:00:02.000000Z", 3)


def told(story: Callable[[FakeApi, Lease], Coroutine[None, None, None]]) -> None:
    async def tell() -> None:
        async with FakeApi().serving() as fake:
            api = Api(plain(fake))
            await api.open()
            try:
                await story(fake, Lease(api, "ray-webhook", "ray-webhook-controller"))
            finally:
                await api.close()

    asyncio.run(tell())


def test_what_is_written_is_what_is_read() -> None:
    async def story(fake: FakeApi, lease: Lease) -> None:
        assert await lease.read(SECONDS) == (Holding(), "")
        await lease.write(HELD, "", SECONDS)
        stored = fake.objects(LEASES)["ray-webhook-controller"]
        assert stored["spec"] == {
            "holderIdentity": "me",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-11-21T10:00:00.000000Z",
            "renewTime": "2026-11-21T10:00:02.000000Z",
            "leaseTransitions": 3,
        }
        found, version = await lease.read(SECONDS)
        assert found == HELD
        assert version == stored["metadata"]["resourceVersion"]
        await lease.write(Holding("", 1), version, SECONDS)
        assert (await lease.read(SECONDS))[0] == Holding("", 1)

    told(story)


@pytest.mark.parametrize("version", ["", "1"])
def test_a_lease_that_has_changed_is_not_written(version: str) -> None:
    async def story(fake: FakeApi, lease: Lease) -> None:
        await lease.write(HELD, "", SECONDS)
        with pytest.raises(ApiError) as refusal:
            await lease.write(Holding("other", 15), version, SECONDS)
        assert refusal.value.reason == "conflict"
        assert fake.objects(LEASES)["ray-webhook-controller"]["spec"]["holderIdentity"] == "me"

    told(story)


def test_a_lease_without_a_spec_is_held_by_nobody() -> None:
    async def story(fake: FakeApi, lease: Lease) -> None:
        fake.put(
            LEASES, {"metadata": {"namespace": "ray-webhook", "name": "ray-webhook-controller"}}
        )
        assert (await lease.read(SECONDS))[0] == Holding()

    told(story)
