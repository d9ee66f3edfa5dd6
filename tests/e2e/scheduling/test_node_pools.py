"""Slices on Nodes: the scheduler places each replica in a separate node pool, all its pods run, and
KubeRay reports that the RayCluster is ready.
"""

from collections import defaultdict
from contextlib import ExitStack

import pytest

from tests.e2e.api import NODES, PODS, RAY_CLUSTERS, Api, Json, Objects
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kubelet import Kubelet
from tests.e2e.kuberay import Operator
from tests.e2e.rays import HOSTS, identities, slices, whole, with_identity, workers
from tests.e2e.scheduling.component import scheduler
from tests.e2e.scheduling.nodes import bound, present
from tests.e2e.waiting import until
from tests.e2e.webhook_process import Webhook
from tests.harness.identities import identity_of
from webhook.api import names

pytestmark = pytest.mark.e2e

POOLS = ("pool-a", "pool-b")
CHIPS = {"cpu": "12", "google.com/tpu": "4"}


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
