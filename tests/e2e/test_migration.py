"""Migration from Google's TPU webhook, with a fake that creates pods of its format: it alone, both
registered, and the switch. No replica is incomplete, and no identity is held twice.
"""

from collections import Counter

import pytest

from tests.e2e.api import PODS, RAY_CLUSTERS, Json, Objects
from tests.e2e.control_plane import ControlPlane
from tests.e2e.google_webhook_process import GoogleWebhook
from tests.e2e.kuberay import Operator
from tests.e2e.rays import example, scale, slices, wait_for_workers, workers
from tests.e2e.waiting import until, until_equal
from tests.e2e.webhook_process import Webhook
from tests.harness import google_webhook
from tests.pages.blocks import kubectl_words
from webhook.api import names

pytestmark = pytest.mark.e2e

HOSTS = 4
NAMESPACE = "migration"


def ironwood(replicas: int) -> Json:
    """A RayCluster of v7x slices whose hosts have two containers with chips each."""
    cluster = example("tpu-v7x-two-containers")
    cluster["metadata"]["name"] = "ironwood"
    cluster["spec"]["workerGroupSpecs"][0] |= {"replicas": replicas, "maxReplicas": 9}
    return cluster


def place(pod: Json) -> tuple[str, int, int]:
    labels = pod["metadata"]["labels"]
    _, replica, host = pod["spec"]["hostname"].rsplit("-", 2)
    assert google_webhook.host_of(pod) == int(host)
    if names.LABEL_REPLICA_INDEX in labels:
        said = (labels[names.LABEL_REPLICA_INDEX], labels[names.LABEL_HOST_INDEX])
        assert said == (replica, host)
    return labels[names.LABEL_CLUSTER], int(replica), int(host)


def places(pods: Objects) -> Counter[tuple[str, int, int]]:
    return Counter(map(place, pods))


def whole(**replicas: int) -> Counter[tuple[str, int, int]]:
    return Counter(
        (name, replica, host)
        for name, count in replicas.items()
        for replica in range(count)
        for host in range(HOSTS)
    )


IDENTITIES = {
    "identity-duplicate", "pod-without-identity", "worker-id-differs", "hostname-differs",
    "hosts-changed",
}  # fmt: skip
"""Problems of pods that cannot be adopted."""


def problems(plane: ControlPlane) -> set[str]:
    _, cluster_report = plane.read_status(NAMESPACE)
    of_clusters = {
        each["id"] for cluster in cluster_report["clusters"] for each in cluster.get("problems", ())
    }
    return {each["id"] for each in cluster_report["problems"]} | of_clusters & IDENTITIES


def test_a_cluster_goes_over_without_a_torn_replica(control_plane: ControlPlane) -> None:
    api, namespace = control_plane.api, control_plane.namespace(NAMESPACE)

    def replaced(cluster: str, replica: int, host: int) -> Json:
        there = workers(api, namespace)
        known = {pod["metadata"]["uid"] for pod in there}
        (gone,) = (pod for pod in there if place(pod) == (cluster, replica, host))
        api.delete(PODS, gone["metadata"]["name"], namespace, grace=0)
        (new,) = until(
            lambda: [pod for pod in workers(api, namespace) if pod["metadata"]["uid"] not in known],
            "a new pod",
        )
        return new

    with Operator(control_plane, multi_host_indexing=False), GoogleWebhook(control_plane) as old:
        api.create(RAY_CLUSTERS, slices("one", 2), namespace)
        api.create(RAY_CLUSTERS, ironwood(1), namespace)
        first = wait_for_workers(api, namespace, 3 * HOSTS)
        assert places(first) == whole(one=2, ironwood=1)
        assert not any(names.LABEL_REPLICA_INDEX in pod["metadata"]["labels"] for pod in first)
        shown = control_plane.kubectl(*kubectl_words("kubectl get pods -A")).stdout.splitlines()
        assert {tuple(line.split()) for line in shown if line.startswith(NAMESPACE)} == {
            (NAMESPACE, pod["metadata"]["name"], pod["spec"]["subdomain"]) for pod in first
        }
        with Webhook(control_plane):
            assert problems(control_plane) == {"second-webhook"}
            for target in (("one", 0, 2), ("ironwood", 0, 1)):
                both = replaced(*target)
                assert place(both) == target
                assert both["metadata"]["labels"][names.LABEL_REPLICA_INDEX] == "0"

            old.unregister()
            until(lambda: not old.is_asked(), "the API server asks it no more")
            asked = old.asked
            for target in (("one", 1, 3), ("ironwood", 0, 2)):
                assert place(replaced(*target)) == target
            scale(api, "ironwood", namespace, 2)
            scale(api, "one", namespace, 3)
            until_equal(
                lambda: places(workers(api, namespace)),
                whole(one=3, ironwood=2),
                "every identity is held once",
            )
            assert old.asked == asked
            kept = {pod["metadata"]["uid"] for pod in workers(api, namespace)}
            touched = {("one", 0, 2), ("ironwood", 0, 1), ("one", 1, 3), ("ironwood", 0, 2)}
            assert {p["metadata"]["uid"] for p in first if place(p) not in touched} <= kept

            assert not problems(control_plane)
