"""The Lease over loopback: created if absent, and written only at the version that was read."""

from collections.abc import AsyncIterator

import pytest

from tests.harness.fake_api import LEASES, FakeApi
from tests.harness.following import client_of, plain
from webhook.controller.leader import Holding, Lease
from webhook.kubeclient.errors import ApiError

SECONDS = 5.0
HELD = Holding("me", 15, "2026-11-21T10:00:00.000000Z", "2026-11-21T10:00:02.000000Z", 3)


@pytest.fixture
async def lease(api: FakeApi) -> AsyncIterator[Lease]:
    async with client_of(plain(api)) as connection:
        yield Lease(connection, "ray-webhook", "ray-webhook-controller")


async def test_what_is_written_is_what_is_read(api: FakeApi, lease: Lease) -> None:
    assert await lease.read(SECONDS) == (Holding(), "")
    await lease.write(HELD, "", SECONDS)
    stored = api.objects(LEASES)["ray-webhook-controller"]
    assert stored["spec"] == {
        "holderIdentity": "me", "leaseDurationSeconds": 15,
        "acquireTime": "2026-11-21T10:00:00.000000Z", "renewTime": "2026-11-21T10:00:02.000000Z",
        "leaseTransitions": 3}  # fmt: skip
    found, version = await lease.read(SECONDS)
    assert found == HELD
    assert version == stored["metadata"]["resourceVersion"]
    await lease.write(Holding("", 1), version, SECONDS)
    assert (await lease.read(SECONDS))[0] == Holding("", 1)


@pytest.mark.parametrize("version", ["", "1"])
async def test_a_changed_lease_is_not_written(api: FakeApi, lease: Lease, version: str) -> None:
    await lease.write(HELD, "", SECONDS)
    with pytest.raises(ApiError) as refusal:
        await lease.write(Holding("other", 15), version, SECONDS)
    assert refusal.value.reason == "conflict"
    assert api.objects(LEASES)["ray-webhook-controller"]["spec"]["holderIdentity"] == "me"


async def test_a_lease_without_a_spec_is_held_by_nobody(api: FakeApi, lease: Lease) -> None:
    api.put(LEASES, {"metadata": {"namespace": "ray-webhook", "name": "ray-webhook-controller"}})
    assert (await lease.read(SECONDS))[0] == Holding()
