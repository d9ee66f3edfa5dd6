"""Fixtures for tests of connections."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.fake_api import FakeApi
from tests.webhook.kubeclient.certificates import write_pki


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    async with FakeApi().serving() as serving:
        yield serving


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with certificates of servers, a client and two authorities."""
    directory = tmp_path_factory.mktemp("pki")
    write_pki(directory)
    return directory
