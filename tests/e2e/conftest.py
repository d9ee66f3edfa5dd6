"""The control planes that end-to-end tests share, and their logs beside a failure."""

from collections.abc import Generator, Iterator

import pytest

from tests.e2e.audit import AuditLog
from tests.e2e.component import controllers
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gangs import COMPONENT
from tests.e2e.webhook_process import Webhook

PLANES = pytest.StashKey[dict[str, ControlPlane]]()
GROUPS_SERVED = {"GenericWorkload": True}, {"scheduling.k8s.io/v1beta1": True}
"""The gate and the API without which there are no scheduling groups; Kubernetes 1.37 has both off."""


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """A control plane that tests share; each test takes a namespace of its own."""
    with ControlPlane() as plane:
        request.config.stash.setdefault(PLANES, {})["control_plane"] = plane
        yield plane


@pytest.fixture(scope="session")
def account_log(tmp_path_factory: pytest.TempPathFactory) -> AuditLog:
    """What the webhook's account asks the control plane that serves PodGroups."""
    return AuditLog(tmp_path_factory.mktemp("audit"))


@pytest.fixture(scope="session")
def gated_plane(request: pytest.FixtureRequest, account_log: AuditLog) -> Iterator[ControlPlane]:
    """A control plane that serves PodGroups and collects garbage, as one with scheduling groups does."""
    flags = [*account_log.flags, "--enable-admission-plugins=OwnerReferencesPermissionEnforcement"]  # as OpenShift has it
    with ControlPlane(*GROUPS_SERVED, api_server_flags=flags) as plane, controllers(plane):
        request.config.stash.setdefault(PLANES, {})["gated_plane"] = plane
        yield plane


@pytest.fixture(scope="session")
def publisher(gated_plane: ControlPlane) -> Iterator[Webhook]:
    """The webhook with the component that lets it keep PodGroups; each story leaves it running."""
    with Webhook(gated_plane, [COMPONENT]) as running:
        yield running


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
    for name, plane in item.config.stash.get(PLANES, {}).items():
        if report.failed and name in getattr(item, "fixturenames", ()):
            report.sections.append((name.replace("_", " "), plane.tail()))
    return report
