"""Reviews of resizes in place, from a real API server: pods never start here, but can be
resized.
"""

import json
from collections.abc import Iterator
from typing import Final

import pytest

from tests.e2e import needs
from tests.e2e.api import (
    PODS,
    RAY_CLUSTERS,
    Answer,
    ApiError,
    Json,
)
from tests.e2e.control_plane import ControlPlane
from tests.e2e.rays import slices, wait_for_cache, worker_of
from tests.e2e.waiting import until
from tests.e2e.webhook_process import Webhook
from webhook.api import names

pytestmark = pytest.mark.e2e

IPPR: Final = {
    "groups": {"tpu-group": {"max-cpu": "8", "max-memory": "16Gi", "resize-timeout": 60}}
}


@pytest.fixture(scope="module", params=["warn", "deny"])
def action(request: pytest.FixtureRequest) -> str:
    """What happens to a resize beyond the maxima."""
    found: str = request.param
    return found


@pytest.fixture(scope="module", autouse=True)
def checked(control_plane: ControlPlane, action: str) -> Iterator[Webhook]:
    """The webhook, installed with the component."""
    needs.RESIZE.ask()
    variables = {"RAY_WEBHOOK_RESIZE__ENFORCEMENT_ACTION": action}
    with Webhook(control_plane, ["resizeCheck.enabled=true"], variables) as running:
        yield running


def a_worker(plane: ControlPlane, namespace: str) -> str:
    """The name of a stored worker of a group that Ray may resize: 2 cores and 4Gi."""
    cluster = slices("resized", 1)
    cluster["metadata"]["annotations"] = {names.ANNOTATION_IPPR: json.dumps(IPPR)}
    cluster["metadata"]["labels"] = {names.LABEL_IGNORE: "false"}
    cluster["spec"]["enableInTreeAutoscaling"] = True
    cluster["spec"]["autoscalerOptions"] = {"version": "v2"}
    for group in (cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]):
        container = group["template"]["spec"]["containers"][0]
        container["image"] = "rayproject/ray:2.57.0"
        for kind in ("requests", "limits"):
            container.setdefault("resources", {}).setdefault(kind, {}).update(
                {"cpu": "2", "memory": "4Gi"}
            )
    cluster["spec"].pop("rayVersion", None)
    pod = plane.api.create(
        PODS, worker_of(plane.api.create(RAY_CLUSTERS, cluster, namespace)), namespace
    )
    assert {rule["resourceName"] for rule in pod["spec"]["containers"][0]["resizePolicy"]} == {
        "cpu",
        "memory",
    }
    name: str = pod["metadata"]["name"]
    return name


def resize(plane: ControlPlane, namespace: str, name: str, **amounts: str) -> Answer:
    """What the API server answers to a resize, as Ray's autoscaler sends it."""
    container: Json = {"name": "ray-worker", "resources": {"requests": amounts, "limits": amounts}}
    pod = plane.api.get(PODS, name, namespace)
    container["name"] = pod["spec"]["containers"][0]["name"]
    body = {"spec": {"containers": [container]}}
    kind = "application/strategic-merge-patch+json"
    return plane.api.request("PATCH", PODS.path(namespace, name, "resize"), body, kind)


def test_a_resize_within_the_maxima_passes_and_one_beyond_them_does_not(
    control_plane: ControlPlane, checked: Webhook, action: str
) -> None:
    namespace = control_plane.namespace(f"resizes-{action}")
    name = a_worker(control_plane, namespace)

    within = resize(control_plane, namespace, name, cpu="8", memory="16Gi")
    assert within.warnings == ()
    assert within.body["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "8"
    until(lambda: "UPDATE" in operations(checked, namespace), "the log has the resize")

    said = "cpu 12 is above max-cpu 8 of group tpu-group"
    if action == "warn":
        answer = resize(control_plane, namespace, name, cpu="12")
        assert [warning for warning in answer.warnings if said in warning]
        assert answer.body["spec"]["containers"][0]["resources"]["limits"]["cpu"] == "12"
    else:
        with pytest.raises(ApiError, match=said) as refusal:
            resize(control_plane, namespace, name, cpu="12")
        causes = refusal.value.status["details"]["causes"]
        assert {cause["field"] for cause in causes} == {
            f"spec.containers[0].resources.{kind}.cpu" for kind in ("requests", "limits")
        }
    control_plane.delete_ray_cluster("resized", namespace)


def test_an_ordinary_update_of_a_pod_is_not_asked_about(
    control_plane: ControlPlane, checked: Webhook, action: str
) -> None:
    namespace = control_plane.namespace(f"no-resizes-{action}")
    name = a_worker(control_plane, namespace)
    labelled = control_plane.api.patch(
        PODS, name, {"metadata": {"labels": {"team": "a"}}}, namespace
    )
    wait_for_cache(control_plane.api, PODS, labelled)
    resize(control_plane, namespace, name, cpu="3")
    until(lambda: "UPDATE" in operations(checked, namespace), "the log has the resize")
    assert operations(checked, namespace) == ["CREATE", "UPDATE"]
    control_plane.delete_ray_cluster("resized", namespace)


def operations(webhook: Webhook, namespace: str) -> list[str]:
    """The operations of the reviews of pods of a namespace, in order."""
    return [
        line["operation"] for line in webhook.admissions("Pod") if line["namespace"] == namespace
    ]
