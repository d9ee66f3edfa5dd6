"""Fixtures for tests of connections."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.kubeclient.certificates import certificate
from tests.kubeclient.fake_api import FakeApi


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    """A fake API server without objects."""
    async with FakeApi().serving() as serving:
        yield serving


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an authority, a server, a client, and a stranger's authority."""
    directory = tmp_path_factory.mktemp("pki")
    authority = certificate(directory, "ca")
    certificate(directory, "server", authority)
    certificate(directory, "client", authority)
    certificate(directory, "stranger")
    return directory
