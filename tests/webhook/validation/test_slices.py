"""Sub-slices, slices that Kueue forms, and clusters in a queue of Kueue."""

import math
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
from webhook.validation.finding import DENY, WARN
from webhook.validation.rule_settings import RuleSettings
from webhook.validation.ruleset import check, check_update

GROUP = "spec.workerGroupSpecs[0]"
ANNOTATION = f"{GROUP}.template.metadata.annotations[{names.ANNOTATION_SLICE_TOPOLOGY}]"
SELECTOR = f"{GROUP}.template.spec.nodeSelector"
KEY = "cloud.google.com/gce-topology-subblock"


def a_part(part: str, whole: str, hosts: int) -> ClusterBuilder:
    """Return a cluster with a group of sub-slices whose hosts are kept together."""
    cluster = a_cluster().annotated(names.ANNOTATION_TOPOLOGY_KEY, KEY).group(hosts=hosts)
    return cluster.tpu(whole, 4).pod_annotation(names.ANNOTATION_SLICE_TOPOLOGY, part)


TPU = "google.com/tpu"
SUB_SLICES: dict[str, tuple[ClusterBuilder, set[tuple[str, str]]]] = {
    "of the whole size": (a_part("4x4", "4x4", 4), set()),
    "of a large slice": (a_part("4x8", "16x16", 8), set()),
    "kept together, with one host": (a_part("2x2", "2x4", 1),
     {("annotation-without-effect", f"metadata.annotations[{names.ANNOTATION_TOPOLOGY_KEY}]")}),
    "with other hosts": (a_part("2x4", "4x4", 4),
     {("tpu-topology-mismatch", f"{GROUP}.numOfHosts")}),
    "that cannot be read": (a_part("2x", "4x4", 2), {("tpu-topology-mismatch", ANNOTATION)}),
    "of what cannot be read": (a_part("2x4", "4x", 2),
     {("tpu-subslice-larger", f"{SELECTOR}[{names.NODE_TPU_TOPOLOGY}]")}),
    "with one host": (a_cluster().group().tpu("2x4", 4)
     .pod_annotation(names.ANNOTATION_SLICE_TOPOLOGY, "2x2"), set()),
    "without TPUs": (a_cluster().group(hosts=2)
     .pod_annotation(names.ANNOTATION_SLICE_TOPOLOGY, "nonsense"), set()),
    "without checks": (a_part("4x4", "2x8", 3)
     .pod_annotation(names.ANNOTATION_SKIP_TPU_CHECK, "true"), set()),
    "without selectors": (a_cluster().group().device(TPU, 4),
     {("tpu-node-selector-missing", f"{SELECTOR}[{label}]")
      for label in (names.NODE_TPU_ACCELERATOR, names.NODE_TPU_TOPOLOGY)}),
    "without checks and selectors": (a_cluster().group().device(TPU, 4)
     .pod_annotation(names.ANNOTATION_SKIP_TPU_CHECK, "true"), set()),
}  # fmt: skip


@pytest.mark.parametrize(("built", "expected"), SUB_SLICES.values(), ids=SUB_SLICES)
def test_a_sub_slice(built: ClusterBuilder, expected: set[tuple[str, str]]) -> None:
    assert found(built) == expected
    behind = {(rule, path.replace("[0]", "[1]", 1)) for rule, path in expected if "[0]" in path}
    for other, _ in SUB_SLICES.values():
        cluster = built.build()
        (group,) = other.build()["spec"]["workerGroupSpecs"]
        cluster["spec"]["workerGroupSpecs"].insert(0, {**group, "groupName": "first"})
        assert behind <= {(each.rule, each.path) for each in check("RayCluster", cluster)}


def a_dynamic_slice(hosts: int = 4) -> ClusterBuilder:
    """Return a cluster with slices of v7x that no node has before Kueue chose the nodes."""
    cluster = a_cluster().label(names.LABEL_KUEUE_QUEUE, "tpus")
    cluster.group(hosts=hosts).device(TPU, 4)
    return cluster.pod(nodeSelector={names.NODE_TPU_ACCELERATOR: "tpu7x"})


def test_a_slice_that_kueue_forms_selects_no_topology() -> None:
    cluster = a_dynamic_slice().pod_annotation(names.KUEUE_SLICE_SIZE, "4")
    level = "cloud.google.com/gke-tpu-partition-2x2x4-id"
    assert found(cluster.pod_annotation(names.KUEUE_SLICE_REQUIRED_TOPOLOGY, level)) == set()


def test_a_slice_in_a_queue_that_an_annotation_names_selects_no_topology_either() -> None:
    whole, half = (
        a_dynamic_slice(hosts).pod_annotation(names.ANNOTATION_SLICE_TOPOLOGY, "2x2x4")
        for hosts in (4, 2)
    )
    assert "tpu-node-selector-missing" not in rules(whole)
    assert ("tpu-topology-mismatch", f"{GROUP}.numOfHosts") in found(half)


@pytest.mark.parametrize("hosts", [1, 4])
@pytest.mark.parametrize("embed", [lambda cluster: cluster, a_job, a_service])
def test_a_flavor_makes_it_a_warning(embed: Callable[[ClusterBuilder], Built], hosts: int) -> None:
    cluster = a_cluster().group(hosts=hosts).device("google.com/tpu", 4)
    queued = embed(cluster).label(names.LABEL_KUEUE_QUEUE, "tpus")
    selectors = findings(queued, "tpu-node-selector-missing")
    assert [each.level for each in selectors] == [WARN, WARN]


