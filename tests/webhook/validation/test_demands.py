"""Demands that no node of a cluster can hold, and devices that the autoscaler does not count."""

from typing import Any

import pytest
import yaml

from tests.harness.ray_objects import (
    Built,
    ClusterBuilder,
    Json,
    a_cluster,
    a_cron_job,
    a_job,
    a_service,
    findings,
)

RULE = "demand-above-nodes"
UNCOUNTED = "devices-not-counted"
DEPLOYMENT = "spec.serveConfigV2.applications[0].deployments[0]"
ACTOR = f"{DEPLOYMENT}.ray_actor_options"


def gpus(count: int | str = 1, **fields: Any) -> ClusterBuilder:  # noqa: ANN401 - those of a group
    """Return a cluster with a head of no CPUs, and a group of 4 CPUs and some GPUs."""
    head = {"num-cpus": "0"}
    return a_cluster().head(rayStartParams=head).group(**fields).device("nvidia.com/gpu", count)


def of(cluster: ClusterBuilder, **deployment: object) -> Built:
    entry = {"name": "D", **deployment}
    config = {"applications": [{"import_path": "m:app", "deployments": [entry]}]}
    return a_service(cluster).spec(serveConfigV2=yaml.safe_dump(config))


def said(built: Built) -> list[tuple[str, str]]:
    return [(each.path, each.message.partition(": ")[0]) for each in findings(built, RULE)]


@pytest.mark.parametrize(("spec", "path", "text"), [
    ({"entrypointNumCpus": 8}, "spec.entrypointNumCpus", "8, but no node has more than 4"),
    ({"entrypointNumCpus": 4.5}, "spec.entrypointNumCpus", "4.5, but no node has more than 4"),
    ({"entrypointNumGpus": 2}, "spec.entrypointNumGpus", "2, but no node has more than 1"),
    ({"entrypointResources": '{"A": 1}'}, "spec.entrypointResources", "1, but no node has any A"),
])  # fmt: skip
def test_an_entrypoint_above_all_nodes(spec: Json, path: str, text: str) -> None:
    assert said(a_job(gpus()).spec(**spec)) == [(path, text)]
    nightly = path.replace("spec", "spec.jobTemplate", 1)
    assert said(a_cron_job(a_job(gpus()).spec(**spec))) == [(nightly, text)]


@pytest.mark.parametrize("spec", [
    {"entrypointNumCpus": 4}, {"entrypointNumCpus": 0}, {"entrypointNumGpus": 0.5},
    {"entrypointResources": "{}"}, {"entrypointResources": '{"node:__internal_head__": 0.1}'},
    {"entrypointResources": "{"}, {"entrypointResources": '{"A": 0}'},
    {"entrypointNumCpus": 8, "clusterSelector": {"ray.io/cluster": "other"}},
])  # fmt: skip
def test_an_entrypoint_that_a_node_may_hold(spec: Json) -> None:
    assert said(a_job(gpus()).spec(**spec)) == []


def test_a_demand_that_no_node_holds_as_a_whole() -> None:
    cluster = gpus(rayStartParams={"num-cpus": "2"}).group("cpus")
    job = a_job(cluster).spec(entrypointNumCpus=4, entrypointNumGpus=1)
    text = "no node has all of 4 CPU, 1 GPU together"
    assert said(job) == [("spec.entrypointNumCpus", text)]
    both: Json = {"num_cpus": 4, "num_gpus": 1}
    assert said(of(cluster, ray_actor_options=both)) == [(ACTOR, text)]


@pytest.mark.parametrize(("deployment", "path"), [
    ({"ray_actor_options": {"num_gpus": 2}}, f"{ACTOR}.num_gpus"),
    ({"ray_actor_options": {"num_gpus": "2"}}, f"{ACTOR}.num_gpus"),
    ({"ray_actor_options": {"num_cpus": 5}}, f"{ACTOR}.num_cpus"),
    ({"ray_actor_options": {"memory": 20_000_000_000}}, f"{ACTOR}.memory"),
    ({"ray_actor_options": {"resources": {"A": 1}}}, f"{ACTOR}.resources[A]"),
    ({"placement_group_bundles": [{"GPU": 1}, {"CPU": 1, "GPU": 2}]},
     f"{DEPLOYMENT}.placement_group_bundles[1].GPU"),
    ({"placement_group_bundles": [{"GPU": 1}] * 2, "placement_group_strategy": "STRICT_PACK"},
     f"{DEPLOYMENT}.placement_group_bundles"),
    ({"placement_group_bundles": [{"GPU": 1}] * 3, "placement_group_strategy": "STRICT_SPREAD"},
     f"{DEPLOYMENT}.placement_group_bundles"),
    ({"num_replicas": 5, "max_replicas_per_node": 1}, f"{DEPLOYMENT}.max_replicas_per_node"),
    ({"num_replicas": 3, "max_replicas_per_node": 1, "ray_actor_options": {"num_gpus": 1}},
     f"{DEPLOYMENT}.max_replicas_per_node"),
    ({"max_replicas_per_node": 1, "autoscaling_config": {"min_replicas": 9}},
     f"{DEPLOYMENT}.max_replicas_per_node"),
])  # fmt: skip
def test_a_deployment_above_all_nodes(deployment: Json, path: str) -> None:
    assert [where for where, _ in said(of(gpus(replicas=2), **deployment))] == [path]


