"""Assigned pods, also those of Google's TPU webhook, and the status of hosts and replicas."""

import json
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec import structs

from tests.builders import a_cluster, manifest
from tests.harness import google_webhook
from tests.harness.scenes import CREATED, NOW, Object, Observed, Scene, hosts_of, instant, llama
from tests.webhook.diagnostics.samples import samples
from webhook.api import names
from webhook.diagnostics.examiner import examine
from webhook.diagnostics.report import ReplicaReport
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.views import as_cluster
from webhook.objects.live_objects import Selector
from webhook.objects.object_cache import ObjectCache

HOST = "llama-tpu-worker-0-3"
IDENTITY = dict.fromkeys(names.IDENTITY_LABELS)
LEGACY = {names.LABEL_LEGACY_REPLICA_INDEX: None}
COMING: Object = {"phase": "Pending", "conditions": None}


def replica(scene: Scene, number: int = 0) -> ReplicaReport:
    return scene.examined().clusters[0].groups[0].replicas[number]


def test_all_hosts_of_all_replicas_are_shown_in_order() -> None:
    group = Scene().examined().clusters[0].groups[0]
    assert [each.index for each in group.replicas] == [0, 1]
    assert [[place.index for place in each.hosts] for each in group.replicas] == [[0, 1, 2, 3]] * 2
    assert {each.state for each in group.replicas} == {"complete"}
    (cluster,) = samples()["podgroup-missing"].scene().examined().clusters
    assert [(each.missing, each.needed) for each in cluster.pod_groups] == [(True, 0)]
    assert cluster.head.index == 0


@pytest.mark.parametrize(("overlay", "state", "pods", "node"), [
    ({}, "ready", (HOST,), "node-0-3"),
    ({"metadata": {"deletionTimestamp": instant(60)}}, "missing", (), ""),
    ({"status": COMING, "spec": {"nodeName": None}}, "pending", (HOST,), ""),
    ({"status": COMING}, "starting", (HOST,), "node-0-3"),
    ({"status": {"phase": "Failed"}}, "failed", (HOST,), "node-0-3"),
])  # fmt: skip
def test_a_host_is_shown(overlay: Object, state: str, pods: tuple[str, ...], node: str) -> None:
    scene = Scene().changed(HOST, **overlay)
    host = replica(scene).hosts[3]
    assert (host.state, host.pods, host.node) == (state, pods, node)
    assert scene.examined().clusters[0].terminating == (state == "missing")


def test_a_host_with_two_pods_is_shown_with_the_node_of_the_first() -> None:
    second = f"{HOST}-b"
    scene = Scene().copied(HOST, second).changed(second, spec={"nodeName": "node-1-3"})
    host = replica(scene).hosts[3]
    assert (host.state, host.pods, host.node) == ("twice", (HOST, second), "node-0-3")


def test_a_replica_that_comes_up_is_not_called_waiting() -> None:
    scene = Scene().without(HOST)
    scene.changed(*scene.pods, metadata={"creationTimestamp": instant(5)})
    assert replica(scene).state == "creating"
    assert not scene.examined().is_degraded
    assert scene.examined(NOW + 60).is_degraded


def test_a_replica_that_is_missing_is_shown_without_an_index() -> None:
    scene = Scene().without(*hosts_of(1))
    found = replica(scene, 1)
    assert (found.index, found.state, found.ready, len(found.hosts)) == (None, "missing", 0, 4)


@pytest.mark.parametrize("scene", [
    Scene(indexed=True),
    Scene(a_cluster("llama").group("cpu", replicas=3)),
], ids=["identities of KubeRay", "single hosts"])  # fmt: skip
def test_nothing_is_wrong_with(scene: Scene) -> None:
    assert scene.ids() == []


def test_what_could_not_be_read_is_not_missed() -> None:
    scene = Scene()
    scene.services.clear()
    assert scene.ids() == ["headless-service-missing"]
    unread = structs.replace(scene.observed(), services=None)
    assert unread.examined(NOW).every_problem == []


def test_a_single_host_without_a_tpu_needs_no_identity() -> None:
    scene = Scene(a_cluster("llama").group("cpu", replicas=2))
    scene.changed(*scene.workers, metadata={"labels": {names.LABEL_REPLICA_INDEX: None}})
    assert scene.ids() == []
    assert len(scene.examined().clusters[0].groups[0].without_identity) == 2


def a_host_without_identity(amount: str, **spec: object) -> Scene:
    """Return a single host without an identity, whose Ray container asks for an amount of TPUs."""
    limits = {names.RESOURCE_TPU: amount} if amount else {}
    container = {"name": "ray-worker", "resources": {"limits": limits}}
    template = {"spec": {"containers": [container], **spec}}
    scene = Scene(a_cluster("llama").group("one", replicas=1, template=template))
    return scene.changed(*scene.workers, metadata={"labels": IDENTITY | LEGACY})


