"""Worker groups, devices and slices: cases in addition to the examples."""

from collections.abc import Callable

import pytest

from tests.harness.ray_objects import (
    Built,
    ClusterBuilder,
    Json,
    a_cluster,
    a_cron_job,
    a_job,
    a_service,
    findings,
    found,
    rules,
)
from webhook.validation.finding import DENY, WARN
from webhook.validation.ruleset import check_file

GROUP = "spec.workerGroupSpecs[0]"
POD = f"{GROUP}.template.spec"
TOPOLOGY = f"{POD}.nodeSelector[cloud.google.com/gke-tpu-topology]"


def single_host_slices() -> ClusterBuilder:
    return a_cluster().group(replicas=2).tpu("2x4", 8).env("MEGASCALE_NUM_SLICES", "2")


CASES: dict[str, tuple[Built, set[tuple[str, str]]]] = {
    "a RayService with its own path and annotations": (
        a_service(a_cluster().group(hosts=0)).annotated("ray.io/ippr", "[]"),
        {("num-of-hosts-invalid", "spec.rayClusterConfig.workerGroupSpecs[0].numOfHosts"),
         ("ippr-malformed", "metadata.annotations[ray.io/ippr]")}),
    "a RayCronJob, whose annotations are not copied": (
        a_cron_job(a_job(a_cluster().group(hosts=0)).spec(backoffLimit=-1))
        .annotated("ray.io/ippr", "[]"),
        {("job-number-not-positive", "spec.jobTemplate.backoffLimit"), ("num-of-hosts-invalid",
         "spec.jobTemplate.rayClusterSpec.workerGroupSpecs[0].numOfHosts")}),
    "the least numbers of a job": (
        a_job().spec(activeDeadlineSeconds=1, preRunningDeadlineSeconds=1, backoffLimit=0), set()),
    "an underscore that KubeRay cuts out of the pod's name": (
        a_cluster("c" * 50).group("under_score"), set()),
    "a name that is too long behind one that fits": (
        a_cluster().group("fits", hosts=2).group("a" * 58, hosts=2),
        {("group-name-no-host-name", "spec.workerGroupSpecs[1].groupName")}),
    "a dot in a label": (a_cluster().group("v1.2"), set()),
    "a dot in the name of a group with slices and without TPUs": (
        a_cluster().group("v1.2").env("MEGASCALE_NUM_SLICES", "2"), set()),
    "a dot in a host name": (
        a_cluster().group("v1.2", hosts=2), {("group-name-no-host-name", f"{GROUP}.groupName")}),
    "a generated name that fits with its suffix": (
        a_cluster().meta(name=None, generateName="a" * 48), set()),
    "a generated name that does not": (
        a_cluster().meta(name=None, generateName="a" * 49),
        {("name-too-long", "metadata.generateName")}),
    "chips that do not divide over hosts": (
        a_cluster().group(hosts=2).tpu("2x4", 3), {("tpu-topology-mismatch", TOPOLOGY)}),
    "chips that do not divide, behind a slice without a topology": (
        a_cluster().group(hosts=2).device("google.com/tpu", 4).group("b", hosts=2).tpu("2x4", 3),
        {("tpu-node-selector-missing", TOPOLOGY),
         ("tpu-node-selector-missing", TOPOLOGY.replace("topology", "accelerator")),
         ("tpu-topology-mismatch", TOPOLOGY.replace("[0]", "[1]"))}),
    "chips of several containers": (
        a_cluster().group().tpu("2x4", 4).sidecar(resources={"limits": {"google.com/tpu": 4}}),
        {("device-outside-first-container",
          f"{POD}.containers[1].resources.limits[google.com/tpu]")}),
    "an identity in an init container": (
        a_cluster().group(hosts=2).tpu("2x4", 4)
        .init(env=[{"name": "TPU_WORKER_ID", "value": "1"}]),
        {("identity-by-hand", f"{POD}.initContainers[0].env[0].value")}),
    "an identity of a single host": (
        a_cluster().group().tpu("2x4", 8).env("TPU_WORKER_ID", "0").env("NODE_RANK", "0"), set()),
    "a host name of several hosts": (
        a_cluster().group(hosts=4).pod(hostname="mine"),
        {("identity-by-hand", f"{POD}.hostname")}),
    "a host name of a single host": (a_cluster().group().pod(hostname="mine"), set()),
    "slices of single hosts without a headless service": (
        single_host_slices(), {("multi-slice-unreachable", f"{POD}.containers[0].env[0].value")}),
    "slices of single hosts beside a multi-host group": (
        single_host_slices().group("other", hosts=2), set()),
    "an address of Ray in a worker": (a_cluster().group().env("RAY_ADDRESS", "elsewhere"),
     {("variable-replaces-kuberay", f"{POD}.containers[0].env[0].name")}),
    "a duplicate of a reserved name": (a_cluster().group("headgroup").group("headgroup"), {
        ("group-name-duplicate", "spec.workerGroupSpecs[1].groupName"),
        *(("group-name-reserved", f"spec.workerGroupSpecs[{index}].groupName") for index in (0, 1)),
    }),
    **{
        f"{hosts} hosts": (a_cluster().group(hosts=hosts),
         {("num-of-hosts-invalid", f"{GROUP}.numOfHosts")}) for hosts in (-1, 4097)
    },
    **{
        f"group {name!r}": (a_cluster().group(name), {("group-name-invalid", f"{GROUP}.groupName")})
        for name in ("a" * 64, "-a", "a-", "a b", "a/b", "ä", "under_score")
    },
    **{
        f"{number!r} slices": (
            a_cluster().group(hosts=4).tpu("4x4", 4).env("MEGASCALE_NUM_SLICES", number),
            {("slice-count-mismatch", f"{POD}.containers[0].env[0].value")} if number else set())
        for number in ("x", "")
    },
    **{
        f"Ray {text!r}": (a_cluster().spec(rayVersion=text).group(),
         {("ray-version-unreadable", "spec.rayVersion")} if text == "2" else set())
        for text in ("2", "v2.55.1", "2.55", "")
    },
}  # fmt: skip


