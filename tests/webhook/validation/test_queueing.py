"""Clusters in a queue of Kueue: its changes are allowed, and its refusals reported first."""

from collections.abc import Callable

import pytest

from tests.harness.ray_objects import (
    Built,
    ClusterBuilder,
    Json,
    a_cluster,
    a_job,
    a_service,
    findings,
    found,
    found_in_update,
    rules,
)
from webhook.api import names
from webhook.validation.finding import WARN
from webhook.validation.ruleset import check, check_update

LEVEL = "cloud.google.com/gce-topology-block"


def a_queued(hosts: int = 2, size: str = "2", replicas: int = 1) -> ClusterBuilder:
    """Return a RayCluster that waits for Kueue, with a group whose replicas it keeps together."""
    cluster = a_cluster().label(names.LABEL_KUEUE_QUEUE, "tpus").spec(suspend=True)
    cluster.group(hosts=hosts, replicas=replicas).pod_annotation(names.KUEUE_SLICE_SIZE, size)
    return cluster.pod_annotation(names.KUEUE_SLICE_REQUIRED_TOPOLOGY, LEVEL)


def admitted(value: Json) -> Json:
    """Write what Kueue writes when it admits an object; of a RayService it suspends the cluster."""
    spec = value["spec"]
    cluster = spec.get("rayClusterSpec") or spec.get("rayClusterConfig") or spec
    (spec if value["kind"] != "RayService" else cluster)["suspend"] = False
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        metadata = group["template"].setdefault("metadata", {})
        metadata.setdefault("labels", {})["kueue.x-k8s.io/podset"] = "workers"
        metadata.setdefault("annotations", {})["kueue.x-k8s.io/workload"] = "raycluster-demo-12345"
        pod = group["template"]["spec"]
        pod["schedulingGates"] = [{"name": names.KUEUE_GATE_TOPOLOGY}]
        pod["tolerations"] = [{"key": "google.com/tpu", "operator": "Exists"}]
        pod.setdefault("nodeSelector", {})["pool"] = "tpus"
    return value


def test_kueue_refuses_a_job_with_a_cluster_and_a_selector() -> None:
    queued = a_job(a_cluster().label(names.LABEL_KUEUE_QUEUE, "tpus"))
    queued.label(names.LABEL_KUEUE_QUEUE, "tpus").spec(clusterSelector={"ray.io/cluster": "a"})
    assert [finding.path for finding in findings(queued, "kueue-job-not-shut-down")] == [
        "spec.clusterSelector"
    ]


@pytest.mark.parametrize("embed", [lambda cluster: cluster, a_job, a_service])
def test_edits_of_kueue_are_no_new_problem(embed: Callable[[ClusterBuilder], Built]) -> None:
    waiting = embed(a_queued()).label(names.LABEL_KUEUE_QUEUE, "tpus")
    if waiting.kind != "RayService":
        waiting.spec(suspend=True)
    running = admitted(waiting.build())
    assert check_update(waiting.kind, waiting.build(), running) == []
    assert check_update(waiting.kind, running, waiting.build()) == []


def test_kueue_is_not_denied_even_if_the_nodes_that_it_chose_do_not_add_up() -> None:
    waiting = a_queued(hosts=4, size="4").device("google.com/tpu", 4)
    waiting.pod(nodeSelector={names.NODE_TPU_ACCELERATOR: "tpu7x"})
    running = admitted(waiting.build())
    pod = running["spec"]["workerGroupSpecs"][0]["template"]["spec"]
    pod["nodeSelector"][names.NODE_TPU_TOPOLOGY] = "4x4x4"
    assert found(running) == {("tpu-topology-mismatch", "spec.workerGroupSpecs[0].numOfHosts")}
    assert found_in_update(waiting, running) == set()


def _more_hosts(value: Json) -> None:
    value["spec"]["workerGroupSpecs"][0]["numOfHosts"] = 0


def _without_queue(value: Json) -> None:
    del value["metadata"]["labels"]
    _more_hosts(value)


def _still_waiting(value: Json) -> None:
    value["spec"]["suspend"] = True
    value["spec"]["headGroupSpec"]["template"]["spec"]["containers"] = []


