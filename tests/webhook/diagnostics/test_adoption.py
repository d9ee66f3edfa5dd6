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


def _two_in_one_identity(scene: Scene) -> None:
    scene.with_env("llama-tpu-worker-1", TPU_WORKER_ID="0")


def _without_label(scene: Scene) -> None:
    scene.changed("llama-tpu-worker-1", metadata={"labels": {"replicaIndex": None}})


def _other_host_name(scene: Scene) -> None:
    scene.changed("llama-tpu-worker-1", spec={"hostname": "tpu-7-1"})


def _fewer_hosts(scene: Scene) -> None:
    scene.with_env("llama-tpu-worker-1", TPU_WORKER_HOSTNAMES="tpu-0-0.llama-headless")


@pytest.mark.parametrize(("change", "problem"), [
    (_two_in_one_identity, "identity-duplicate"), (_without_label, "pod-without-identity"),
    (_other_host_name, "hostname-differs"), (_fewer_hosts, "hosts-changed"),
])  # fmt: skip
def test_a_pod_without_adoption_is_a_problem(change: Callable[[Scene], None], problem: str) -> None:
    scene = a_google_scene()
    change(scene)
    assert problem in scene.ids()