@pytest.mark.parametrize(("built", "expected"), CASES.values(), ids=CASES)
def test_a_spec_has_these_findings(built: Built, expected: set[tuple[str, str]]) -> None:
    assert found(built) == expected


def test_kuberay_takes_a_single_group_of_one_host_without_a_name() -> None:
    wrong = {("group-name-invalid", f"{GROUP}.groupName")}
    assert found(a_cluster().group("")) == set()
    assert wrong <= found(a_cluster().group("", hosts=2))
    assert wrong <= found(a_cluster().group("").group("other"))


@pytest.mark.parametrize(("length", "hosts", "replicas", "fits"), [
    (57, 2, 10, True), (58, 2, 10, False), (57, 2, 1001, False),
    (57, 10, 101, True), (57, 11, 101, False),
])  # fmt: skip
def test_a_name_fits_the_largest_index(length: int, hosts: int, replicas: int, fits: bool) -> None:
    expected = set() if fits else {("group-name-no-host-name", f"{GROUP}.groupName")}
    assert found(a_cluster().group("a" * length, hosts=hosts, maxReplicas=replicas)) == expected


@pytest.mark.parametrize(
    "topology", ["", "4", "4X4", "4x4x4x4", "0x4", "4x-1", " 4x4", "4x4 ", "4x4\n"]
)
def test_a_topology_that_cannot_be_read_is_reported_where_it_stands(topology: str) -> None:
    listed = found(a_cluster().group(hosts=4).tpu(topology, 4))
    rule = "tpu-topology-mismatch" if topology else "tpu-node-selector-missing"
    # The other rule reports what is no label value
    assert {each for each, path in listed if path == TOPOLOGY} - {"pod-placement-invalid"} == {rule}


@pytest.mark.parametrize(("first", "second", "hosts", "refused"), [
    ("TPU", "tpu", 2, True), ("g" * 63 + "a", "g" * 63 + "b", 2, True),
    ("g" * 56 + "a", "g" * 56 + "b", 2, False), ("TPU", "tpu", 1, False),
])  # fmt: skip
def test_groups_share_no_host_names(first: str, second: str, hosts: int, refused: bool) -> None:
    cluster = a_cluster().group(first, hosts=hosts).group(second, hosts=hosts)
    assert ("group-host-names-duplicate" in rules(cluster)) == refused