@pytest.mark.parametrize(("replicas", "nodes"), [(0, "1 node"), (1, "2 nodes")])
def test_a_limit_per_node_tells_the_number_of_nodes(replicas: int, nodes: str) -> None:
    few = {"num_replicas": 5, "max_replicas_per_node": 1}
    ((_, text),) = said(of(gpus(replicas=replicas), **few))
    assert text == f"1, but num_replicas is 5 and the cluster has at most {nodes}"


@pytest.mark.parametrize("deployment", [
    {}, {"ray_actor_options": {}}, {"ray_actor_options": {"num_gpus": 1, "num_cpus": 4}},
    {"ray_actor_options": {"accelerator_type": "A100"}},
    {"ray_actor_options": {"num_gpus": "x", "num_cpus": True, "memory": [1]}},
    {"placement_group_bundles": [{"GPU": 1}] * 2}, {"placement_group_bundles": "x"},
    {"placement_group_bundles": [{"GPU": 1}] * 2, "placement_group_strategy": "STRICT_SPREAD"},
    {"num_replicas": 3, "max_replicas_per_node": 1}, {"num_replicas": "auto"},
    {"num_replicas": 9, "max_replicas_per_node": 3},
    {"max_replicas_per_node": 1, "autoscaling_config": {"max_replicas": 9}},
    {"ray_actor_options": {"resources": {"TPU": 4, "accelerator_type:A10G": 0.01}}},
])  # fmt: skip
def test_a_deployment_that_the_nodes_may_hold(deployment: Json) -> None:
    assert said(of(gpus(replicas=2), **deployment)) == []


def test_an_autoscaled_group_has_as_many_nodes_as_it_may_have() -> None:
    spread: Json = {"num_replicas": 11, "max_replicas_per_node": 1}
    assert said(of(gpus().autoscaled(), **spread)) == []
    assert said(of(gpus(hosts=2, maxReplicas=5).autoscaled(), **spread)) == []
    assert said(of(gpus(maxReplicas=5).autoscaled(), **spread))


def test_a_type_of_accelerator_needs_a_group_with_any() -> None:
    options: Json = {"accelerator_type": "A100"}
    assert said(of(a_cluster().group(), ray_actor_options=options)) == [
        (f"{ACTOR}.accelerator_type", "no node has an accelerator")
    ]
    for resource in ("nvidia.com/mig-1g.10gb", "google.com/tpu", "habana.ai/gaudi"):
        cluster = a_cluster().group().device(resource, 1)
        assert said(of(cluster, ray_actor_options=options)) == []


@pytest.mark.parametrize("change", [
    {"rayStartParams": {"num-gpus": "8"}}, {"rayStartParams": {"num-gpus": "$GPUS"}},
    {"resources": {"GPU": "8"}}, {"resources": {"nvidia.com/gpu": "8"}},
    {"rayStartParams": {"resources": "{{ x }}"}},
])  # fmt: skip
def test_the_amounts_of_a_group_come_before_those_of_its_container(change: Json) -> None:
    assert said(of(gpus(1, **change), ray_actor_options={"num_gpus": 8})) == []


