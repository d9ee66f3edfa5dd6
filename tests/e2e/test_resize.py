"""The API server accepts the resize policy of the webhook, and lets the container grow."""

import json
from typing import Any

import pytest

from tests.e2e import needs
from tests.e2e.api import PODS, RAY_CLUSTERS, STRATEGIC_PATCH, Json, Objects
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gangs import grouped
from tests.e2e.kuberay import Operator
from tests.e2e.versions import chosen
from tests.e2e.waiting import until
from tests.e2e.webhook_process import Webhook
from webhook.api import names

pytestmark = pytest.mark.e2e

IN_PLACE = [{"resourceName": name, "restartPolicy": "NotRequired"} for name in ("cpu", "memory")]
MAXIMA = {"max-cpu": "8", "max-memory": "64Gi", "resize-timeout": 60}


def test_pods_of_listed_groups_grow_in_place_although_they_never_restart(
    control_plane: ControlPlane, webhook: Webhook
) -> None:
    assert webhook.ready
    needs.RESIZE.ask()
    api, namespace = control_plane.api, control_plane.namespace("resize")
    with Operator(control_plane):
        api.create(RAY_CLUSTERS, resizable("one", "headgroup", "listed"), namespace)
        pods = until(lambda: by_group(api.list(PODS, namespace), 3), "a head and two workers")

    restarts = "Never" if chosen().autoscaler_version else "Always"
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


def by_group(pods: Objects, count: int) -> dict[str, Any]:
    return (
        {pod["metadata"]["labels"][names.LABEL_GROUP]: pod for pod in pods}
        if len(pods) == count
        else {}
    )
