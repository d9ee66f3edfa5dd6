"""Manifests in files, which stand in for the cluster: YAML or JSON, several documents in a file, directories."""

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import yaml
from msgspec import Struct

from webhook.kube.objects import ObjectMeta, Pod, PodSpec, RayCluster, Strings
from webhook.manifest.nesting import too_deep_at

T = TypeVar("T")

_SUFFIXES: Final = (".yaml", ".yml", ".json")


class ManifestError(Exception):
    """A file that cannot be read as manifests. The message names file and line, and what is wrong."""


class Manifest(NamedTuple):
    """One object, and the file it stands in."""

    path: Path
    document: dict[str, Any]

    @property
    def kind(self) -> str:
        """The kind of the object."""
        return str(self.document.get("kind", ""))


class _Template(Struct):
    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None


class _Group(Struct):
    template: _Template | None = None
    labels: Strings | None = None


class _Spec(Struct, rename="camel"):
    head_group_spec: _Group | None = None
    worker_group_specs: list[_Group] | None = None


class _Templates(Struct):
    """The part of a RayCluster that its pods are made from, which no view of it holds: only its shape matters here."""

    spec: _Spec | None = None


class _Loader(yaml.CSafeLoader):
    """Reads YAML as Kubernetes does: a date stays the text that it is."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read_manifests(paths: Iterable[Path]) -> list[Manifest]:
    """Return all objects of files and directories, in order; a `List` gives its items. Raises ManifestError."""
    return [manifest for path in paths for file in _files(path) for manifest in _read(file)]


def as_pod(manifest: Manifest) -> Pod:
    """Return the view of a Pod. Raises ManifestError when its shape is wrong."""
    pod = _convert(manifest, Pod)
    _check_variables(manifest, "$.spec", pod.spec)
    return pod


def as_cluster(manifest: Manifest, pods: Sequence[Pod] = ()) -> RayCluster:
    """Return the view of a RayCluster with the namespace and uid that the API server would have given it.

    A uid that the file does not have is that of the owner of its pods, if one is among `pods`. Raises ManifestError when the
    shape is wrong.
    """
    cluster = _convert(manifest, RayCluster)
    _check_templates(manifest)
    meta = cluster.metadata
    namespace, name = meta.namespace or "default", meta.name or ""
    uid = meta.uid or _owner_uid(pods, namespace, name) or str(uuid.uuid5(uuid.NAMESPACE_URL, f"{namespace}/{name}"))
    meta = msgspec.structs.replace(meta, namespace=namespace, name=name, uid=uid)
    return msgspec.structs.replace(cluster, metadata=meta)


def _check_templates(manifest: Manifest) -> None:
    """Raise ManifestError when the pods of a RayCluster could not be made from it."""
    spec = _convert(manifest, _Templates).spec or _Spec()
    groups = {"headGroupSpec": spec.head_group_spec}
    groups |= {f"workerGroupSpecs[{i}]": group for i, group in enumerate(spec.worker_group_specs or ())}
    for path, group in groups.items():
        if group and group.template and group.template.spec:
            _check_variables(manifest, f"$.spec.{path}.template.spec", group.template.spec)


def _check_variables(manifest: Manifest, path: str, spec: PodSpec) -> None:
    """Raise ManifestError when the variables of a container, which its view leaves unread, have a wrong shape."""
    for name, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for i, container in enumerate(containers or ()):
            try:
                container.variables()
            except msgspec.ValidationError as error:
                raise _wrong_shape(manifest, str(error).replace("`$", f"`{path}.{name}[{i}].env")) from None


def _owner_uid(pods: Sequence[Pod], namespace: str, name: str) -> str | None:
    for pod in pods:
        owner = pod.controller
        if owner is not None and owner.name == name and (pod.metadata.namespace or "default") == namespace:
            return owner.uid
    return None


def _convert(manifest: Manifest, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(msgspec.json.encode(manifest.document), type=kind)
    except msgspec.ValidationError as error:
        raise _wrong_shape(manifest, str(error)) from None


def _wrong_shape(manifest: Manifest, problem: str) -> ManifestError:
    meta = manifest.document.get("metadata")
    name = meta.get("name", "") if isinstance(meta, dict) else ""
    return ManifestError(f"{manifest.path}: {manifest.kind} {name}: {problem}")


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.suffix in _SUFFIXES and file.is_file())
    return [path]


def _read(path: Path) -> Iterator[Manifest]:
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        msg = f"{path}: {error.strerror}: give the path of a YAML or JSON file, or a directory of them"
        raise ManifestError(msg) from None
    except UnicodeDecodeError:
        msg = f"{path}: not a text file in UTF-8"
        raise ManifestError(msg) from None
    for document in _documents(path, text):
        yield from _flatten(path, document)


def _documents(path: Path, text: str) -> list[Any]:
    try:
        if path.suffix == ".json":
            return [json.loads(text)]
        line = too_deep_at(text)
        if line is not None:
            msg = f"{path}:{line}: nested too deeply to be a Kubernetes object"
            raise ManifestError(msg)
        return [document for document in yaml.load_all(text, _Loader) if document is not None]
    except json.JSONDecodeError as error:
        msg = f"{path}:{error.lineno}: not JSON: {error.msg}"
        raise ManifestError(msg) from None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        msg = f"{path}:{line}: not YAML: {error.problem}"
        raise ManifestError(msg) from None
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # ValueError: a number that is none, such as 0b_
        msg = f"{path}: not YAML: {type(error).__name__}"
        raise ManifestError(msg) from None


def _flatten(path: Path, document: Any) -> Iterator[Manifest]:  # noqa: ANN401 - whatever a file holds
    if not isinstance(document, dict) or not isinstance(document.get("kind"), str):
        msg = f"{path}: not a Kubernetes object: each document needs apiVersion, kind and metadata"
        raise ManifestError(msg)
    items = document.get("items")
    if document["kind"].endswith("List") and isinstance(items, list):
        for item in items:
            yield from _flatten(path, item)
    else:
        yield Manifest(path, document)