@pytest.mark.parametrize(("number", "text"), [("2", ""), ("3", "have 2 replicas in all")])
def test_groups_that_make_up_a_job_together_are_counted_together(number: str, text: str) -> None:
    cluster = a_cluster()
    for name in ("a", "b"):
        cluster.group(name, hosts=4).tpu("4x4", 4).env("MEGASCALE_NUM_SLICES", number)
    listed = findings(cluster, "slice-count-mismatch")
    assert len(listed) == (2 if text else 0)
    assert all(text in each.message and "groups a to b" in each.message for each in listed)


def several(replicas: int, least: int = 0) -> ClusterBuilder:
    cluster = a_cluster().group(hosts=4, replicas=replicas, minReplicas=least).tpu("4x4", 4)
    return cluster.env("MEGASCALE_NUM_SLICES", "3")


@pytest.mark.parametrize("settings", [RuleSettings(), RuleSettings({"slices-renumbered": DENY})])
def test_scaling_a_job_of_several_slices_down_is_warned_of(settings: RuleSettings) -> None:
    warned = {(WARN, "slices-renumbered", f"{GROUP}.replicas")}
    assert found_in_update(several(3), several(2), settings) == warned


@pytest.mark.parametrize(("old", "new"), [
    (several(2), several(3)), (several(3), several(0)), (several(3, least=3), several(2, least=3)),
    (a_cluster().group(replicas=3), a_cluster().group(replicas=2)),
])  # fmt: skip
def test_any_other_scale_leaves_no_slice_behind(old: ClusterBuilder, new: ClusterBuilder) -> None:
    assert found_in_update(old, new) == set()


@pytest.mark.parametrize(("selector", "hosts", "label", "advice"), [
    ({"accelerator": "tpu-v6e-slice"}, 4, "topology", "add 2x8 or 4x4"),
    ({"topology": "2x2x4"}, 4, "accelerator", "add tpu-v4-podslice or tpu-v5p-slice"),
    ({"topology": "9x9"}, 4, "accelerator", "no value is known for 4 x 4 chips"),
    ({"topology": "2x4"}, 2, "accelerator", "add tpu-v5-lite-podslice or tpu-v6e-slice"),
    ({"topology": "2x2"}, 1, "accelerator", "add tpu-v5-lite-device or tpu-v5-lite-podslice"),
])  # fmt: skip
def test_a_missing_selector_is_offered(
    selector: dict[str, str], hosts: int, label: str, advice: str
) -> None:
    labels = {f"cloud.google.com/gke-tpu-{name}": value for name, value in selector.items()}
    cluster = a_cluster().group(hosts=hosts).device("google.com/tpu", 4).pod(nodeSelector=labels)
    (finding,) = findings(cluster, "tpu-node-selector-missing")
    assert finding.message == f"nodeSelector lacks gke-tpu-{label}: {advice}"


@pytest.mark.parametrize(("topology", "hosts", "advice"), [
    ("2x2", 4, "set it to 1, or use topology 2x8 or 4x4"),
    ("4x4", 3, "set it to 4, or change the topology"),
])  # fmt: skip
def test_a_topology_mismatch_offers_both_sides(topology: str, hosts: int, advice: str) -> None:
    cluster = a_cluster().group(hosts=hosts).tpu(topology, 4)
    (finding,) = findings(cluster, "tpu-topology-mismatch")
    assert finding.message.endswith(advice)


@pytest.mark.parametrize(("topology", "hosts", "accelerator", "message"), [
    ("2x4", 2, "tpu-v5p-slice",
     "TPU v5p has 3 dimensions, so no node has 2x4: use topology 2x2x2"),
    ("1x2x4", 2, "tpu-v6e-slice",
     "TPU v6e has 2 dimensions, so no node has 1x2x4: use topology 2x4"),
    ("3x4", 3, "tpu7x", "TPU tpu7x has 3 dimensions, so no node has 3x4: write 3 numbers"),
    ("4x4x12", 48, "tpu7x",
     "slice_placement_group of Ray refuses 4x4x12 of TPU tpu7x, and nothing else does"),
])  # fmt: skip
def test_a_topology_that_no_node_has_or_that_ray_does_not_list(
    topology: str, hosts: int, accelerator: str, message: str
) -> None:
    cluster = a_cluster().group(hosts=hosts).tpu(topology, 4, accelerator)
    assert [finding.message for finding in findings(cluster)] == [message]


@pytest.mark.parametrize("topology", ["16x4x4", "4x16x4", "4x4x24"])
def test_the_largest_dimensions_that_ray_lists(topology: str) -> None:
    hosts = math.prod(map(int, topology.split("x"))) // 4
    cluster = a_cluster().group(hosts=hosts).tpu(topology, 4, "tpu-v5p-slice")
    assert findings(cluster, "tpu-topology-unlisted") == []


def test_neuron_cores_do_not_count_in_a_group_of_fixed_size() -> None:
    cluster = a_cluster().autoscaled().group(replicas=2, minReplicas=2, maxReplicas=2)
    assert "neuron-cores-missing" not in rules(cluster.device("aws.amazon.com/neuron", 16))


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
    "slices of 20 hosts": (a_queued(size="020"), set()),
    "slices of all hosts that Kueue can count": (a_queued(1, "2147483647"), set()),
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


@pytest.mark.parametrize("size", ["0", "1", "3", "-2", "two", "", "9" * 30, " 2", "2147483648"])
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
