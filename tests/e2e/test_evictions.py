"""`kubectl drain` of nodes whose pods belong to replicas with a disruption budget."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from tests.e2e.api import NODES, PODS, RAY_CLUSTERS, Api, ApiError, Json
from tests.e2e.control_plane import ControlPlane
from tests.e2e.kubelet import Kubelet
from tests.e2e.kuberay import Operator
from tests.e2e.rays import HOSTS, identities, slices, whole, with_identity, workers
from tests.e2e.scheduling.nodes import bind, present
from tests.e2e.waiting import until, until_equal
from tests.e2e.webhook_process import Webhook
from tests.harness.identities import identity_of
from webhook.api import names

pytestmark = pytest.mark.e2e

NAMES = [f"drain-{number}" for number in range(2 * HOSTS + 3)]
"""A node for each worker, and one more for each that is drained."""
DRAIN = ("--force", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=170s")
READY = {"type": "Ready", "status": "True"}
REFUSED = 'ray_webhook_evictions_total{outcome="refused"}'


class Machines(Kubelet):
    """Binds each worker to a free node that is not cordoned, as a scheduler does, and reports it
    Ready unless `slow`. `disrupted` is the largest number of replicas without all hosts, once all
    were complete.
    """

    def __init__(self, api: Api, namespace: str) -> None:
        super().__init__(api, namespace)
        self.slow = False
        self.complete = False
        self.disrupted = 0

    def _look(self) -> None:
        pods = self._api.list(PODS, self._namespace)
        self._count([pod for pod in pods if is_ready(pod)])
        used = {pod["spec"].get("nodeName") for pod in pods}
        for pod in pods:
            if "deletionTimestamp" in pod["metadata"]:
                with suppress(ApiError):  # it is gone
                    self._api.delete(PODS, pod["metadata"]["name"], self._namespace, grace=0)
            elif identity_of(pod) is not None and "nodeName" not in pod["spec"]:
                node = next(name for name in self._schedulable() if name not in used)
                used.add(node)
                bind(self._api, pod["metadata"]["name"], self._namespace, node)
            elif not self.slow and not is_ready(pod):
                self._say(pod, {"phase": "Running", "conditions": [READY]})

    def _count(self, ready: list[Json]) -> None:
        hosts = {*identities(ready)}
        replicas = [{*whole(replica)} <= hosts for replica in range(2)]
        self.complete = self.complete or all(replicas)
        if self.complete:
            self.disrupted = max(self.disrupted, replicas.count(False))

    def _schedulable(self) -> list[str]:
        return [
            node["metadata"]["name"]
            for node in self._api.list(NODES)
            if node["metadata"]["name"] in NAMES and not node["spec"].get("unschedulable")
        ]


def is_ready(pod: Json) -> bool:
    conditions = pod["status"].get("conditions") or ()
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def test_a_drain_of_three_nodes_disrupts_one_replica_after_the_other(
    control_plane: ControlPlane,
) -> None:
    api, namespace = control_plane.api, control_plane.namespace("drained-one-by-one")
    cluster = slices("one", 2)
    cluster["metadata"]["annotations"] = {names.ANNOTATION_MAX_DISRUPTED: "1"}
    with (
        Webhook(control_plane, ["evictions.enabled=true"]) as webhook,
        Operator(control_plane, multi_host_indexing=False),
        present(api, NAMES),
        Machines(api, namespace) as machines,
        ThreadPoolExecutor(1) as threads,
    ):
        api.create(RAY_CLUSTERS, cluster, namespace)
        until(lambda: machines.complete, "both replicas have all hosts")
        pods = workers(api, namespace)
        leaving = [with_identity(pods, *identity) for identity in ((0, 0), (1, 0), (0, 1))]
        nodes = [pod["spec"]["nodeName"] for pod in leaving]

        machines.slow = True
        drain = threads.submit(control_plane.kubectl, "drain", *nodes, *DRAIN)
        until(lambda: webhook.metric(REFUSED) >= 1, "an eviction of the second replica is refused")
        assert machines.disrupted == 1
        machines.slow = False

        result = drain.result()
        assert result.returncode == 0, result.stderr
        assert "1 of at most 1 (admission.ray.io/max-disrupted-replicas)" in result.stderr
        until_equal(
            lambda: identities([*filter(is_ready, workers(api, namespace))]),
            whole(0, 1),
            "all hosts are ready again",
        )
        assert machines.disrupted == 1
        assert not {pod["spec"].get("nodeName") for pod in workers(api, namespace)} & {*nodes}
