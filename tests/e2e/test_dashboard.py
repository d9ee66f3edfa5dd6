"""The dashboard of a person who may read one namespace, and the effect of its flags and of the
controller's settings.
"""

from collections.abc import Callable
from functools import partial

import pytest

from tests.e2e.api import NAMESPACES, RAY_CLUSTERS, Json
from tests.e2e.control_plane import ControlPlane
from tests.e2e.dashboard_process import Dashboard, Problems, kubeconfig_to_look
from tests.e2e.installation import WITH_CONTROLLER
from tests.e2e.rays import slices
from tests.e2e.waiting import until, until_equal
from tests.e2e.webhook_process import Webhook

pytestmark = pytest.mark.e2e

IGNORE = "admission.ray.io/ignore"
NEGLECTED = {"head-missing", "replica-missing"}
"""What is wrong with a RayCluster when no KubeRay is there."""
OWN, OTHER = "looked-at", "not-looked-at"
VALUES = [WITH_CONTROLLER]


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane, webhook: Webhook) -> Webhook:
    """The webhook with its controller, and an ignored RayCluster in each of two namespaces."""
    for namespace, name in ((OWN, "llama"), (OTHER, "qwen")):
        control_plane.namespace(namespace)
        cluster = slices(name, 1)
        cluster["metadata"]["labels"] = {IGNORE: "true"}
        control_plane.api.create(RAY_CLUSTERS, cluster, namespace)
    return webhook


def test_who_may_read_one_namespace_has_a_page_of_it(
    control_plane: ControlPlane, installed: Webhook
) -> None:
    assert installed
    config = kubeconfig_to_look(control_plane, "tenant", OWN)
    with (
        Dashboard(control_plane, "-n", OWN, kubeconfig=config) as dashboard,
        dashboard.open_page() as page,
    ):
        until_equal(page.clusters, {f"{OWN}/llama"}, "the RayCluster is on the page")
        until(lambda: dashboard.cluster_report()["unread"].get("nodes"), "the rest is named")
        assert names(dashboard.cluster_report()) == {"llama"}


def test_a_dashboard_and_a_controller_of_a_namespace_go_by_their_labels_alone_where_set(
    control_plane: ControlPlane, installed: Webhook
) -> None:
    controller = installed.controller
    with Dashboard(control_plane) as dashboard:
        until(partial(is_ignored, partial(dashboard.problems, OWN)), "it is left alone")
    some = {"RAY_WEBHOOK_NAMESPACES": OWN, "RAY_WEBHOOK_IGNORE__RAYCLUSTERS": "false"}
    controller.stop()
    try:
        with (
            Dashboard(control_plane, "-n", OWN, "--ignore.rayclusters=false") as fewer,
            controller.replica(some) as leader,
        ):
            until(lambda: leader.leads, "it leads")
            both = partial(leader.problems, OWN), partial(fewer.problems, OWN)
            for problems in both:
                until_equal(problems, {"llama": NEGLECTED}, "what is missing is seen")
            cluster_report = fewer.cluster_report()
            assert names(cluster_report) == {"llama"}
            assert cluster_report["unread"] == {}

            control_plane.api.patch(NAMESPACES, OWN, {"metadata": {"labels": {IGNORE: "true"}}})
            for problems in both:
                until(partial(is_ignored, problems), "it is said")
    finally:
        control_plane.api.patch(NAMESPACES, OWN, {"metadata": {"labels": {IGNORE: None}}})
        controller.start()


def is_ignored(problems: Callable[[], Problems]) -> bool:
    return "ignored" in problems().get("llama", ())


def names(cluster_report: Json) -> set[str]:
    return {each["name"] for each in cluster_report["clusters"]}
