"""Fixtures that several packages share."""

import gc
import logging
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from tests import ROOT
from tests.harness.apiserver import ApiServer
from tests.harness.server import Running, serving

EXAMPLES = ROOT / "examples"
FOUND = DirectoryBasedExampleDatabase(ROOT / ".hypothesis" / "examples")
"""What `make fuzz` found; it tries that first when it runs again."""

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As in the background job of a shell: the programs that tests end by Ctrl-C would ignore it too
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile(
    "fuzz", settings.get_profile("fixed"), derandomize=False, database=FOUND, print_blob=True
)
settings.load_profile("fixed")
"""Every run draws the same examples; `make fuzz` selects the other profile."""


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    """Fail a test that leaves a thread running, which would disturb the tests after it."""
    before = threading.enumerate()
    yield
    left = [each for each in threading.enumerate() if each not in before]
    if left:
        gc.collect()  # a thread of an executor ends when the executor is collected
    for each in left:
        each.join(60)
    assert not any(each.is_alive() for each in left), f"the test left {left}"


@pytest.fixture(autouse=True)
def _loggers_are_restored() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("webhook", "uvicorn.error", "asyncio")]
    states = [(logger.handlers, logger.level, logger.propagate) for logger in loggers]
    yield
    for logger, (handlers, level, propagate) in zip(loggers, states, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of tests and fixtures that are coroutines."""
    return "asyncio"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A real server, standalone with all examples; tests that share it use RayClusters of their
    own, or dry runs.
    """
    state = [EXAMPLES, Path(__file__).parent / "state.yaml"]
    with serving(tmp_path_factory.mktemp("server"), state) as running:
        yield running


@pytest.fixture
def api(server: Running) -> Iterator[ApiServer]:
    with ApiServer(server.url, server.authority) as client:
        yield client
