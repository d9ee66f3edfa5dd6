"""Devices that Ray's autoscaler does not count."""

from typing import Any

import pytest

from tests.harness.ray_objects import a_cluster, findings

RULE = "devices-not-counted"


def said(resource: str, *, autoscaled: bool = True, **group: Any) -> list[str]:  # noqa: ANN401 - fields of a group
    cluster = (
        a_cluster().group(**group).device(resource, 1).spec(enableInTreeAutoscaling=autoscaled)
    )
    return [each.message for each in findings(cluster, RULE)]


@pytest.mark.parametrize(("resource", "param"), [
    ("nvidia.com/mig-1g.10gb", "num-gpus"), ("nvidia.com/mig-2g.20gb.me", "num-gpus"),
    ("nvidia.com/gpu.shared", "num-gpus"), ("aliyun.com/gpu-mem", "num-gpus"),
    ("gpu.intel.com/i915", "num-gpus"), ("gpu.intel.com/xe", "num-gpus"),
    ("habana.ai/gaudi", "resources with HPU"), ("huawei.com/Ascend910", "resources with NPU"),
    ("aws.amazon.com/neuroncore", "resources with neuron_cores"),
])  # fmt: skip
def test_an_autoscaled_group_with_uncounted_devices(resource: str, param: str) -> None:
    text = f"the autoscaler sees none of these devices: set {param} in rayStartParams"
    assert said(resource) == [text]
    assert said(resource, autoscaled=False) == []
    assert said(resource, replicas=2, minReplicas=2, maxReplicas=2) == []


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "amd.com/gpu", "google.com/tpu", "x.com/y"])
def test_counted_and_unknown_devices(resource: str) -> None:
    assert said(resource) == []


@pytest.mark.parametrize("group", [
    {"rayStartParams": {"num-gpus": "1"}}, {"resources": {"GPU": "1", "CPU": "4"}},
    {"resources": {"nvidia.com/gpu": "1", "CPU": "4"}},
])  # fmt: skip
def test_amounts_for_ray_are_counted(group: Any) -> None:  # noqa: ANN401 - fields of a group
    assert said("nvidia.com/mig-1g.10gb", **group) == []
    assert said("habana.ai/gaudi", **group)


def test_custom_resources_are_counted() -> None:
    params = {"resources": '"{\\"HPU\\": 1}"'}
    assert said("habana.ai/gaudi", rayStartParams=params) == []
    assert said("huawei.com/Ascend910", resources={"NPU": "1", "CPU": "4"}) == []


def test_a_gpu_beside_an_uncounted_device_is_counted_and_groups_after_it_are_read() -> None:
    cluster = a_cluster().group("gpu").device("nvidia.com/gpu", 1).device("aliyun.com/gpu-mem", 8)
    assert findings(cluster.autoscaled(), RULE) == []
    cluster.group("fixed", minReplicas=1, maxReplicas=1).device("habana.ai/gaudi", 1)
    cluster.group("counted", resources={"HPU": "1"}).device("habana.ai/gaudi", 1)
    (finding,) = findings(cluster.group("last").device("habana.ai/gaudi", 1), RULE)
    assert finding.path.startswith("spec.workerGroupSpecs[3].")


def test_gpus_of_claims_are_not_counted() -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]
    cluster = a_cluster().autoscaled().group().pod(resourceClaims=claims)
    cluster.container(resources={"limits": {"cpu": 4}, "claims": [{"name": "gpu"}]})
    (finding,) = findings(cluster, RULE)
    assert finding.path == "spec.workerGroupSpecs[0].template.spec.resourceClaims"