@pytest.mark.parametrize(("chips", "fields", "fits"), [
    (4, {}, True),  # it borrows those of the containers
    (8, {}, False),
    (4, {"restartPolicy": "Always"}, False),  # a sidecar adds its own
])  # fmt: skip
def test_chips_of_a_greater_init_container_count(chips: int, fields: Json, fits: bool) -> None:
    cluster = a_cluster().group(hosts=2).tpu("2x4", 4)
    cluster.init(resources={"limits": {"google.com/tpu": chips}}, **fields)
    wrong = {("tpu-topology-mismatch", f"{GROUP}.numOfHosts")}
    assert found(cluster) == (set() if fits else wrong)


@pytest.mark.parametrize(("resources", "rule", "kind"), [
    ({"limits": {"nvidia.com/gpu": "0.5"}}, "pod-quantity-invalid", "limits"),
    ({"requests": {"nvidia.com/gpu": 1}}, "pod-limit-invalid", "requests"),
])  # fmt: skip
def test_devices_of_init_containers_are_checked(resources: Json, rule: str, kind: str) -> None:
    cluster = a_cluster().group().device("nvidia.com/gpu", 2).init(resources=resources)
    assert found(cluster) == {(rule, f"{POD}.initContainers[0].resources.{kind}[nvidia.com/gpu]")}


@pytest.mark.parametrize(("hosts", "number", "profiles", "warned"), [
    (2, "4", "", True), (2, "2", "", False), (2, "", "", False), (1, "4", "", False),
    (2, "4", "none", False), (2, "2:4", "", False), (2, "1:2", "", False), (2, "3:4", "", True),
    (2, "$(HOSTS)", "", False), (2, "two", "", True), (2, "2:", "", False), (2, ":2", "", True),
])  # fmt: skip
@pytest.mark.parametrize("name", ["NNODES", "PET_NNODES"])
@pytest.mark.parametrize("build", [lambda cluster: cluster, a_job, a_service])
def test_another_number_of_hosts_in_the_template_is_wrong_in_every_kind(
    build: Callable[[ClusterBuilder], Built],
    hosts: int,
    number: str,
    profiles: str,
    name: str,
    warned: bool,
) -> None:
    cluster = a_cluster().group(hosts=hosts).device("nvidia.com/gpu", 8).env(name, number)
    built = build(cluster).annotated("admission.ray.io/profiles", profiles)
    path = ".env[0].value"
    paths = [finding.path for finding in findings(built, "identity-by-hand")]
    assert [each.endswith(path) for each in paths] == ([True] if warned else [])


@pytest.mark.parametrize(("accelerator", "near"), [
    ("tpu-v4", "tpu-v4-podslice"), ("tpu_v4_podslice", "tpu-v4-podslice"),
    ("v6e-slice", "tpu-v6e-slice"), ("TPU-V5P", "tpu-v5p-slice"), ("tpu-v7x", "tpu7x"),
    ("tpu_7x", "tpu7x"), ("tpu-v9-slice", ""), ("tpu-v6e-slice", ""), ("tpu7x", ""), ("v100", ""),
])  # fmt: skip
def test_accelerators_that_are_nearly_one_of_tpus(accelerator: str, near: str) -> None:
    cluster = a_cluster().group().tpu("2x2", 4, accelerator)
    messages = [finding.message for finding in findings(cluster, "accelerator-unknown")]
    assert [message.rpartition(" ")[2] for message in messages] == ([f"{near}?"] if near else [])


def selecting(accelerators: list[str]) -> ClusterBuilder:
    """Return a cluster with a group of GPUs on any of these accelerators."""
    key = "cloud.google.com/gke-accelerator"
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": accelerators}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return a_cluster().group().pod(affinity={"nodeAffinity": required}).device("nvidia.com/gpu", 1)