TPUS = {"limits": {names.RESOURCE_TPU: "4"}}
SIDECAR = {"name": "side", "restartPolicy": "Always", "resources": TPUS}


@pytest.mark.parametrize(("scene", "expected"), [
    (a_host_without_identity("4"), ["pod-without-identity"]),
    (a_host_without_identity("0"), []),
    (a_host_without_identity("", initContainers=[SIDECAR]), ["pod-without-identity"]),
])  # fmt: skip
def test_a_single_host_with_tpus_needs_an_identity(scene: Scene, expected: list[str]) -> None:
    assert scene.ids() == expected


def test_a_pod_whose_identity_labels_were_removed_is_said_to_have_had_them() -> None:
    scene = a_host_without_identity("4")
    annotations = {names.ANNOTATION_HOLDER: "0123456789ab"}
    scene.changed(*scene.workers, metadata={"annotations": annotations})
    (problem,) = scene.examined().every_problem
    assert "labels were removed" in problem.message


def test_a_raycluster_that_is_being_deleted_says_so_and_does_not_come_up() -> None:
    scene = Scene().without(HOST, "llama-head")
    scene.cluster["metadata"]["deletionTimestamp"] = instant(60)
    cluster_report = scene.examined()
    (cluster,) = cluster_report.clusters
    (problem,) = cluster.problems
    assert (problem.id, problem.level, problem.since) == ("being-deleted", "info", NOW - 60)
    assert cluster.deleting
    assert [each.state for each in cluster.groups[0].replicas] == ["deleting"] * 2
    assert not cluster_report.is_degraded
    scene.without(*scene.pods)
    assert scene.ids() == ["being-deleted"]
    assert scene.examined().clusters[0].groups[0].replicas == ()


def test_a_finalizer_that_holds_a_raycluster_for_long_is_named() -> None:
    scene = Scene()
    finalizers = ["example.com/audit", "example.com/b", "example.com/c", "foregroundDeletion"]
    scene.cluster["metadata"] |= {"deletionTimestamp": instant(300), "finalizers": finalizers}
    assert scene.ids() == ["being-deleted"]
    cluster_report = scene.examined(NOW + 300)
    held = cluster_report.every_problem[0]
    assert held.message == (
        "the RayCluster is being deleted, and finalizers block the deletion: example.com/audit, "
        "example.com/b, example.com/c, foregroundDeletion"
    )
    assert cluster_report.is_degraded
    finalizers.append("example.com/e")
    (held,) = scene.examined(NOW + 300).every_problem
    assert held.message.endswith("example.com/c, foregroundDeletion and 1 more")


def test_the_work_of_an_examination_grows_with_the_pods_and_no_faster() -> None:
    few, many = (calls(Scene(llama(replicas=count)).observed()) for count in (50, 250))
    assert many < 6 * few


def calls(observed: Observed) -> int:
    """Return how many functions of Python an examination calls, which finds nothing."""
    objects, count = observed.load(ObjectCache()), 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        cluster_report = examine(objects, NOW)
    finally:
        sys.setprofile(None)
    assert cluster_report.every_problem == []
    return count


def test_a_raycluster_that_asks_for_more_than_there_can_be_is_looked_at_in_no_time() -> None:
    most = 2**31 - 1
    overlay = {"replicas": most, "maxReplicas": most, "numOfHosts": most}
    scene = Scene()
    (group,) = scene.cluster["spec"]["workerGroupSpecs"]
    group.update(overlay)
    (cluster,) = scene.examined().clusters
    (shown,) = cluster.groups
    assert shown.desired == most
    assert sum(len(replica.hosts) for replica in shown.replicas) < 40_000
    group.update(numOfHosts=0)
    (cluster,) = scene.examined().clusters
    assert sum(len(replica.hosts) for replica in cluster.groups[0].replicas) < 40_000
    assert len(cluster.groups[0].replicas) < 40_000


@pytest.mark.parametrize(("requirement", "labels", "selected"), [
    ({"operator": "In", "values": ["a"]}, {"k": "a"}, True),
    ({"operator": "In", "values": ["a"]}, {}, False),
    ({"operator": "NotIn", "values": ["a"]}, {}, True),
    ({"operator": "NotIn", "values": ["a"]}, {"k": "a"}, False),
    ({"operator": "Exists"}, {"k": ""}, True), ({"operator": "Exists"}, {}, False),
    ({"operator": "DoesNotExist"}, {}, True),
    ({"operator": "DoesNotExist"}, {"k": "a"}, False),
])  # fmt: skip
def test_a_selector_selects_as_kubernetes_says(
    requirement: dict[str, Any], labels: dict[str, str], selected: bool
) -> None:
    text = json.dumps({"matchExpressions": [{"key": "k", **requirement}]})
    selector = msgspec.json.decode(text, type=Selector)
    assert selector.selects(labels) is selected
    assert structs.replace(selector, match_labels={"x": "y"}).selects(labels) is False


