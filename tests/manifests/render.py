"""Rendering of the chart with Helm, and of the other manifests with kustomize."""

import copy
import subprocess
from collections.abc import Hashable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import ROOT
from tests.e2e import build

Object = dict[str, Any]
Identity = tuple[str, str]

CHART = ROOT / "manifests" / "chart"
MODES = ("cert-manager", "self-signed")
REGISTRY = "registry.example.com"
IMAGE = f"{REGISTRY}/ray-webhook"
"""The image of the chart, without its tag."""
KUBE_VERSION = "1.36.0"
_CHART_ONLY = ("app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart")


def kustomize(folder: str) -> list[Object]:
    return objects_in(run("kustomize", "build", str(ROOT / folder)).stdout)


def installation(mode: str, *values: str) -> list[Object]:
    return helm(f"certificates.source={mode}", *values)


def helm(
    *values: str,
    flags: Sequence[str] = (),
    release: str = "ray-webhook",
    namespace: str = "ray-webhook",
) -> list[Object]:
    """Return the objects of the chart with values, without those of `helm test`."""
    flags = ("--skip-tests", "--set", ",".join(values), *flags)
    return objects_in(template(*flags, release=release, namespace=namespace).stdout)


def template(
    *flags: str, release: str = "ray-webhook", namespace: str = "ray-webhook"
) -> subprocess.CompletedProcess[str]:
    where = ("--namespace", namespace, "--kube-version", KUBE_VERSION)
    registry = ("--set", f"image.registry={REGISTRY}")
    return run("helm", "template", release, str(CHART), *where, *registry, *flags)


def refusal(value: str, flag: str = "--set", release: str = "ray-webhook") -> str:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        template(flag, value, release=release)
    return str(caught.value.stderr)


def one(objects: Iterable[Object], kind: str, name: str | None = None) -> Object:
    (found,) = (
        found
        for found in objects
        if found["kind"] == kind and name in {None, found["metadata"]["name"]}
    )
    return found


def pod_of(objects: Iterable[Object], deployment: str = "ray-webhook") -> Object:
    found: Object = one(objects, "Deployment", deployment)["spec"]["template"]["spec"]
    return found


def container_of(objects: Iterable[Object], deployment: str = "ray-webhook") -> Object:
    (container,) = pod_of(objects, deployment)["containers"]
    found: Object = container
    return found


def settings_file(objects: list[Object]) -> str:
    (text,) = (
        found["data"]["settings.yaml"]
        for found in objects
        if found["kind"] == "ConfigMap" and "settings.yaml" in found["data"]
    )
    return str(text)


def variables(objects: list[Object], deployment: str = "ray-webhook") -> dict[str, str]:
    return {each["name"]: each["value"] for each in container_of(objects, deployment)["env"]}


def environment(objects: list[Object], deployment: str, folder: Path) -> dict[str, str]:
    """Return the variables of a Deployment's container; their file is written into `folder`."""
    file = folder / "settings.yaml"
    file.write_text(settings_file(objects))
    return {**variables(objects, deployment), "RAY_WEBHOOK_CONFIG": str(file)}


def mounted(objects: list[Object], name: str, deployment: str) -> tuple[Object, Object]:
    """Return the mount and the volume of a name."""
    lists = (
        container_of(objects, deployment)["volumeMounts"],
        pod_of(objects, deployment)["volumes"],
    )
    (mount,), (volume,) = ([each for each in items if each["name"] == name] for items in lists)
    return mount, volume


def labels_of(objects: Iterable[Object], deployment: str = "ray-webhook") -> dict[str, str]:
    found = one(objects, "Deployment", deployment)["spec"]["template"]["metadata"]["labels"]
    labels: dict[str, str] = found
    return labels


def webhooks(objects: Iterable[Object]) -> dict[str, Object]:
    return {each["name"]: each for found in objects for each in found.get("webhooks", ())}


def by_identity(objects: Iterable[Object]) -> dict[Identity, Object]:
    """Return objects by kind and name, without the labels that Helm alone adds."""
    return {(found["kind"], found["metadata"]["name"]): found for found in map(_normal, objects)}


def _normal(given: Object) -> Object:
    found = copy.deepcopy(given)
    for label in _CHART_ONLY:
        found["metadata"].get("labels", {}).pop(label, None)
    return found


class _UniqueKeys(yaml.CSafeLoader):
    """Refuses a key that a mapping has twice, as Helm does."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT002 - as in PyYAML
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"{node.start_mark}: {keys}"
        return super().construct_mapping(node, deep)


def objects_in(text: str) -> list[Object]:
    return [document for document in yaml.load_all(text, _UniqueKeys) if document]


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