@pytest.mark.parametrize(("accelerator", "near"), [
    ("nvidia-h200", "nvidia-h200-141gb"), ("nvidia_l4", "nvidia-l4"), ("nvidia-b200", ""),
    ("NVIDIA-TESLA-T4", "nvidia-tesla-t4"), ("nvidia-x1", ""), ("mine", ""),
    ("nvidia-a100", "nvidia-tesla-a100 or nvidia-a100-80gb"), ("tesla-t4", "nvidia-tesla-t4"),
    ("nvidia-tesla-a100-80gb", "nvidia-a100-80gb"), ("nvidia-a100-40gb", "nvidia-tesla-a100"),
    ("H100", "nvidia-h100-80gb or nvidia-h100-mega-80gb"), ("nvidia-l40s", ""), ("nvidia", ""),
    ("nvidia-", ""), ("t", ""),
])  # fmt: skip
@pytest.mark.parametrize("build", [lambda cluster: cluster, a_job, a_service])
def test_accelerators_in_a_required_affinity_are_checked_too(
    build: Callable[[ClusterBuilder], Built], accelerator: str, near: str
) -> None:
    listed = findings(build(selecting([accelerator])), "accelerator-unknown")
    messages = [finding.message for finding in listed]
    meant = [message.partition("did you mean ")[2] for message in messages]
    assert meant == ([f"{near}?"] if near else [])


@pytest.mark.parametrize(("resource", "near"), [
    ("aws.amazon.com/neuroncores", "aws.amazon.com/neuroncore"),
    ("google.com/TPU", "google.com/tpu"),
    ("aws.amazon.com/neuron-core", "aws.amazon.com/neuroncore"), ("nvidia/gpu", "nvidia.com/gpu"),
    ("nvdia.com/gpu", "nvidia.com/gpu"), ("cloud.google.com/tpu", "google.com/tpu"),
    ("aws.amazon.com/efa", "vpc.amazonaws.com/efa"), ("amd.com/gpus", "amd.com/gpu"),
    *((resource, "") for resource in (
        "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "nvidia.com/pgpu", "nvidia.com/gpumem",
        "volcano.sh/vgpu-number", "amd.com/gpu", "gpu.intel.com/i915", "aliyun.com/gpu-mem",
        "metax-tech.com/gpu", "iluvatar.com/gpu", "baidu.com/gpu", "arm.com/gpu", "rdma/ib",
        "cloud-tpus.google.com/v2", "aws.amazon.com/neurondevice", "example.com/tpu", "memory",
    )),
])  # fmt: skip
def test_resources_that_are_nearly_one_of_a_device_plugin(resource: str, near: str) -> None:
    cluster = a_cluster().group().device(resource, 1)
    messages = [finding.message for finding in findings(cluster, "accelerator-unknown")]
    assert [message.rpartition(" ")[2] for message in messages] == ([f"{near}?"] if near else [])


