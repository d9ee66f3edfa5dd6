"""There is an example of every kind, and each can be applied to a real cluster. That `validate`
finds nothing in them is among its tests.
"""

from typing import Any

import pytest

from tests import ROOT
from webhook.accelerators.slices import GENERATIONS, is_v7x
from webhook.api import names
from webhook.api.quantity import parse_quantity
from webhook.cli.files import read_manifests

FILES = {path.stem: path.read_text() for path in sorted((ROOT / "examples").glob("*.yaml"))}
MANIFESTS = read_manifests([ROOT / "examples"])
GROUPS = {
    f"{manifest.metadata['name']}:{group['groupName']}": group
    for manifest in MANIFESTS
    for group in manifest.document["spec"]["workerGroupSpecs"]
}
KINDS = {
    "multi-host": "numOfHosts: 4",
    "64 hosts": "numOfHosts: 64",
    "two TPU containers": "name: numa-1",
    "affinity": " affinity:",
    "autoscaled": "enableInTreeAutoscaling: true",
    "multi-slice": f"name: {names.MEGASCALE_NUM_SLICES},",
    "gang per group": f"{names.ANNOTATION_SCHEDULING_GROUP}: worker-group",
    "gang per replica": f"{names.ANNOTATION_SCHEDULING_GROUP}: replica",
    "shard": f"{names.ANNOTATION_SHARD_GROUP}:",
    "resized in place": f"{names.ANNOTATION_IPPR}:",
    "sub-slice": f"{names.ANNOTATION_SLICE_TOPOLOGY}:",
    "queued": f"{names.LABEL_KUEUE_QUEUE}:",
}
"""What the text of an example of a kind contains."""

each_group = pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_cluster_has_an_example(kind: str) -> None:
    assert any(KINDS[kind] in text for text in FILES.values())


def test_there_are_single_host_tpus_sidecars_beside_init_containers_and_mixed_groups() -> None:
    specs = [group["template"]["spec"] for group in GROUPS.values() if group["numOfHosts"] == 1]
    assert any(names.NODE_TPU_TOPOLOGY in spec.get("nodeSelector", {}) for spec in specs)
    specs = [group["template"]["spec"] for group in GROUPS.values()]
    assert any("initContainers" in spec and len(spec["containers"]) > 1 for spec in specs)
    assert any(len(manifest.document["spec"]["workerGroupSpecs"]) > 2 for manifest in MANIFESTS)


def test_each_is_one_ray_cluster_of_its_own_name_after_a_line_that_says_what_it_is() -> None:
    assert {manifest.document["apiVersion"] for manifest in MANIFESTS} == {"ray.io/v1"}
    assert {manifest.kind for manifest in MANIFESTS} == {names.RAYCLUSTER_KIND}
    assert (
        len({manifest.metadata["name"] for manifest in MANIFESTS}) == len(MANIFESTS) == len(FILES)
    )
    assert all(text.startswith("# ") for text in FILES.values())


def test_their_annotations_are_ours_or_rays() -> None:
    keys = {
        key
        for manifest in MANIFESTS
        for key in manifest.metadata.get("annotations", {})
        if not key.startswith(names.PREFIX)
    }
    assert keys == {names.ANNOTATION_IPPR}


@each_group
def test_its_accelerator_is_one_of_gke(group: dict[str, Any]) -> None:
    selected = group["template"]["spec"].get("nodeSelector", {}).get(names.NODE_TPU_ACCELERATOR)
    assert selected is None or selected in GENERATIONS or is_v7x(selected)


@each_group
def test_its_resources_are_requested_as_they_are_limited(group: dict[str, Any]) -> None:
    for container in group["template"]["spec"]["containers"]:
        limits, requests = (
            {name: parse_quantity(amount) for name, amount in amounts.items()}
            for amounts in (container["resources"]["limits"], container["resources"]["requests"])
        )
        assert limits == requests
        assert all(amount > 0 for amount in limits.values())
