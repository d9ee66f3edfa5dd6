"""Fixtures for tests of connections."""

from pathlib import Path

import pytest

from tests.kubeclient.certificates import certificate


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an authority, a server, a client, and a stranger's authority."""
    directory = tmp_path_factory.mktemp("pki")
    authority = certificate(directory, "ca")
    certificate(directory, "server", authority)
    certificate(directory, "client", authority)
    certificate(directory, "stranger")
    return directory