@pytest.mark.parametrize(("resource", "variables", "at"), [
    ("amd.com/gpu", {"CUDA_VISIBLE_DEVICES": "0"}, "value"),
    ("amd.com/gpu", {"CUDA_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "1"}, "value"),
    ("amd.com/gpu", {"ROCR_VISIBLE_DEVICES": "0"}, "name"),
    ("amd.com/gpu", {"CUDA_VISIBLE_DEVICES": "0", "HIP_VISIBLE_DEVICES": "0"}, ""),
    ("nvidia.com/gpu", {"CUDA_VISIBLE_DEVICES": "0", "ROCR_VISIBLE_DEVICES": "0"}, ""),
])  # fmt: skip
def test_variables_that_ray_refuses_on_amd(
    resource: str, variables: dict[str, str], at: str
) -> None:
    cluster = a_cluster().group().device(resource, 1)
    for name, value in variables.items():
        cluster.env(name, value)
    paths = [finding.path for finding in findings(cluster, "amd-visible-devices")]
    assert [path.rpartition(".")[2] for path in paths] == [at] * bool(at)


@pytest.mark.parametrize(("values", "paths"), [
    (["nvidia-tesla-a100", "nvidia-a100"], []), (["nvidia-h100", "nvidia-h100-mega-80gb"], []),
    (["nvidia-l4", "nvidia-h100"], ["values[1]"]),
    (["nvidia-t4", "nvidia_l4"], ["values[0]", "values[1]"]),
])  # fmt: skip
def test_a_list_with_a_right_accelerator_is_fine(values: list[str], paths: list[str]) -> None:
    listed = [finding.path for finding in findings(selecting(values), "accelerator-unknown")]
    assert [path.rpartition(".")[2] for path in listed] == paths


@pytest.mark.parametrize(("hosts", "head", "profiles", "warned"), [
    (2, 8, "", True), (2, 4, "", False), (1, 8, "", False), (1, 8, "torchrun", True),
    (2, 8, "none", False),
])  # fmt: skip
def test_the_head_is_no_rendezvous_host(hosts: int, head: int, profiles: str, warned: bool) -> None:
    cluster = a_cluster().group(hosts=hosts).device("nvidia.com/gpu", 8)
    cluster.head_container(resources={"limits": {"nvidia.com/gpu": head}})
    for built, runs_jobs in ((a_job(cluster), True), (a_service(cluster), False), (cluster, True)):
        built.annotated("admission.ray.io/profiles", profiles)
        assert bool(findings(built, "head-not-counted")) is (warned and runs_jobs)
    serving = cluster.annotated("ray.io/enable-serve-service", "true")
    assert not findings(serving, "head-not-counted")


@pytest.mark.parametrize("fields", [
    {"rayStartParams": {"num-gpus": "0"}}, {"rayStartParams": {"num-gpus": "0.0"}},
    {"resources": {"GPU": "0"}},
])  # fmt: skip
@pytest.mark.parametrize("is_head", [True, False])
def test_no_job_runs_where_ray_offers_no_gpus(fields: Json, is_head: bool) -> None:
    cluster = a_cluster().group(hosts=2, **({} if is_head else fields))
    cluster.device("nvidia.com/gpu", 8)
    cluster.head_container(resources={"limits": {"nvidia.com/gpu": 8}})
    built = cluster.head(**fields) if is_head else cluster
    assert not findings(built, "head-not-counted")


LABELS_OF_PODS = [
    "ray.io/worker-group-replica-index", "ray.io/worker-group-replica-name",
    "ray.io/replica-host-index", "replicaIndex", "admission.ray.io/compute-domain",
    "admission.ray.io/marked-for-deletion",
]  # fmt: skip
OWNERS: dict[str, tuple[Callable[[ClusterBuilder], Built], str]] = {
    "RayCluster": (lambda cluster: cluster, "spec"),
    "RayJob": (a_job, "spec.rayClusterSpec"),
    "RayService": (a_service, "spec.rayClusterConfig"),
    "RayCronJob": (lambda cluster: a_cron_job(a_job(cluster)), "spec.jobTemplate.rayClusterSpec"),
}


@pytest.mark.parametrize("label", LABELS_OF_PODS)
@pytest.mark.parametrize("kind", OWNERS)
def test_no_template_has_an_identity_label(label: str, kind: str) -> None:
    cluster, labels = a_cluster().group(), {label: "x"}
    spec = cluster.value["spec"]
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        group["labels"] = labels
        group["template"]["metadata"] = {"labels": labels}
    owner, path = OWNERS[kind]
    assert {
        ("identity-label-in-template", f"{path}.{group}.{place}[{label}]")
        for group in ("headGroupSpec", "workerGroupSpecs[0]")
        for place in ("labels", "template.metadata.labels")
    } <= found(owner(cluster))


@pytest.mark.parametrize("label", LABELS_OF_PODS)
@pytest.mark.parametrize("cron", [False, True])
@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode"])
def test_no_template_of_a_submitter_has_one(label: str, mode: str, cron: bool) -> None:
    template = {
        "metadata": {"labels": {label: "x"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"},
    }
    job = a_job(a_cluster().group()).spec(submissionMode=mode, submitterPodTemplate=template)
    path = "spec.jobTemplate" if cron else "spec"
    place = f"{path}.submitterPodTemplate.metadata.labels[{label}]"
    built = a_cron_job(job) if cron else job
    assert ("identity-label-in-template", place) in found(built)


@pytest.mark.parametrize(("written", "suggested"), [
    ("num_cpus", "num-cpus"), ("--num-gpus", "num-gpus"),
    ("objectstore-memory", "object-store-memory"),
])  # fmt: skip
def test_a_misspelt_start_parameter_has_the_closest_one(written: str, suggested: str) -> None:
    (finding,) = findings(a_cluster().group(rayStartParams={written: "1"}))
    assert finding.rule == "ray-start-param-unknown"
    assert finding.message.endswith(f"write {suggested}")


@pytest.mark.parametrize(("selector", "hosts", "levels"), [
    ({}, 1, [WARN, DENY]),
    ({"cloud.google.com/gke-nodepool": "tpus"}, 1, [WARN, WARN]),
    ({"cloud.google.com/compute-class": "tpus"}, 1, [WARN, WARN]),
    ({"cloud.google.com/gke-nodepool": "tpus"}, 2, [WARN, DENY]),
    ({"cloud.google.com/gke-tpu-topology": "2x2x1"}, 1, [WARN]),
])  # fmt: skip
def test_a_pool_or_class_is_enough(selector: dict[str, str], hosts: int, levels: list[str]) -> None:
    cluster = a_cluster().group(hosts=hosts).device("google.com/tpu", 4).pod(nodeSelector=selector)
    listed = findings(cluster, "tpu-node-selector-missing")
    assert sorted(each.level for each in listed) == sorted(levels)


@pytest.mark.parametrize(("name", "text", "fine"), [
    ("num-gpus", "abc", False), ("num-cpus", "0.5", False), ("num-cpus", "4", True),
    ("num-cpus", '"4"', True), ("num-cpus", "$(nproc)", True), ("num-cpus", "${CPUS}", True),
    ("memory", "4Gi", False), ("memory", "4294967296", True),
    ("object-store-memory", "100Mi", False), ("port", "99999999", False), ("port", "6379", True),
    ("port", "-1", False), ("dashboard-port", "http", False), ("node-manager-port", "0", True),
    ("resources", '{"x": 1', False), ("resources", "'{\"x\": 1'", False),
    ("resources", '"[1]"', False), ("resources", '"{\\"x\\": 1.5}"', True),
    ("resources", "'{\"x\": 1}'", True), ("resources", '{"x": 1}', False),
    ("resources", '{"x":1}', False), ("resources", '"{"x": 1}"', False),
    ("resources", '{\\"x\\":1}', True), ("temp-dir", "/ray", True),
])  # fmt: skip
def test_values_that_end_ray_start_are_found(name: str, text: str, fine: bool) -> None:
    cluster = a_cluster().group(rayStartParams={name: text})
    path = f"spec.workerGroupSpecs[0].rayStartParams[{name}]"
    assert found(cluster) == (set() if fine else {("ray-start-value-invalid", path)})


@pytest.mark.parametrize("change", [
    {"command": ["bash", "-c", "$KUBERAY_GEN_RAY_START_CMD"]},
    {"command": ["bash", "-c", "ray start --block"]},
    {"resources": {"limits": {"google.com/tpu": "4"}}},
])  # fmt: skip
def test_resources_that_kuberay_does_not_write_into_a_shell_need_no_quotes(change: Json) -> None:
    cluster = a_cluster().group(rayStartParams={"resources": '{"x":1}'}).container(**change)
    assert not findings(cluster, "ray-start-value-invalid")


def test_a_value_that_ends_the_autoscaler_and_ray_start_is_found_once() -> None:
    params = {"num-gpus": "abc", "resources": "{", "port": "99999999"}
    cluster = a_cluster().autoscaled().group(rayStartParams=params)
    assert [each.rule for each in findings(cluster)] == [
        "param-ends-autoscaler", "ray-start-value-invalid", "param-ends-autoscaler"]  # fmt: skip


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", '"127.0.0.1"'])
def test_kuberay_has_to_reach_the_dashboard_of_what_it_submits_to(host: str) -> None:
    cluster = a_cluster().head(rayStartParams={"dashboard-host": host}).group()
    assert found(cluster) == set()
    for built in (a_job(cluster), a_service(cluster), a_cron_job(a_job(cluster))):
        assert rules(built) == {"dashboard-host-unreachable"}


@pytest.mark.parametrize(("scale", "raised"), [
    ({"replicas": 0, "minReplicas": 2}, True), ({"replicas": 0, "minReplicas": 0}, False),
    ({"replicas": None, "minReplicas": 2}, False), ({"replicas": 2, "minReplicas": 2}, False),
    ({"replicas": 0, "minReplicas": 2, "suspend": True}, False),
])  # fmt: skip
def test_replicas_of_0_below_the_minimum_are_reported_in_files(scale: Json, raised: bool) -> None:
    value = a_cluster().group(**scale).build()
    assert rules(value) == set()
    listed = {each.rule for each in check_file("RayCluster", value)} - {"feature-gate-off"}
    assert ("zero-replicas-raised" in listed) is raised