@pytest.mark.parametrize(("container", "pod"), [
    ({"command": ["bash", "-c", "ray start --num-gpus=8 --address=$A --block"]}, {}),
    ({"env": [{"name": "RAY_OVERRIDE_RESOURCES", "value": '{"GPU": 8}'}]}, {}),
    ({"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}, {}),
    ({"securityContext": {"privileged": True}}, {}),
    ({"resources": {"limits": {"cpu": 1, "aliyun.com/gpu-mem": 8}}}, {}),
    ({"resources": {"requests": {"cpu": 1, "x.com/y": 8}}}, {}),
    ({}, {"runtimeClassName": "nvidia"}),
    ({}, {"volumes": [{"name": "d", "hostPath": {"path": "/dev"}}]}),
    ({}, {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]}),
])  # fmt: skip
def test_a_group_of_unknown_devices_holds_any_number(container: Json, pod: Json) -> None:
    cluster = a_cluster().group().container(**container).pod(**pod)
    assert said(of(cluster, ray_actor_options={"num_gpus": 8})) == []


@pytest.mark.parametrize("limits", [{}, {"memory": "8Gi"}])
def test_a_group_without_limits_holds_any_number_of_cpus(limits: Json) -> None:
    cluster = a_cluster().group().container(resources={"limits": limits})
    assert said(a_job(cluster).spec(entrypointNumCpus=64)) == []


@pytest.mark.parametrize(("resources", "cpus"), [
    ({"limits": {"cpu": "3500m"}}, 4), ({"requests": {"cpu": "7"}}, 7),
    ({"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}, 2),
])  # fmt: skip
def test_cores_are_rounded_up_and_limits_come_before_requests(resources: Json, cpus: int) -> None:
    params = {"num-cpus": "0"}
    cluster = a_cluster().head(rayStartParams=params).group().container(resources=resources)
    assert said(a_job(cluster).spec(entrypointNumCpus=cpus)) == []
    assert said(a_job(cluster).spec(entrypointNumCpus=cpus + 0.5))


def test_a_cluster_that_replaces_the_start_command_holds_anything() -> None:
    job = a_job(gpus()).spec(entrypointNumGpus=8)
    assert said(job.annotated("ray.io/overwrite-container-cmd", "true")) == []
    cluster = gpus().pod_annotation("ray.io/overwrite-container-cmd", "true")
    assert said(a_job(cluster).spec(entrypointNumGpus=8)) == []


def test_many_different_groups_are_not_compared() -> None:
    cluster = a_cluster()
    for number in range(100):
        cluster.group(f"g-{number}", rayStartParams={"num-cpus": str(number)})
    deployments: list[Any] = [{"name": "D", "ray_actor_options": {"num_cpus": 200}}] * 1000
    config = {"applications": [{"import_path": "m:app", "deployments": deployments}]}
    assert said(a_service(cluster).spec(serveConfigV2=yaml.safe_dump(config))) == []


def uncounted(resource: str, *, autoscaled: bool = True, **group: Any) -> list[str]:  # noqa: ANN401 - fields of a group
    cluster = (
        a_cluster().group(**group).device(resource, 1).spec(enableInTreeAutoscaling=autoscaled)
    )
    return [each.message for each in findings(cluster, UNCOUNTED)]


@pytest.mark.parametrize(("resource", "param"), [
    ("nvidia.com/mig-1g.10gb", "num-gpus"), ("nvidia.com/mig-2g.20gb.me", "num-gpus"),
    ("nvidia.com/gpu.shared", "num-gpus"), ("aliyun.com/gpu-mem", "num-gpus"),
    ("gpu.intel.com/i915", "num-gpus"), ("gpu.intel.com/xe", "num-gpus"),
    ("habana.ai/gaudi", "resources with HPU"), ("huawei.com/Ascend910", "resources with NPU"),
    ("aws.amazon.com/neuroncore", "resources with neuron_cores"),
])  # fmt: skip
def test_an_autoscaled_group_with_uncounted_devices(resource: str, param: str) -> None:
    text = f"the autoscaler sees none of these devices: set {param} in rayStartParams"
    assert uncounted(resource) == [text]
    assert uncounted(resource, autoscaled=False) == []
    assert uncounted(resource, replicas=2, minReplicas=2, maxReplicas=2) == []


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "amd.com/gpu", "google.com/tpu", "x.com/y"])
def test_counted_and_unknown_devices(resource: str) -> None:
    assert uncounted(resource) == []


@pytest.mark.parametrize("group", [
    {"rayStartParams": {"num-gpus": "1"}}, {"resources": {"GPU": "1", "CPU": "4"}},
    {"resources": {"nvidia.com/gpu": "1", "CPU": "4"}},
])  # fmt: skip
def test_amounts_for_ray_are_counted(group: Any) -> None:  # noqa: ANN401 - fields of a group
    assert uncounted("nvidia.com/mig-1g.10gb", **group) == []
    assert uncounted("habana.ai/gaudi", **group)


def test_custom_resources_are_counted() -> None:
    params = {"resources": '"{\\"HPU\\": 1}"'}
    assert uncounted("habana.ai/gaudi", rayStartParams=params) == []
    assert uncounted("huawei.com/Ascend910", resources={"NPU": "1", "CPU": "4"}) == []


def test_a_gpu_beside_an_uncounted_device_is_counted_and_groups_after_it_are_read() -> None:
    cluster = a_cluster().group("gpu").device("nvidia.com/gpu", 1).device("aliyun.com/gpu-mem", 8)
    assert findings(cluster.autoscaled(), UNCOUNTED) == []
    cluster.group("fixed", minReplicas=1, maxReplicas=1).device("habana.ai/gaudi", 1)
    cluster.group("counted", resources={"HPU": "1"}).device("habana.ai/gaudi", 1)
    (finding,) = findings(cluster.group("last").device("habana.ai/gaudi", 1), UNCOUNTED)
    assert finding.path.startswith("spec.workerGroupSpecs[3].")


def test_gpus_of_claims_are_not_counted() -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    cluster = a_cluster().autoscaled().group().pod(resourceClaims=claims)
    cluster.container(resources={"limits": {"cpu": 4}, "claims": [{"name": "gpu"}]})
    (finding,) = findings(cluster, UNCOUNTED)
    assert finding.path == "spec.workerGroupSpecs[0].template.spec.resourceClaims"
