"""Resources of pods of KubeRay in the API server: a container grows by its resize policy, and a
LimitRange and a ResourceQuota without room admit the init container that waits for the head.
"""

import json

import pytest

from tests.e2e import needs
from tests.e2e.api import LIMIT_RANGES, PODS, QUOTAS, RAY_CLUSTERS, STRATEGIC_PATCH, Json
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gangs import grouped
from tests.e2e.kuberay import Operator
from tests.e2e.rays import wait_for_pods
from tests.e2e.versions import chosen, minor
from webhook.api import names

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("webhook")]

IN_PLACE = [{"resourceName": name, "restartPolicy": "NotRequired"} for name in ("cpu", "memory")]
MAXIMA = {"max-cpu": "8", "max-memory": "64Gi", "resize-timeout": 60}
POD = {"cpu": "4", "memory": "16Gi"}
RAISED = {"cpu": "900m", "memory": "1Gi"}


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


def test_a_quota_without_room_admits_the_pods_of_kuberay(control_plane: ControlPlane) -> None:
    api, namespace = control_plane.api, control_plane.namespace("head-wait")
    limit = {"type": "Container", "max": POD, "maxLimitRequestRatio": {"cpu": "1"}}
    limits = {"limits": [limit, {"type": "Pod", "max": POD}]}
    metadata = {"name": "exact"}
    api.create(LIMIT_RANGES, {"metadata": metadata, "spec": limits}, namespace)
    hard = {
        f"{kind}.{resource}": amount
        for kind in ("requests", "limits")
        for resource, amount in (("cpu", "12"), ("memory", "48Gi"))
    }
    quota = api.create(QUOTAS, {"metadata": metadata, "spec": {"hard": hard}}, namespace)
    quota["status"] = {"hard": hard, "used": dict.fromkeys(hard, "0")}  # there is no controller
    api.request("PUT", QUOTAS.path(namespace, "exact", "status"), quota)
    with Operator(control_plane):
        api.create(RAY_CLUSTERS, of_equal_pods("exact"), namespace)
        pods = wait_for_pods(api, namespace, 3)
    waits = [
        init["resources"]
        for pod in pods
        for init in pod["spec"].get("initContainers", ())
        if init["name"] == names.WAIT_FOR_HEAD
    ]
    assert waits == [{"requests": RAISED, "limits": RAISED}] * 2
    assert {pod["status"]["qosClass"] for pod in pods} == {"Guaranteed"}


def of_equal_pods(name: str) -> Json:
    cluster = grouped(name, {"workers": (2, 1)}, {})
    spec = cluster["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        ray = group["template"]["spec"]["containers"][0]
        ray["resources"] = {"requests": POD, "limits": POD}
    return cluster
