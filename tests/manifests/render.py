"""Renders manifests with kustomize and the chart with Helm, and compares what comes out."""

import copy
import os
import re
import subprocess
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import yaml

from tests.e2e import build

Object = dict[str, Any]
Identity = tuple[str, str]

ROOT = Path(__file__).parents[2]
CHART = ROOT / "manifests" / "chart"
MODES = ("cert-manager", "self-signed")
KUBE_VERSION = "1.36.0"
_CHART_ONLY = ("app.kubernetes.io/managed-by", "helm.sh/chart")


def kustomize(folder: str) -> list[Object]:
    """Return the objects of a kustomization, such as `manifests/overlays/self-signed`."""
    return _objects(_run("kustomize", "build", str(ROOT / folder)).stdout)


def with_component(mode: str, component: str) -> list[Object]:
    """Return the objects of an overlay of an administrator's own: those of a mode, with one more component."""
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        path = os.path.relpath(ROOT / "manifests", folder)
        parts = {"resources": [f"{path}/overlays/{mode}"], "components": [f"{path}/components/{component}"]}
        head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
        (folder / "kustomization.yaml").write_text(yaml.safe_dump({**head, **parts}))
        return _objects(_run("kustomize", "build", str(folder)).stdout)


def helm(*flags: str, release: str = "ray-webhook", namespace: str = "ray-webhook") -> list[Object]:
    """Return the objects of the chart."""
    return _objects(template(*flags, release=release, namespace=namespace).stdout)


def template(*flags: str, release: str = "ray-webhook", namespace: str = "ray-webhook") -> subprocess.CompletedProcess[str]:
    """Render the chart. Raises CalledProcessError when Helm refuses."""
    return _run("helm", "template", release, str(CHART), "--namespace", namespace, "--kube-version", KUBE_VERSION, *flags)


def overlay(mode: str) -> list[Object]:
    """Return the objects that an administrator applies in a mode."""
    return kustomize(f"manifests/overlays/{mode}")


def one(objects: Iterable[Object], kind: str, name: str | None = None) -> Object:
    """Return the only object of a kind, or of kind and name."""
    (found,) = (found for found in objects if found["kind"] == kind and name in {None, found["metadata"]["name"]})
    return found


def by_identity(objects: Iterable[Object]) -> dict[Identity, Object]:
    """Return objects by kind and name, without what only the way of rendering makes different.

    That is: the hash in the name of a generated ConfigMap and Helm's checksum, which both roll the pod; labels that say who
    manages; the pull policy, which the chart spells out.
    """
    return {(found["kind"], found["metadata"]["name"]): found for found in map(_normal, objects)}


def _normal(given: Object) -> Object:
    found = copy.deepcopy(given)
    meta = found["metadata"]
    meta["name"] = re.sub(r"(?<=-settings)-[a-z0-9]{10}$", "", meta["name"])
    for label in _CHART_ONLY:
        meta.get("labels", {}).pop(label, None)
    if found["kind"] == "Deployment":
        pod = found["spec"]["template"]
        pod["metadata"].pop("annotations", None)
        container = pod["spec"]["containers"][0]
        container.pop("imagePullPolicy", None)
        source = container["envFrom"][0]["configMapRef"]
        source["name"] = re.sub(r"(?<=-settings)-[a-z0-9]{10}$", "", source["name"])
    return found


def _objects(text: str) -> list[Object]:
    return [document for document in yaml.safe_load_all(text) if document]


def _run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = build.binary(program)
    if not path.exists():
        text = f"{program} is not built: run `make tools`, which needs Go"
        if os.environ.get("CI"):
            pytest.fail(text)
        pytest.skip(text)
    return subprocess.run([path, *arguments], capture_output=True, text=True, check=True, timeout=60)
