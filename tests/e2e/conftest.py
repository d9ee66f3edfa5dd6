"""One control plane for all end-to-end tests, and its logs beside a failure."""

from collections.abc import Generator, Iterator

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.webhook_process import Webhook

PLANE = pytest.StashKey[ControlPlane]()


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """A control plane that tests share; each test takes a namespace of its own."""
    with ControlPlane() as plane:
        request.config.stash[PLANE] = plane
        yield plane


@pytest.fixture(scope="module")
def webhook(control_plane: ControlPlane) -> Iterator[Webhook]:
    """The webhook, installed for the stories of one module; each leaves it running."""
    with Webhook(control_plane) as running:
        yield running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
    call: pytest.CallInfo[None],  # noqa: ARG001 - pytest passes by name
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the end of every log to the report of a failed test."""
    report = yield
    plane = item.config.stash.get(PLANE, None)
    if report.failed and plane is not None and "control_plane" in getattr(item, "fixturenames", ()):
        report.sections.append(("control plane", plane.tail()))
    return report
