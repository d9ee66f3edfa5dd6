"""The installation without Helm: the objects of the chart, and what `kustomize edit` changes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e import build
from tests.manifests.install import FILE, text
from tests.manifests.render import Identity, Object, by_identity, helm, kustomize, one

pytestmark = pytest.mark.manifests


def edited(source: Path, folder: Path, *edits: str) -> list[Object]:
    """Return the objects of a copy of a kustomization after some edits."""
    shutil.copytree(source, folder)
    for edit in edits:
        command = [str(build.binary("kustomize")), "edit", "set", *edit.split()]
        subprocess.run(command, cwd=folder, check=True, timeout=60)
    return kustomize(str(folder))


def without_namespace(objects: list[Object]) -> dict[Identity, Object]:
    """Return the objects by kind and name without the Namespace, which the chart does not have."""
    return {key: value for key, value in by_identity(objects).items() if key[0] != "Namespace"}


def test_the_manifests_are_up_to_date() -> None:
    assert FILE.read_text() == text(), "run `make generate`"


def test_the_manifests_are_the_objects_of_the_chart_without_traces_of_helm() -> None:
    objects = kustomize("manifests")
    assert without_namespace(objects) == by_identity(helm())
    assert "helm" not in FILE.read_text().replace("make generate", "").lower()
    assert "Pod" not in {found["kind"] for found in objects}


def test_the_namespace_of_the_manifests_enforces_the_restricted_standard() -> None:
    namespace = one(kustomize("manifests"), "Namespace")["metadata"]
    assert namespace["name"] == "ray-webhook"
    assert namespace["labels"] == {"pod-security.kubernetes.io/enforce": "restricted"}


def test_kustomize_edit_changes_namespace_image_and_replicas_as_values_do(tmp_path: Path) -> None:
    objects = edited(
        FILE.parent,
        tmp_path / "manifests",
        "namespace elsewhere",
        "image registry.example.com/ray-webhook=mirror.example.com/team/ray-webhook:v9",
        "replicas ray-webhook=3",
    )
    values = "image.registry=mirror.example.com/team,image.tag=v9,replicas=3"
    assert without_namespace(objects) == by_identity(helm("--set", values, namespace="elsewhere"))
    assert one(objects, "Namespace")["metadata"]["name"] == "elsewhere"
