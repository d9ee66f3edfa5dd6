"""Labels of a Node are copied to the pods that are bound to it, in the binding request."""

from collections.abc import Iterator

import pytest

from tests.e2e import needs
from tests.e2e.api import PODS, RAY_CLUSTERS, Json
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kuberay import Operator
from tests.e2e.rays import HOSTS, slices, wait_for_workers, workers
from tests.e2e.scheduling.component import scheduler
from tests.e2e.scheduling.nodes import bound, present
from tests.e2e.waiting import until
from tests.e2e.webhook_process import Webhook
from webhook.api import names

pytestmark = pytest.mark.e2e

CLIQUE, DOMAIN = "nvidia.com/gpu.clique", "ray.io/gpu-domain"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    needs.SCHEDULER.ask()
    with ControlPlane() as running, scheduler(running), Operator(running):
        yield running


def test_workers_refer_to_the_label_of_the_node_that_they_were_bound_to(
    plane: ControlPlane,
) -> None:
    api, namespace = plane.api, plane.namespace("labels")
    cluster = slices("tpu", 1)
    cluster["metadata"]["annotations"] = {names.ANNOTATION_NODE_LABELS: f"{CLIQUE}={DOMAIN}"}
    (group,) = cluster["spec"]["workerGroupSpecs"]
    selector = group["template"]["spec"]["nodeSelector"]
    labels = {CLIQUE: "b7.0", "rack": "not-allowed", names.NODE_POOL: "p", **selector}
    nodes = [f"labelled-{number}" for number in range(HOSTS + 1)]
    with (
        Webhook(plane, [f"nodeLabels={{{CLIQUE}}}"]),
        present(api, nodes, labels, {"google.com/tpu": "4"}),
    ):
        api.create(RAY_CLUSTERS, cluster, namespace)
        wait_for_workers(api, namespace, HOSTS)
        until(lambda: len(bound(api.list(PODS, namespace))) == HOSTS + 1, "all pods are bound")
        for pod in bound(api.list(PODS, namespace)):
            annotations = pod["metadata"]["annotations"]
            assert annotations[CLIQUE] == "b7.0"
            assert "rack" not in annotations
        for pod in workers(api, namespace):
            assert override_of(pod) == f'{{"{DOMAIN}":"b7.0"}}'
        plane.delete_ray_cluster("tpu", namespace)


def override_of(pod: Json) -> str:
    known: dict[str, str] = {}
    for entry in pod["spec"]["containers"][0]["env"]:
        path = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        if path.startswith("metadata.annotations["):
            known[entry["name"]] = pod["metadata"]["annotations"].get(path[22:-2], "")
        elif entry["name"] == names.RAY_OVERRIDE_LABELS:
            text: str = entry["value"]
            for name, value in known.items():
                text = text.replace(f"$({name})", value)
            return text
    return ""
