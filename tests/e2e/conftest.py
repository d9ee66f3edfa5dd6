"""Control planes and webhooks that stories share, and their logs in reports of failures."""

from collections.abc import Generator, Iterator

import pytest

from tests.e2e import build, needs
from tests.e2e.control_plane import ControlPlane
from tests.e2e.deployed import ROUTING
from tests.e2e.webhook_process import Webhook


@pytest.fixture(scope="session")
def shared_plane() -> Iterator[ControlPlane]:
    """The control plane of all modules, which take `control_plane` of it."""
    with ControlPlane() as plane:
        yield plane


@pytest.fixture(scope="module")
def control_plane(shared_plane: ControlPlane) -> Iterator[ControlPlane]:
    """A control plane that tests share; each test takes a namespace of its own. No module finds
    Ray objects or pods of another, which its operator would reconcile, too.
    """
    yield shared_plane
    shared_plane.delete_ray_objects()


@pytest.fixture(scope="module")
def webhook(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Iterator[Webhook]:
    """The webhook, with the `VALUES` of a module, for its stories; each leaves it running."""
    with Webhook(control_plane, getattr(request.module, "VALUES", ())) as running:
        yield running


@pytest.fixture
def plane() -> Iterator[ControlPlane]:
    """A control plane of a story's own, whose API server routes Services to endpoints."""
    with ControlPlane(api_server_flags=[ROUTING]) as running:
        yield running


@pytest.fixture(params=[build.HELM, build.HELM_4])
def program(request: pytest.FixtureRequest) -> str:
    """Helm 3 and Helm 4, whose default is to apply on the server's side."""
    if request.param == build.HELM_4:
        needs.OTHERS.ask()
    return str(request.param)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
    call: pytest.CallInfo[None],  # noqa: ARG001 - pytest passes by name
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    fixtures: dict[str, object] = getattr(item, "funcargs", {})
    for name, fixture in fixtures.items():
        plane = getattr(fixture, "plane", fixture)
        if report.failed and isinstance(plane, ControlPlane) and name != "shared_plane":
            report.sections.append((name.replace("_", " "), plane.tail()))
    return report
