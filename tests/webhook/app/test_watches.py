"""Every process lists and watches each kind of object once."""

import io
from collections import Counter
from collections.abc import Callable, Mapping
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
from tests.harness.following import eventually
from tests.harness.objects import a_pod
from tests.harness.publishing import a_cluster
from tests.harness.scheduling_rules import PODGROUPS
from tests.webhook.app.test_scheduling import KEPT, beside, configured
from webhook.app import controller, dashboard
from webhook.app.informers import connection
from webhook.app.runtime import Runnable
from webhook.config.configuration import Component, Settings
from webhook.groups.annotations import REPLICA
from webhook.groups.identity import HostIdentity

FOLLOWED = {PODS, RAYCLUSTERS}
REPORTED = {*FOLLOWED, PODGROUPS, NODES, NAMESPACES, CONFIGURATIONS, SERVICES, RAYJOBS, RAYSERVICES}
PODS_STORED = 3


def of_controller(settings: Settings) -> Mapping[str, Runnable]:
    """Return what a controller runs that does everything."""
    return _controller(settings, "events", "pod-groups", "repair")


def of_silent_controller(settings: Settings) -> Mapping[str, Runnable]:
    """Return what a controller runs that writes no events."""
    return _controller(settings, "pod-groups")


def _controller(settings: Settings, *components: Component) -> Mapping[str, Runnable]:
    own = settings.installation.model_copy(update={"components": [*components]})
    settings = settings.model_copy(update={"installation": own})
    return controller.build(settings, io.BytesIO()).runnables


def of_dashboard(settings: Settings) -> Mapping[str, Runnable]:
    load = connection(settings.kubeconfig)
    return dashboard.build(load, "", 0, ignoring=settings.ignore.rayclusters).runnables


@pytest.mark.parametrize(("process", "kinds"), [
    (of_controller, REPORTED), (of_silent_controller, FOLLOWED),
    (of_dashboard, {*REPORTED, EVENTS}),
])  # fmt: skip
async def test_a_process_lists_and_watches_every_kind_once(
    process: Callable[[Settings], dict[str, Runnable]], kinds: set[str], tmp_path: Path
) -> None:
    async with FakeApi(served={"v1beta1"}).serving() as api:
        api.put(RAYCLUSTERS, a_cluster(REPLICA, enableInTreeAutoscaling=True))
        for host in range(PODS_STORED):
            api.put(PODS, a_pod(f"p{host}", HostIdentity(0, host, "tpu-bcdfg")))
        settings = configured(api, tmp_path, KEPT)

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

        async with beside(*(each.run() for each in process(settings).values())):
            await eventually(lambda: {kind for kind, _ in count("watch")} == kinds)
            assert set(count("watch").values()) == {1}
            assert set(count("list").values()) == {1}
            watched = {each.resource for each in api.requests if each.verb == "watch"}
            assert watched == kinds
