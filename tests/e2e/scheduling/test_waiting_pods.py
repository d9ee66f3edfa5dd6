"""Pods without their PodGroup: reported by `ray-webhook status`, on an open page of the dashboard
and by an event, until the fix.
"""

import time
from collections.abc import Iterator

import pytest

from tests.e2e.api import RAY_CLUSTERS
from tests.e2e.control_plane import ControlPlane
from tests.e2e.dashboard_process import Dashboard, OpenPage, every_problem
from tests.e2e.gangs import by, counts, grouped
from tests.e2e.kuberay import Operator
from tests.e2e.rays import HOSTS, events_of, wait_for_workers
from tests.e2e.scheduling.component import scheduler
from tests.e2e.scheduling.nodes import present
from tests.e2e.waiting import until, until_equal
from tests.e2e.webhook_process import Webhook

pytestmark = pytest.mark.e2e

LATER = 150.0
"""Seconds after which every diagnosis counts; `status` does not wait for them, the events do."""
MISSING = "podgroup-missing"
WAITS = "podgroup-not-scheduled"
ONLY_EVENTS = {"RAY_WEBHOOK_INSTALLATION__COMPONENTS": "events"}


def remedies(plane: ControlPlane) -> dict[str, str]:
    """Return what a person reads of PodGroups in a terminal."""
    problems = every_problem(plane.read_status("waiting")[1])
    return {each["id"]: each["remedy"] for each in problems if each["id"].startswith("podgroup")}


@pytest.fixture
def kuberay(gated_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[Operator]:
    """KubeRay and the scheduler; `status` is asked some time later."""
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + LATER)
    with scheduler(gated_plane), Operator(gated_plane, multi_host_indexing=False) as operator:
        yield operator


def test_pods_that_wait_for_their_podgroup_are_reported_and_helped(
    gated_plane: ControlPlane, publisher: Webhook, kuberay: Operator
) -> None:
    assert kuberay
    api, namespace = gated_plane.api, gated_plane.namespace("waiting")
    publisher.controller.stop()
    api.create(RAY_CLUSTERS, grouped("gang", {"hosts": (1, HOSTS)}, by("replica")), namespace)
    wait_for_workers(api, namespace, HOSTS, "gang")
    until(lambda: remedies(gated_plane).keys() == {MISSING}, "the PodGroup is seen to be missing")
    # Without any Node the scheduler of 1.36 does not try again when there are some
    with (
        Dashboard(gated_plane) as dashboard,
        dashboard.open_page() as page,
        present(api, ["for-the-head"]),
    ):
        helped(gated_plane, publisher, page)


def helped(plane: ControlPlane, publisher: Webhook, page: OpenPage) -> None:
    api, namespace, controller = plane.api, "waiting", publisher.controller
    with controller.replica(ONLY_EVENTS):
        until(lambda: events_of(api, namespace, "PodGroupWaiting"), "the RayCluster has its event")
    (event,) = events_of(api, namespace, "PodGroupWaiting")
    assert "which does not exist" in event["note"]
    assert counts(api, namespace) == {}
    until_equal(lambda: about_podgroups(page), {MISSING}, "the page says so")

    assert "check that the controller runs" in remedies(plane)[MISSING]
    controller.start()
    until(lambda: counts(api, namespace), "the controller makes the PodGroup")
    until(lambda: remedies(plane).keys() == {WAITS}, "now the PodGroup is seen to wait")

    assert "add capacity until all pods fit" in remedies(plane)[WAITS]
    until_equal(lambda: about_podgroups(page), {WAITS}, "the page says so, in time")
    names = [f"waiting-{number}" for number in range(HOSTS)]
    with present(api, names):
        until(lambda: not remedies(plane), "nothing waits for a PodGroup")
        until(lambda: not about_podgroups(page), "the page says so")
        plane.delete_ray_cluster("gang", namespace)


def about_podgroups(page: OpenPage) -> set[str]:
    return {id_ for ids in page.problems("waiting").values() for id_ in ids & {MISSING, WAITS}}
