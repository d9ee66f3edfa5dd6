"""Zone and region of the Node are copied to the pod before it starts, and its variables refer to
them.
"""

import pytest

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

ZONE, REGION = "us-east5-b", "us-east5"


def test_every_ray_pod_knows_zone_and_region_of_the_node_that_it_was_bound_to(
    gated_plane: ControlPlane, publisher: Webhook
) -> None:
    assert publisher.ready
    api, namespace = gated_plane.api, gated_plane.namespace("zones")
    cluster = slices("tpu", 1)
    cluster["metadata"].setdefault("annotations", {})[names.ANNOTATION_REPLICA_LABEL] = "true"
    (group,) = cluster["spec"]["workerGroupSpecs"]
    selector = group["template"]["spec"]["nodeSelector"]
    labels = {names.LABEL_ZONE: ZONE, names.LABEL_REGION: REGION, names.NODE_POOL: "p", **selector}
    nodes = [f"zoned-{number}" for number in range(HOSTS + 1)]
    with (
        scheduler(gated_plane),
        Operator(gated_plane, multi_host_indexing=False),
        present(api, nodes, labels, {"google.com/tpu": "4"}),
    ):
        api.create(RAY_CLUSTERS, cluster, namespace)
        wait_for_workers(api, namespace, HOSTS)
        until(lambda: len(bound(api.list(PODS, namespace))) == HOSTS + 1, "all pods are bound")
        for pod in bound(api.list(PODS, namespace)):
            fields = {
                entry["name"]: entry["valueFrom"]["fieldRef"]["fieldPath"]
                for entry in pod["spec"]["containers"][0]["env"]
                if entry["name"] in (names.RAY_NODE_ZONE, names.RAY_NODE_REGION)
            }
            shown = {name: value_of(pod, path) for name, path in fields.items()}
            assert shown == {names.RAY_NODE_ZONE: ZONE, names.RAY_NODE_REGION: REGION}
        for pod in workers(api, namespace):
            (text,) = [
                entry["value"]
                for entry in pod["spec"]["containers"][0]["env"]
                if entry["name"] == names.RAY_OVERRIDE_LABELS
            ]
            for label in names.IDENTITY_LABELS:
                assert f'"{label}":"{pod["metadata"]["labels"][label]}"' in text
        gated_plane.delete_ray_cluster("tpu", namespace)


def value_of(pod: Json, path: str) -> str:
    key = path.removeprefix("metadata.labels['").removesuffix("']")
    found: str = pod["metadata"]["labels"][key]
    return found
