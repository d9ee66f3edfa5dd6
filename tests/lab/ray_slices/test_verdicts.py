"""Verdicts that count as faults; the verdicts here replace those of Ray."""

import pytest

from tests.lab.program import Json
from tests.lab.ray_slices.__main__ import faults
from tests.lab.ray_slices.slices import Slices, listed, variables
from webhook.api import names

GROUP = Slices("v5p", "tpu-v5p-slice", "2x2x4", 4)
PODS = list(GROUP.pods())


def verdict(pod: Json) -> Json:
    values = variables(pod)
    name, pod_type = values["TPU_NAME"], values["TPU_ACCELERATOR_TYPE"]
    worker = int(values["TPU_WORKER_ID"])
    return {
        "name": name,
        "worker": worker,
        "topology": values["TPU_TOPOLOGY"],
        "pod_type": pod_type,
        "expected_pod_type": "v5p-32",
        "valid": True,
        "workers": 4,
        "resources": {name: 1, **({f"TPU-{pod_type}-head": 1} if worker == 0 else {})},
        "labels": {
            "ray.io/tpu-slice-name": name,
            "ray.io/tpu-worker-id": str(worker),
            "ray.io/tpu-topology": "2x2x4",
            "ray.io/tpu-pod-type": pod_type,
        },
        "subslices": {"ray.io/tpu-subslice-2x2x2": str(worker // 2)},
        "metadata_asked": [],
    }


def test_there_is_nothing_wrong_with_pods_with_true_variables() -> None:
    assert len(PODS) == 2 * GROUP.hosts
    assert list(faults(GROUP, PODS, list(map(verdict, PODS)))) == []


@pytest.mark.parametrize(("name", "value"), [
    ("worker", 3),
    ("name", "tpu-group-7"),
    ("pod_type", "v5p-16"),
    ("valid", False),
    ("workers", 2),
    ("resources", None),
    ("metadata_asked", ["instance-id"]),
    ("subslices", {"ray.io/tpu-subslice-2x2x2": "1"}),
])  # fmt: skip
def test_one_host_that_is_taken_for_something_else_is_a_fault(name: str, value: object) -> None:
    verdicts = list(map(verdict, PODS))
    verdicts[1] = {**verdicts[1], name: value}
    assert list(faults(GROUP, PODS, verdicts)) != []


def test_two_slices_of_one_name_are_a_fault() -> None:
    verdicts = [{**verdict(pod), "name": "same"} for pod in PODS]
    assert any("the slices are called" in text for text in faults(GROUP, PODS, verdicts))


def test_a_pod_that_is_missing_is_a_fault() -> None:
    found = list(faults(GROUP, PODS[1:], list(map(verdict, PODS[1:]))))
    assert found[0] == "7 pods instead of 8"


def test_every_topology_is_checked_for_each_label_and_as_a_part_of_the_next_larger_one() -> None:
    known = {"2x2": 4, "2x4": 4, "4x4": 4, "2x2x2": 4}
    said = {
        "generations": {"a": ("v6e", 1), "b": ("v6e", 1)},
        "chips_per_host": {"v6e": known, "v2": {"4x4": 4}},
    }
    slices = list(listed(said))
    assert [(each.accelerator, each.topology) for each in slices if not each.parent] == [
        (accelerator, topology) for accelerator in "ab" for topology in known
    ]
    parts = [each for each in slices if each.parent and each.accelerator == "a"]
    assert [(each.topology, each.parent, each.hosts) for each in parts] == [
        ("2x2", "2x4", 1),
        ("2x4", "4x4", 2),
    ]
    (pod, *_) = parts[1].pods()
    assert variables(pod)[names.TPU_TOPOLOGY] == "2x4"
    assert pod["spec"]["nodeSelector"][names.NODE_TPU_TOPOLOGY] == "4x4"
