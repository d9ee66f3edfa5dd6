"""The API server of the tests of the controller."""

from collections.abc import AsyncIterator

import pytest

from tests.harness.fake_api import FakeApi


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    """A fake API server that serves both versions of PodGroups."""
    async with FakeApi(served={"v1", "v1beta1", "v1alpha2"}).serving() as serving:
        yield serving
