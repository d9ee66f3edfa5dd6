"""Slices on Nodes: the scheduler places each replica in a separate node pool, all its pods run, and
KubeRay reports that the RayCluster is ready. Labels of a Node are copied to the pods that are bound
to it: those of the values by the webhook, in the binding request, and zone and region by the API
server. Variables refer to them.
"""

from collections import defaultdict
from contextlib import ExitStack

import pytest

from tests.e2e import needs
from tests.e2e.api import NODES, PODS, RAY_CLUSTERS, Api, Json, Objects
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kubelet import Kubelet
from tests.e2e.kuberay import Operator
from tests.e2e.rays import (
    HOSTS,
    identities,
    slices,
    wait_for_workers,
    whole,
    with_identity,
    workers,
)
from tests.e2e.scheduling.component import scheduler
from tests.e2e.scheduling.nodes import bound, present
from tests.e2e.waiting import until
from tests.e2e.webhook_process import Webhook
from tests.harness.identities import identity_of
from webhook.api import names

pytestmark = pytest.mark.e2e

POOLS = ("pool-a", "pool-b")
CHIPS = {"cpu": "12", "google.com/tpu": "4"}
CLIQUE, DOMAIN = "nvidia.com/gpu.clique", "ray.io/gpu-domain"
ZONE = {names.LABEL_ZONE: "us-east5-b", names.LABEL_REGION: "us-east5"}


def test_each_replica_runs_on_a_node_pool_of_its_own_and_a_lost_host_comes_back_to_it(
    gated_plane: ControlPlane, publisher: Webhook
) -> None:
    assert publisher.ready
    api, namespace = gated_plane.api, gated_plane.namespace("pools")
    cluster = slices("pools", 2)
    selector = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]["nodeSelector"]
    with (
        scheduler(gated_plane),
        Operator(gated_plane, multi_host_indexing=False),
        Kubelet(api, namespace),
        present(api, ["node-of-the-head"]),
        ExitStack() as stack,
    ):
        for pool in POOLS:
            nodes = [f"{pool}-{number}" for number in range(HOSTS)]
            labels = {**selector, names.NODE_POOL: pool}
            stack.enter_context(present(api, nodes, labels, CHIPS))
        api.create(RAY_CLUSTERS, cluster, namespace)
        first = until(lambda: running(api, namespace), "all workers run")
        pools = pools_of(api, first)
        assert identities(first) == whole(0, 1)
        assert sorted(map(len, pools.values())) == [1, 1], "a replica has one pool"
        assert {pool for found in pools.values() for pool in found} == {*POOLS}
        until(lambda: is_ready(api, namespace), "KubeRay says that the RayCluster is ready")

        lost = with_identity(first, 0, 2)
        api.delete(PODS, lost["metadata"]["name"], namespace)
        again = until(lambda: running(api, namespace, without=lost), "all workers run again")
        assert identities(again) == whole(0, 1)
        assert pools_of(api, again) == pools
        gated_plane.delete_ray_cluster("pools", namespace)


def is_ready(api: Api, namespace: str) -> bool:
    status = api.get(RAY_CLUSTERS, "pools", namespace).get("status", {})
    return bool(status.get("state") == "ready")


def running(api: Api, namespace: str, without: Json | None = None) -> Objects:
    """All eight workers, once every one of them runs, and none is the one that is lost."""
    gone = without["metadata"]["uid"] if without else ""
    run = [
        pod
        for pod in bound(workers(api, namespace))
        if pod["status"].get("phase") == "Running" and pod["metadata"]["uid"] != gone
    ]
    return run if len(run) == 2 * HOSTS else []


def pools_of(api: Api, pods: Objects) -> dict[int, set[str]]:
    labels = {
        node["metadata"]["name"]: node["metadata"].get("labels", {}) for node in api.list(NODES)
    }
    found: dict[int, set[str]] = defaultdict(set)
    for pod in pods:
        if held := identity_of(pod):
            found[held.replica].add(labels[pod["spec"]["nodeName"]][names.NODE_POOL])
    return dict(found)


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
        present(plane.api, nodes, labels, CHIPS),
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
