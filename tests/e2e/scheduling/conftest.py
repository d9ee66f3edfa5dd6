"""The control plane of the tests of scheduling groups, and a webhook that manages PodGroups."""

from collections.abc import Iterator

import pytest

from tests.e2e import needs
from tests.e2e.api import POD_GROUP_VERSION
from tests.e2e.audit import AuditLog
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gangs import COMPONENTS
from tests.e2e.scheduling.component import controllers
from tests.e2e.versions import chosen
from tests.e2e.webhook_process import Webhook


@pytest.fixture(scope="package")
def account_log(tmp_path_factory: pytest.TempPathFactory) -> AuditLog:
    return AuditLog(tmp_path_factory.mktemp("audit"))


@pytest.fixture(scope="package")
def gated_plane(account_log: AuditLog) -> Iterator[ControlPlane]:
    """A control plane that serves PodGroups and collects garbage, shared by stories."""
    flags = [
        *account_log.flags,
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
    ]  # as OpenShift has it
    needs.POD_GROUPS.ask()
    gates, apis = chosen().pod_group_gates, {POD_GROUP_VERSION: True}  # both are off by default
    with ControlPlane(gates, apis, api_server_flags=flags) as plane, controllers(plane):
        yield plane


@pytest.fixture(scope="package")
def publisher(gated_plane: ControlPlane) -> Iterator[Webhook]:
    """The webhook and the controller, which keeps PodGroups; each story leaves both running."""
    with Webhook(gated_plane, COMPONENTS) as running:
        yield running
