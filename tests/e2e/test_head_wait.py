"""The init container that waits for the head, on an API server with LimitRange and ResourceQuota:
with more resources, pods of KubeRay are admitted exactly as before.
"""

import pytest

from tests.e2e.api import LIMIT_RANGES, QUOTAS, RAY_CLUSTERS, Json
from tests.e2e.control_plane import ControlPlane
from tests.e2e.gangs import grouped
from tests.e2e.kuberay import Operator
from tests.e2e.rays import wait_for_pods
from webhook.api import names

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("webhook")]

POD = {"cpu": "4", "memory": "16Gi"}
RAISED = {"cpu": "900m", "memory": "1Gi"}


def test_a_quota_without_room_admits_the_pods_of_kuberay(
    control_plane: ControlPlane,
) -> None:
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
    control_plane.delete_ray_cluster("exact", namespace)


def of_equal_pods(name: str) -> Json:
    cluster = grouped(name, {"workers": (2, 1)}, {})
    spec = cluster["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        ray = group["template"]["spec"]["containers"][0]
        ray["resources"] = {"requests": POD, "limits": POD}
    return cluster