@pytest.mark.parametrize(
    ("place", "where"),
    [({}, " on node node-0-3"), ({"spec": {"nodeName": None}, "status": COMING}, "")],
)
def test_a_pod_that_a_finalizer_holds_is_reported_with_it(place: Object, where: str) -> None:
    meta = {"deletionTimestamp": instant(120), "finalizers": ["example.com/held"]}
    scene = Scene().changed(HOST, metadata=meta, **place)
    (problem,) = [each for each in scene.examined().every_problem if "stuck" in each.id]
    assert problem.message == (
        f"llama-tpu-worker-0-3 is still Terminating{where}, and KubeRay waits for it: "
        "example.com/held is not removed"
    )
    assert problem.command == "kubectl get pod -n team llama-tpu-worker-0-3 -o yaml"
    scene.changed(HOST, metadata={"deletionTimestamp": instant(-60)})
    assert "pod-stuck-terminating" not in scene.ids()


def test_a_pod_on_a_lost_node_holds_up_the_deletion_of_its_raycluster() -> None:
    scene = Scene().changed(
        HOST, metadata={"deletionTimestamp": instant(4000), "deletionGracePeriodSeconds": 30}
    )
    finalizers = ["foregroundDeletion"]
    scene.cluster["metadata"] |= {"deletionTimestamp": instant(5000), "finalizers": finalizers}
    found = {each.id: each for each in scene.examined().every_problem}
    assert set(found) == {"pod-stuck-terminating", "deletion-blocked"}
    assert "node node-0-3, and the deletion waits" in found["pod-stuck-terminating"].message
    assert found["deletion-blocked"].command == "kubectl get pods -n team -l ray.io/cluster=llama"
    finalizers.append("example.com/held")
    (problem,) = [each for each in scene.examined().every_problem if each.id == "deletion-blocked"]
    assert problem.command == "kubectl get raycluster -n team llama -o yaml"


def test_pods_that_have_lost_the_label_of_their_group_are_distinguished() -> None:
    scene = Scene(llama(replicas=3))
    pods = hosts_of(2)
    scene.changed(*pods, metadata={"labels": {names.LABEL_GROUP: None}})
    scene.changed(pods[3], metadata={"labels": {names.LABEL_GROUP: "former"}})
    scene.cluster["spec"]["workerGroupSpecs"][0]["replicas"] = 2
    removed, none = scene.examined().every_problem
    assert removed.message.startswith("1 pod of former, which is no worker group of the RayCluster")
    assert none.message.startswith("3 pods without the label ray.io/group: KubeRay does not manage")
    assert none.remedy == "delete them"
    assert none.pods == (*pods[:3],)


def test_replicas_of_a_group_whose_number_of_hosts_grew_are_found() -> None:
    scene = Scene(llama(replicas=1))
    scene.cluster["spec"]["workerGroupSpecs"][0]["numOfHosts"] = 8
    change = {"manager": "kubectl", "time": CREATED, "fieldsV1": {"f:spec": {"f:x": {}}}}
    scene.cluster["metadata"]["managedFields"] = [change]  # in the same second as the pods
    (found,) = (each for each in scene.examined().every_problem if each.id == "hosts-changed")
    assert (
        "another numOfHosts than 8: llama-tpu-worker-0-0 has TPU_WORKER_HOSTNAMES=" in found.message
    )


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


GOOGLE_HOST = "llama-tpu-worker-1"


@pytest.mark.parametrize(("change", "problem"), [
    (lambda scene: scene.with_env(GOOGLE_HOST, TPU_WORKER_ID="0"), "identity-duplicate"),
    (lambda scene: scene.changed(GOOGLE_HOST, metadata={"labels": {"replicaIndex": None}}),
     "pod-without-identity"),
    (lambda scene: scene.changed(GOOGLE_HOST, spec={"hostname": "tpu-7-1"}), "hostname-differs"),
    (lambda scene: scene.with_env(GOOGLE_HOST, TPU_WORKER_HOSTNAMES="tpu-0-0.llama-headless"),
     "hosts-changed"),
])  # fmt: skip
def test_a_pod_without_adoption_is_a_problem(
    change: Callable[[Scene], Scene], problem: str
) -> None:
    assert problem in change(a_google_scene()).ids()
