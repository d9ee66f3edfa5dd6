"""The account of the dashboard: it uses all its rights and needs no others, for any namespaces in
its settings.
"""

import pytest

from tests.e2e.api import RAY_CLUSTERS
from tests.e2e.audit import AuditLog
from tests.e2e.control_plane import ControlPlane
from tests.e2e.dashboard_process import Dashboard, token_to_look
from tests.e2e.gangs import by, discovered, grouped
from tests.e2e.installation import DASHBOARD, account_rights, asked
from tests.e2e.waiting import until
from tests.e2e.webhook_process import Webhook

pytestmark = pytest.mark.e2e


def test_the_account_uses_every_right_it_has_and_lacks_none(
    gated_plane: ControlPlane, publisher: Webhook, account_log: AuditLog
) -> None:
    api, namespace = gated_plane.api, gated_plane.namespace("shown")
    api.create(RAY_CLUSTERS, grouped("gang", {"hosts": (1, 2)}, by("replica")), namespace)
    token = token_to_look(gated_plane, "onlooker")
    dashboard = publisher.dashboard
    whole = publisher.rights_of(DASHBOARD)

    look(dashboard, token, namespace)
    # The rights of a user who may not look everywhere are read from the cluster's roles.
    look(dashboard, token_to_look(gated_plane, "tenant", namespace), namespace)
    until(lambda: account_log.used(DASHBOARD) == whole, "it has used every right")
    with dashboard.replica({"RAY_WEBHOOK_NAMESPACES": namespace}) as fewer:
        look(fewer, token, namespace)
    assert account_log.used(DASHBOARD) == whole
    assert {found.code for found in account_log.requests(DASHBOARD)} <= {200, 201}
    assert {found.code for found in account_log.discovery(DASHBOARD)} == discovered()
    assert account_rights(gated_plane, DASHBOARD) == set(map(asked, whole))
    gated_plane.delete_ray_cluster("gang", namespace)


def look(dashboard: Dashboard, token: str, namespace: str) -> None:
    """Somebody opens the page and sees the RayCluster, and nothing is left out of it."""
    with dashboard.open_page(token) as page:
        until(lambda: f"{namespace}/gang" in page.clusters(), "the RayCluster is on the page")
    assert dashboard.cluster_report(token)["unread"] == {}