def _identified(value: Json) -> None:
    labels = value["spec"]["workerGroupSpecs"][0]["template"]["metadata"]["labels"]
    labels[names.LABEL_REPLICA_INDEX] = "0"


@pytest.mark.parametrize("change", [_more_hosts, _without_queue, _still_waiting, _identified])
def test_any_other_change_is_looked_at(change: Callable[[Json], None]) -> None:
    value = admitted(a_queued().build())
    change(value)
    assert {level for level, _, _ in found_in_update(a_queued(), value)} == {"deny"}


def test_a_queued_cluster_that_runs_gets_no_word_about_what_kueue_adds_to_its_templates() -> None:
    running = a_queued().spec(suspend=False)
    later = running.build()
    later["spec"]["workerGroupSpecs"][0]["template"]["metadata"]["annotations"][
        "kueue.x-k8s.io/workload-slice-name"
    ] = "x"
    assert found_in_update(running, later) == set()
    later["spec"]["workerGroupSpecs"][0]["template"]["spec"]["priorityClassName"] = "high"
    assert {rule for _, rule, _ in found_in_update(running, later)} == {"pods-stay-old"}


def in_queue() -> ClusterBuilder:
    return a_cluster().label(names.LABEL_KUEUE_QUEUE, "q")


ELASTIC = names.KUEUE_PREFIX + "elastic-job"
GATES = [{"name": ELASTIC}]
QUEUED: dict[str, tuple[ClusterBuilder, set[str]]] = {
    "an elastic job and its gate": (a_queued().annotated(ELASTIC, "true")
     .pod(schedulingGates=GATES).head_pod(schedulingGates=GATES), set()),
    "slices of 20 hosts": (a_queued(size="20"), set()),
    "single hosts": (in_queue().group(), set()),
    "hosts that are all kept together": (in_queue().group(hosts=2)
     .pod_annotation(names.KUEUE_REQUIRED_TOPOLOGY, LEVEL), set()),
    "0 replicas": (in_queue().group(hosts=2, replicas=0), set()),
    "replicas of one domain": (a_queued(size="4", replicas=2), set()),
    "a group named head without a queue": (a_cluster().group("head"), set()),
}  # fmt: skip


@pytest.mark.parametrize(("cluster", "expected"), QUEUED.values(), ids=QUEUED)
def test_queues_need_slices_of_whole_replicas(cluster: ClusterBuilder, expected: set[str]) -> None:
    assert rules(cluster) == expected


@pytest.mark.parametrize("size", ["0", "1", "3", "-2", "two", "", "9" * 30, " 2"])
def test_a_slice_that_cuts_a_replica_is_denied(size: str) -> None:
    field = f"spec.workerGroupSpecs[0].template.metadata.annotations[{names.KUEUE_SLICE_SIZE}]"
    assert found(a_queued(size=size)) == {("kueue-slice-size", field)}


def test_without_a_queue_the_size_of_a_slice_has_no_effect_yet() -> None:
    cluster = a_cluster().group(hosts=2).pod_annotation(names.KUEUE_SLICE_SIZE, "3")
    (finding,) = findings(cluster)
    assert (finding.rule, finding.level) == ("kueue-slice-size", WARN)


@pytest.mark.parametrize("embed", [lambda cluster: cluster, a_job, a_service])
def test_work_of_another_cluster_is_warned_of(embed: Callable[[ClusterBuilder], Built]) -> None:
    valid, broken = embed(a_cluster().group()), embed(a_cluster().group(hosts=0))
    elsewhere = broken.spec(managedBy="kueue.x-k8s.io/multikueue").build()
    assert {each.level for each in check(broken.kind, elsewhere)} == {"warn"}
    assert "deny" not in {level for level, _, _ in found_in_update(valid, elsewhere)}
    here = broken.spec(managedBy="ray.io/kuberay-operator").build()
    assert "deny" in {each.level for each in check(broken.kind, here)}


def test_what_stops_kuberay_is_denied_under_multikueue_too() -> None:
    cluster = a_cluster().group(replicas=10**10).spec(managedBy="kueue.x-k8s.io/multikueue")
    denied = [each.rule for each in findings(cluster) if each.level == "deny"]
    assert denied == ["value-not-decodable"]
