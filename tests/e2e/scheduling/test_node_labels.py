"""Labels of a Node are copied to the pods that are bound to it: those of the values by the webhook,
in the binding request, and zone and region by the API server. Variables refer to them.
"""

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
ZONE = {names.LABEL_ZONE: "us-east5-b", names.LABEL_REGION: "us-east5"}


def test_pods_refer_to_the_labels_of_the_node_that_they_were_bound_to() -> None:
    needs.SCHEDULER.ask()
    cluster = slices("tpu", 1)
    cluster["metadata"]["annotations"] = {
        names.ANNOTATION_NODE_LABELS: f"{CLIQUE}={DOMAIN}",
        names.ANNOTATION_REPLICA_LABEL: "true",
    }
    (group,) = cluster["spec"]["workerGroupSpecs"]
    selector = group["template"]["spec"]["nodeSelector"]
    labels = {CLIQUE: "b7.0", "rack": "not-allowed", names.NODE_POOL: "p", **ZONE, **selector}
    nodes = [f"labelled-{number}" for number in range(HOSTS + 1)]
    with (
        ControlPlane() as plane,
        scheduler(plane),
        Operator(plane, multi_host_indexing=False),
        Webhook(plane, [f"nodeLabels={{{CLIQUE}}}"]),
        present(plane.api, nodes, labels, {"google.com/tpu": "4"}),
    ):
        api, namespace = plane.api, plane.namespace("labels")
        api.create(RAY_CLUSTERS, cluster, namespace)
        wait_for_workers(api, namespace, HOSTS)
        until(lambda: len(bound(api.list(PODS, namespace))) == HOSTS + 1, "all pods are bound")
        for pod in bound(api.list(PODS, namespace)):
            annotations, variables = pod["metadata"]["annotations"], resolved(pod)
            assert annotations[CLIQUE] == "b7.0"
            assert "rack" not in annotations
            assert variables[names.RAY_NODE_ZONE] == ZONE[names.LABEL_ZONE]
            assert variables[names.RAY_NODE_REGION] == ZONE[names.LABEL_REGION]
        for pod in workers(api, namespace):
            text = resolved(pod)[names.RAY_OVERRIDE_LABELS]
            assert f'"{DOMAIN}":"b7.0"' in text
            for label in names.IDENTITY_LABELS:
                assert f'"{label}":"{pod["metadata"]["labels"][label]}"' in text
        plane.delete_ray_cluster("tpu", namespace)


def resolved(pod: Json) -> dict[str, str]:
    """Return the variables of the first container as the kubelet resolves them."""
    found: dict[str, str] = {}
    for entry in pod["spec"]["containers"][0]["env"]:
        path = entry.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath", "")
        kind, bracket, key = path.removeprefix("metadata.").rstrip("']").partition("['")
        text = pod["metadata"][kind].get(key, "") if bracket else entry.get("value", "")
        for name, value in found.items():
            text = text.replace(f"$({name})", value)
        found[entry["name"]] = text
    return found
