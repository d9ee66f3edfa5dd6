"""The API server accepts the resize policy of the webhook, and lets the container grow."""

import json

import pytest

from tests.e2e import needs
from tests.e2e.api import PODS, RAY_CLUSTERS, STRATEGIC_PATCH, Json
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gangs import grouped
from tests.e2e.kuberay import Operator
from tests.e2e.rays import wait_for_pods
from tests.e2e.versions import chosen, minor
from webhook.api import names

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("webhook")]

IN_PLACE = [{"resourceName": name, "restartPolicy": "NotRequired"} for name in ("cpu", "memory")]
MAXIMA = {"max-cpu": "8", "max-memory": "64Gi", "resize-timeout": 60}


def test_pods_of_listed_groups_grow_in_place_although_they_never_restart(
    control_plane: ControlPlane,
) -> None:
    needs.RESIZE.ask()
    api, namespace = control_plane.api, control_plane.namespace("resize")
    with Operator(control_plane):
        api.create(RAY_CLUSTERS, resizable("one", "headgroup", "listed"), namespace)
        pods = {
            pod["metadata"]["labels"][names.LABEL_GROUP]: pod
            for pod in wait_for_pods(api, namespace, 3)
        }

    # A RayCluster says which autoscaler it has since KubeRay 1.4
    restarts = "Never" if minor(chosen().kuberay) >= 4 else "Always"
    assert {pod["spec"]["restartPolicy"] for pod in pods.values()} == {restarts}
    policies = {
        group: pod["spec"]["containers"][0].get("resizePolicy") for group, pod in pods.items()
    }
    assert policies == {"headgroup": IN_PLACE, "listed": IN_PLACE, "unlisted": None}
    grown = {"cpu": "6", "memory": "24Gi"}
    container = {"name": "ray-worker", "resources": {"requests": grown, "limits": grown}}
    path = PODS.path(namespace, pods["listed"]["metadata"]["name"], "resize")
    (resized, *_) = api.request(
        "PATCH", path, {"spec": {"containers": [container]}}, STRATEGIC_PATCH
    ).body["spec"]["containers"]
    assert resized["resources"] == {"requests": grown, "limits": grown}
    control_plane.delete_ray_cluster("one", namespace)


def resizable(name: str, *listed: str) -> Json:
    annotation = json.dumps({"groups": dict.fromkeys(listed, MAXIMA)})
    cluster = grouped(
        name, {"listed": (1, 1), "unlisted": (1, 1)}, {names.ANNOTATION_IPPR: annotation}
    )
    cluster["spec"] |= {"enableInTreeAutoscaling": True, "autoscalerOptions": {"version": "v2"}}
    return cluster
