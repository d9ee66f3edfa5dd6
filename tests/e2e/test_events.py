"""Problems become events on the RayCluster, in a real API server, and metrics."""

from collections.abc import Iterator

import pytest

from tests.e2e.api import PODS, RAY_CLUSTERS
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installation import WITH_CONTROLLER
from tests.e2e.kuberay import Operator
from tests.e2e.rays import (
    HOSTS,
    in_seat,
    slices,
    wait_for_workers,
    workers,
)
from tests.e2e.seats import SEAT, told
from tests.e2e.waiting import until, until_equal
from tests.e2e.webhook_process import Webhook

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> Iterator[Webhook]:
    """The webhook and the controller, as both overlays have them."""
    with Webhook(control_plane, [WITH_CONTROLLER]) as running:
        yield running


def test_a_pod_without_its_seat_is_told_of_as_one_series_whoever_leads(
    control_plane: ControlPlane, installed: Webhook
) -> None:
    api, namespace = control_plane.api, control_plane.namespace("told")
    with Operator(control_plane, multi_host_indexing=False) as operator:
        made = api.create(RAY_CLUSTERS, slices("seatless", 1), namespace)
        wait_for_workers(api, namespace, HOSTS, "seatless")
        operator.stop()
        pod = in_seat(workers(api, namespace, "seatless"), 0, 3)
        api.patch(
            PODS, pod["metadata"]["name"], {"metadata": {"labels": dict.fromkeys(SEAT)}}, namespace
        )
        until(lambda: told(api, namespace, "PodWithoutSeat"), "the RayCluster is told")
        (event,) = told(api, namespace, "PodWithoutSeat")
        assert event["regarding"]["uid"] == made["metadata"]["uid"]
        assert event["type"] == "Warning"
        assert pod["metadata"]["name"] in event["note"]
        shown = control_plane.kubectl("describe", "raycluster", "seatless", "-n", namespace).stdout
        assert "PodWithoutSeat" in shown

        installed.controller.kill()
        installed.controller.start()
        until(
            lambda: told(api, namespace, "PodWithoutSeat")[0].get("series", {}).get("count", 1) > 1,
            "the next process continues with the series",
        )
        assert len(told(api, namespace, "PodWithoutSeat")) == 1
        place = {"raycluster_namespace": namespace, "raycluster": "seatless", "group": "tpu-group"}
        until_equal(
            lambda: installed.controller.sample("ray_webhook_pods_without_seat", place),
            1.0,
            "its metrics count the pod",
        )
    control_plane.delete_ray_cluster("seatless", namespace)


def test_a_missing_host_is_told_of_after_two_minutes(
    control_plane: ControlPlane, installed: Webhook
) -> None:
    assert installed.ready
    api, namespace = control_plane.api, control_plane.namespace("told-late")
    with Operator(control_plane, multi_host_indexing=False) as operator:
        api.create(RAY_CLUSTERS, slices("lacking", 1), namespace)
        wait_for_workers(api, namespace, HOSTS, "lacking")
        operator.stop()
        pod = in_seat(workers(api, namespace, "lacking"), 0, 3)
        api.delete(PODS, pod["metadata"]["name"], namespace, grace=0)
        until(lambda: told(api, namespace, "HostMissing"), "the RayCluster is told", 400)
        (event,) = told(api, namespace, "HostMissing")
        assert "has 3 of 4 hosts: host 3 is missing" in event["note"]
    control_plane.delete_ray_cluster("lacking", namespace)
