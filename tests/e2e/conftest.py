"""The control plane that most end-to-end tests share, and its logs in reports of failures."""

from collections.abc import Generator, Iterator

import pytest

from tests.e2e.control_plane import ControlPlane
from tests.e2e.webhook_process import Webhook


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """A control plane that tests share; each test takes a namespace of its own."""
    with ControlPlane() as plane:
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
    report = yield
    fixtures: dict[str, object] = getattr(item, "funcargs", {})
    for name, fixture in fixtures.items():
        plane = getattr(fixture, "plane", fixture)
        if report.failed and isinstance(plane, ControlPlane):
            report.sections.append((name.replace("_", " "), plane.tail()))
    return report
