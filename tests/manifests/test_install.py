"""The installation without Helm: the objects of the chart, and what `kustomize edit` changes."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests import ROOT
from tests.e2e import build
from tests.manifests.install import FILE, text
from tests.manifests.render import Identity, Object, by_identity, helm, kustomize, one

pytestmark = pytest.mark.manifests


def edited(kustomization: str, folder: Path, *edits: str) -> list[Object]:
    """Return the objects of a kustomization in a copy of the repository with some edits."""
    for name in ("manifests", "certs"):
        shutil.copytree(ROOT / name, folder / name)
    for edit in edits:
        command = [str(build.binary("kustomize")), "edit", "set", *edit.split()]
        subprocess.run(command, cwd=folder / "manifests", check=True, timeout=60)
    return kustomize(str(folder / kustomization))


def without_namespace(objects: list[Object]) -> dict[Identity, Object]:
    return {key: value for key, value in by_identity(objects).items() if key[0] != "Namespace"}


def test_the_manifests_are_up_to_date_without_traces_of_helm() -> None:
    assert FILE.read_text() == text(), "run `make generate`"
    assert "helm" not in text().replace("make generate", "").lower()


def test_the_namespace_of_the_manifests_enforces_the_restricted_standard() -> None:
    namespace = one(kustomize("manifests"), "Namespace")["metadata"]
    assert namespace["name"] == "ray-webhook"
    assert namespace["labels"] == {"pod-security.kubernetes.io/enforce": "restricted"}


KUSTOMIZATIONS = {"manifests": "self-signed", "certs/overlay": "cert-manager"}
"""The source of the certificate of each kustomization."""


@pytest.mark.parametrize(("kustomization", "source"), KUSTOMIZATIONS.items())
def test_kustomize_edit_changes_namespace_image_and_replicas_as_values_do(
    kustomization: str, source: str, tmp_path: Path
) -> None:
    objects = edited(
        kustomization,
        tmp_path,
        "namespace elsewhere",
        "image registry.example.com/ray-webhook=mirror.example.com/team/ray-webhook:v9",
        "replicas ray-webhook=3",
    )
    values = "image.registry=mirror.example.com/team,image.tag=v9,replicas=3"
    assert without_namespace(objects) == by_identity(
        helm(f"certificates.source={source}", values, namespace="elsewhere")
    )
    assert one(objects, "Namespace")["metadata"]["name"] == "elsewhere"
