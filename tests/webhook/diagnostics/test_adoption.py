"""Pods of Google's TPU webhook: which are adopted, and the problems of those that are not."""

from collections.abc import Callable

import pytest

from tests.builders import Object, manifest
from tests.harness import google_webhook
from tests.harness.scenes import CREATED, Scene
from webhook.api import names
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.views import as_cluster


def a_google_scene() -> Scene:
    scene = Scene()
    workers: list[Object] = []
    for document in expand(scene.cluster, as_cluster(manifest(scene.cluster))):
        if document["metadata"]["labels"][names.LABEL_NODE_TYPE] == names.NODE_TYPE_HEAD:
            continue
        pod = google_webhook.admitted(document, workers)
        name = f"llama-tpu-worker-{len(workers)}"
        pod["metadata"] |= {"name": name, "uid": f"uid-of-{name}", "creationTimestamp": CREATED}
        pod["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        workers.append(pod)
    head = scene.pods["llama-head"]
    scene.pods = {pod["metadata"]["name"]: pod for pod in (head, *workers)}
    return scene


def test_its_pods_are_adopted() -> None:
    scene = a_google_scene()
    (group,) = scene.examined().clusters[0].groups
    assert [replica.name for replica in group.replicas] == ["tpu-0", "tpu-1"]
    assert all(len(host.pods) == 1 for host in group.every_host)
    assert scene.ids() == []


HOST = "llama-tpu-worker-1"


@pytest.mark.parametrize(("change", "problem"), [
    (lambda scene: scene.with_env(HOST, TPU_WORKER_ID="0"), "identity-duplicate"),
    (lambda scene: scene.changed(HOST, metadata={"labels": {"replicaIndex": None}}),
     "pod-without-identity"),
    (lambda scene: scene.changed(HOST, spec={"hostname": "tpu-7-1"}), "hostname-differs"),
    (lambda scene: scene.with_env(HOST, TPU_WORKER_HOSTNAMES="tpu-0-0.llama-headless"),
     "hosts-changed"),
])  # fmt: skip
def test_a_pod_without_adoption_is_a_problem(
    change: Callable[[Scene], Scene], problem: str
) -> None:
    assert problem in change(a_google_scene()).ids()
