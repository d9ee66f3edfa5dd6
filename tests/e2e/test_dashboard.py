"""The dashboard of an installation: objects visible for each token, and the effect of its
settings.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.e2e.api import (
    NAMESPACES,
    RAY_CLUSTERS,
    Json,
    Resource,
)
from tests.e2e.control_plane import ControlPlane
from tests.e2e.dashboard_process import Problems, token_to_look
from tests.e2e.installation import WITH_CONTROLLER, WITH_DASHBOARD, account_token
from tests.e2e.rays import slices
from tests.e2e.waiting import until, until_equal
from tests.e2e.webhook_process import Webhook

pytestmark = pytest.mark.e2e

IGNORE = "admission.ray.io/ignore"
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io/v1", "rolebindings")
NEGLECTED = {"head-missing", "replica-missing"}
"""What is wrong with a RayCluster when no KubeRay is there."""
OWN, OTHER = "looked-at", "not-looked-at"


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> Iterator[Webhook]:
    """The webhook, the controller and the dashboard, and a RayCluster in each of two namespaces,
    whose label asks to leave it alone.
    """
    with Webhook(control_plane, [WITH_CONTROLLER, WITH_DASHBOARD]) as running:
        for namespace, name in ((OWN, "llama"), (OTHER, "qwen")):
            control_plane.namespace(namespace)
            cluster = slices(name, 1)
            cluster["metadata"]["labels"] = {IGNORE: "true"}
            control_plane.api.create(RAY_CLUSTERS, cluster, namespace)
        yield running
        for namespace, name in ((OWN, "llama"), (OTHER, "qwen")):
            control_plane.delete_ray_cluster(name, namespace)


def test_an_account_sees_the_namespace_in_which_it_may_list_rayclusters_and_pods(
    control_plane: ControlPlane, installed: Webhook
) -> None:
    dashboard = installed.dashboard
    everywhere = token_to_look(control_plane, "onlooker")
    until(
        lambda: (
            {"llama", "qwen"}
            <= {each["name"] for each in dashboard.cluster_report(everywhere)["clusters"]}
        ),
        "both RayClusters are on the page of who may see both",
    )
    token = token_to_look(control_plane, "tenant", OWN)
    with dashboard.open_page(token) as page:
        until_equal(page.clusters, {f"{OWN}/llama"}, "the authorizer knows his rights")
        cluster_report = dashboard.cluster_report(token)
        assert names(cluster_report) == {"llama"}
        assert cluster_report["problems"] == []
        assert OTHER not in dashboard.get("/", token).text
        asked = json.loads(dashboard.get(f"/api/v1/status?namespace={OTHER}", token).text)
        assert asked["clusters"] == []
        assert dashboard.get(f"/api/v1/pods/{OTHER}/any", token).code == 404

        control_plane.api.delete(ROLE_BINDINGS, "tenant", OWN)
        until_equal(page.clusters, set[str](), "a right that is taken away counts")
        assert dashboard.cluster_report(token)["clusters"] == []


def test_nobody_looks_whom_the_api_server_does_not_know(
    control_plane: ControlPlane, installed: Webhook
) -> None:
    dashboard = installed.dashboard
    stranger = account_token(control_plane, "default", OWN)
    assert dashboard.cluster_report(stranger)["clusters"] == [], "known, and may see nothing"
    forged = stranger[:-8] + "AAAAAAAA"
    for token in ("", "guess", forged):
        assert dashboard.get("/api/v1/status", token).code == 401
        assert dashboard.get("/events", token).code == 401
        assert dashboard.get("/", token).code == 303


def test_a_dashboard_and_a_controller_of_some_namespaces_go_by_their_labels_alone_where_told(
    control_plane: ControlPlane, installed: Webhook
) -> None:
    dashboard, controller = installed.dashboard, installed.controller
    token = token_to_look(control_plane, "onlooker")
    until(partial(left_alone, partial(dashboard.problems, token, OWN)), "it is left alone")
    some = {"RAY_WEBHOOK_NAMESPACES": OWN, "RAY_WEBHOOK_IGNORE__RAYCLUSTERS": "false"}
    controller.stop()
    try:
        with dashboard.replica(some) as fewer, controller.replica(some) as leader:
            until(lambda: leader.leads, "it leads")
            both = partial(leader.problems, OWN), partial(fewer.problems, token, OWN)
            for problems in both:
                until_equal(problems, {"llama": NEGLECTED}, "what is missing is seen")
            cluster_report = fewer.cluster_report(token)
            assert names(cluster_report) == {"llama"}
            assert cluster_report["unread"] == {}, json.dumps(cluster_report["unread"])

            control_plane.api.patch(NAMESPACES, OWN, {"metadata": {"labels": {IGNORE: "true"}}})
            for problems in both:
                until(partial(left_alone, problems), "it is said")
    finally:
        control_plane.api.patch(NAMESPACES, OWN, {"metadata": {"labels": {IGNORE: None}}})
        controller.start()


def left_alone(problems: Callable[[], Problems]) -> bool:
    """Whether the RayCluster is said to be left alone."""
    return "ignored" in problems().get("llama", ())


def names(cluster_report: Json) -> set[str]:
    """The names of the RayClusters of a picture."""
    return {each["name"] for each in cluster_report["clusters"]}
