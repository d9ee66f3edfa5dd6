"""A release of KubeRay is added to the tables of schemas and gates."""

import json
from pathlib import Path

import pytest
import yaml

from tests.lab.facts import kuberay
from tests.lab.facts.fact import value
from tests.schema.release import GATE_TABLE, TABLE, added, tops, with_gates
from webhook.api import names
from webhook.validation.crd import schema_of

SPEC = {"type": "object", "properties": {"suspend": {"type": "boolean"}}}
SCHEMA = {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}}
DEFINITION = {
    "spec": {"names": {"kind": "RayCluster"}, "versions": [{"name": "v1", "schema": SCHEMA}]}
}
FEATURES = """
var defaultFeatureGates = map[featuregate.Feature]featuregate.FeatureSpec{
	RayCronJob:           {Default: true, PreRelease: featuregate.Beta},
	RayJobDeletionPolicy: {Default: false, PreRelease: featuregate.Alpha},
}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    files = {
        "config/crd/bases/ray.io_rayclusters.yaml": yaml.safe_dump(DEFINITION),
        "pkg/features/features.go": FEATURES,
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(text)
    return tmp_path


def test_a_new_release_leaves_the_others_as_they_are(source: Path) -> None:
    before = json.loads(TABLE.read_text())
    after = json.loads(added(TABLE.read_text(), "1.8.0", source / "config" / "crd" / "bases"))
    assert after["kuberay"] == [*before["kuberay"], "1.8.0"]
    assert list(after["roots"].pop("1.8")) == ["v1/RayCluster"]
    assert after["roots"] == before["roots"]
    assert after["parts"][: len(before["parts"])] == before["parts"]


def test_a_patch_release_replaces_the_one_before_and_its_parts(source: Path) -> None:
    folder = source / "config" / "crd" / "bases"
    once = added(TABLE.read_text(), "1.8.0", folder)
    assert added(once, "1.8.1", folder) == once.replace("1.8.0", "1.8.1")


def test_gates_are_read_from_the_sources_and_added(source: Path) -> None:
    gates = kuberay.gates(source)
    assert gates == {"RayCronJob": True, "RayJobDeletionPolicy": False}
    text = with_gates(GATE_TABLE.read_text(), "1.8.0", gates)
    assert json.loads(text) == {**json.loads(GATE_TABLE.read_text()), "1.8": gates}
    assert text.startswith(GATE_TABLE.read_text().removesuffix("\n}\n"))


def test_only_the_top_of_what_is_new_is_shown() -> None:
    fields = {"RayCluster.spec.tls", "RayCluster.spec.tls.hosts", "RayCluster.spec.tls.hosts[]"}
    assert tops(fields) == ["RayCluster.spec.tls"]


def test_kinds_and_values_that_rules_name_are_in_the_schemas() -> None:
    schema = schema_of(None)
    versions, kinds = zip(*(root.split("/") for root in schema.roots), strict=True)
    assert set(kinds) == set(names.RAY_KINDS)
    assert set(versions) <= set(names.RAY_VERSIONS)

    def values(kind: str, *path: str) -> set[str]:
        part = schema.part(schema.roots[f"v1/{kind}"])
        for name in path:
            below = part.list if name == "[]" else part.below(name)
            assert below is not None, name
            part = schema.part(below)
        return set(part.enum)

    rules = ("spec", "deletionStrategy", "deletionRules", "[]", "policy")
    assert set(value("webhook.validation.security:_OPEN")) <= values(
        "RayCluster", "spec", "networkPolicy", "mode"
    )
    assert set(value("webhook.validation.deletion:_ORDER")) <= values("RayJob", *rules)
