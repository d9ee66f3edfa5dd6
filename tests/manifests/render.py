"""Renders manifests with kustomize and the chart with Helm, and compares what comes out."""

import copy
import json
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
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
IMAGE = "registry.example.com/ray-webhook"
"""What the image is called here: the chart is not rendered without a name."""
_NAMED = {"newName": IMAGE, "newTag": "0.1.0"}
KUBE_VERSION = "1.36.0"
_CHART_ONLY = ("app.kubernetes.io/managed-by", "helm.sh/chart")


def kustomize(folder: str) -> list[Object]:
    """Return the objects of a kustomization, such as `manifests/overlays/self-signed`."""
    return _objects(run("kustomize", "build", str(ROOT / folder)).stdout)


def with_component(mode: str, component: str) -> list[Object]:
    """Return the objects of an overlay of an administrator's own: those of a mode, with one more
    component.
    """
    return own_overlay(mode, [component])


def own_overlay(mode: str, components: Sequence[str] = (), **fields: object) -> list[Object]:
    """Return the objects of an overlay of an administrator's own, with more fields of a
    kustomization.

    Paths in `transformers` are of the manifests, as those of components are.
    """
    return _objects(_built(mode, tuple(components), json.dumps(fields)))


@cache
def _built(mode: str, components: Sequence[str], fields: str) -> str:
    """Return what kustomize makes of an overlay."""
    with TemporaryDirectory() as name:
        folder = Path(name).resolve()
        path = os.path.relpath(ROOT / "manifests", folder)
        more = json.loads(fields)
        parts: dict[str, object] = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1",
            "kind": "Kustomization",
            "resources": [f"{path}/overlays/{mode}"],
            "images": [{"name": "ray-webhook", **_NAMED}],
            "components": [f"{path}/components/{component}" for component in components],
            "transformers": [f"{path}/{each}" for each in more.pop("transformers", ())],
        }
        (folder / "kustomization.yaml").write_text(yaml.safe_dump({**parts, **more}))
        return run("kustomize", "build", str(folder)).stdout


def helm(*flags: str, release: str = "ray-webhook", namespace: str = "ray-webhook") -> list[Object]:
    """Return the objects of the chart, without those that only `helm test` makes."""
    return _objects(template("--skip-tests", *flags, release=release, namespace=namespace).stdout)


def template(
    *flags: str, release: str = "ray-webhook", namespace: str = "ray-webhook"
) -> subprocess.CompletedProcess[str]:
    """Render the chart. Raises CalledProcessError when Helm refuses."""
    named = ("--set", f"image.repository={IMAGE}")
    return run(
        "helm",
        "template",
        release,
        str(CHART),
        "--namespace",
        namespace,
        "--kube-version",
        KUBE_VERSION,
        *named,
        *flags,
    )


def overlay(mode: str) -> list[Object]:
    """Return the objects that an administrator applies in a mode."""
    return own_overlay(mode)


def one(objects: Iterable[Object], kind: str, name: str | None = None) -> Object:
    """Return the only object of a kind, or of kind and name."""
    (found,) = (
        found
        for found in objects
        if found["kind"] == kind and name in {None, found["metadata"]["name"]}
    )
    return found


def by_identity(objects: Iterable[Object]) -> dict[Identity, Object]:
    """Return objects by kind and name, without what only the way of rendering makes different.

    That is: the hash in the name of a generated ConfigMap and Helm's checksum, which both roll the
    pod; labels that say who manages; the pull policy, which the chart spells out; the spelling of
    the file with settings.
    """
    return {(found["kind"], found["metadata"]["name"]): found for found in map(_normal, objects)}


def _normal(given: Object) -> Object:
    found = copy.deepcopy(given)
    meta = found["metadata"]
    meta["name"] = _unhashed(meta["name"])
    for label in _CHART_ONLY:
        meta.get("labels", {}).pop(label, None)
    if found["kind"] == "ConfigMap" and "settings.yaml" in found["data"]:
        found["data"]["settings.yaml"] = yaml.safe_load(found["data"]["settings.yaml"])
    if found["kind"] == "Deployment":
        pod = found["spec"]["template"]
        pod["metadata"].pop("annotations", None)
        container = pod["spec"]["containers"][0]
        container.pop("imagePullPolicy", None)
        for source in [each["configMapRef"] for each in container["envFrom"]]:
            source["name"] = _unhashed(source["name"])
        for volume in pod["spec"]["volumes"]:
            if "configMap" in volume:
                volume["configMap"]["name"] = _unhashed(volume["configMap"]["name"])
        pod["spec"]["volumes"].sort(key=lambda each: str(each["name"]))
        container["volumeMounts"].sort(key=lambda each: str(each["name"]))
    return found


def _unhashed(name: str) -> str:
    return re.sub(r"^(.*-(?:settings|components))-[a-z0-9]{10}$", r"\1", name)


def _objects(text: str) -> list[Object]:
    return [document for document in yaml.load_all(text, yaml.CSafeLoader) if document]


@cache
def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Return what a program answers, which is the same each time. Raises CalledProcessError."""
    path = build.binary(program)
    if not path.exists():
        text = f"{program} is not built: run `make tools`, which builds it"
        pytest.fail(text)
    return subprocess.run(
        [path, *arguments], capture_output=True, text=True, check=True, timeout=60
    )
