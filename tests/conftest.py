"""Fixtures that several parts use."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apiserver import ApiServer
from tests.server import Running, serving

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A real server, standalone with all examples; tests that share it use RayClusters of their own, or dry runs."""
    state = [EXAMPLES, Path(__file__).parent / "state.yaml"]
    with serving(tmp_path_factory.mktemp("server"), state) as running:
        yield running


@pytest.fixture
def api(server: Running) -> Iterator[ApiServer]:
    """A kube-apiserver that asks that server."""
    with ApiServer(server.url, server.authority) as client:
        yield client
