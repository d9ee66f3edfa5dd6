"""Every process lists and watches each kind of object once."""

import io
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.harness.fake_api import (
    CONFIGURATIONS,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    RAYCLUSTERS,
    RAYJOBS,
    RAYSERVICES,
    SERVICES,
    FakeApi,
)
from tests.harness.following import beside, eventually
from tests.harness.objects import a_pod
from tests.harness.publishing import a_cluster
from tests.harness.scheduling_rules import PODGROUPS
from tests.webhook.app.test_scheduling import KEPT, configured
from webhook.app import controller, dashboard
from webhook.app.dashboard import DashboardServer
from webhook.app.informers import connection
from webhook.app.runtime import Process, supervise
from webhook.config.configuration import Component, Settings
from webhook.groups.annotations import REPLICA
from webhook.groups.identity import HostIdentity

FOLLOWED = {PODS, RAYCLUSTERS}
REPORTED = {*FOLLOWED, PODGROUPS, NODES, NAMESPACES, CONFIGURATIONS, SERVICES, RAYJOBS, RAYSERVICES}
PODS_STORED = 3


def of_controller(settings: Settings, components: list[Component]) -> Process:
    own = settings.installation.model_copy(update={"components": components})
    settings = settings.model_copy(update={"installation": own})
    return controller.build(settings, io.BytesIO())


def of_dashboard(settings: Settings) -> DashboardServer:
    load = connection(settings.kubeconfig)
    return dashboard.build(load, "", 0, ignoring=settings.ignore.rayclusters)


@pytest.mark.parametrize(("process", "kinds"), [
    (partial(of_controller, components=["events", "pod-groups", "repair"]), REPORTED),
    (partial(of_controller, components=["pod-groups"]), FOLLOWED),
    (of_dashboard, {*REPORTED, EVENTS}),
])  # fmt: skip
async def test_a_process_lists_and_watches_every_kind_once(
    process: Callable[[Settings], Process | DashboardServer], kinds: set[str], tmp_path: Path
) -> None:
    async with FakeApi(served={"v1beta1"}).serving() as api:
        api.put(RAYCLUSTERS, a_cluster(REPLICA, enableInTreeAutoscaling=True))
        for host in range(PODS_STORED):
            api.put(PODS, a_pod(f"p{host}", HostIdentity(0, host, "tpu-bcdfg")))
        running = process(configured(api, tmp_path, KEPT))

        def count(verb: str) -> Counter[tuple[str, str]]:
            """Return how often each kind was asked for, and with which field selector."""
            return Counter(
                (each.resource, each.query.get("fieldSelector", ""))
                for each in api.requests
                if each.verb == verb
                and each.resource in kinds
                # The publisher looks up objects of its own by label
                and "app.kubernetes.io/managed-by" not in each.query.get("labelSelector", "")
            )

        async with beside(supervise(running.runnables, running.drain)):
            await eventually(lambda: {kind for kind, _ in count("watch")} == kinds)
            assert set(count("watch").values()) == {1}
            assert set(count("list").values()) == {1}
            watched = {each.resource for each in api.requests if each.verb == "watch"}
            assert watched == kinds
