"""Views of the objects in manifests: a Pod, or a RayCluster as the API server would store it."""

import re
import uuid
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from webhook.api.formats import explain_non_string, path_of
from webhook.api.names import RAY_KINDS
from webhook.api.objects import Container, EnvVar, ObjectMeta, Pod, PodSpec, RayCluster, Strings
from webhook.groups.naming import generate_name
from webhook.manifest.reader import Manifest
from webhook.manifest.yaml_values import ManifestError, as_stored

T = TypeVar("T")

_PLACE: Final = re.compile(r"`\$([^`]*)`")
_STRING_EXPECTED: Final = re.compile(r"Expected `str( \| null)?`")
_TYPE_EXPECTED: Final = re.compile(
    r"Expected `(?P<expected>\w+)(?: \| null)?`, got `(?P<found>\w+)`(?: - at `\$\.?(?P<path>.*)`)?"
)
_TYPES: Final = {
    "object": "a map",
    "array": "a list",
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "a boolean",
    "null": "nothing",
}
_SCALARS: Final = (int, float, bool)
NAMELESS: Final = "metadata.name: set it: every object needs a name"
"""The error of an object without a name."""
_TOKEN: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]")


class _ManifestContainer(Container, rename="camel", frozen=True, gc=False):
    """A container whose variables are decoded."""

    env: list[EnvVar] | None = None  # type: ignore[assignment] # views are read-only


class _PodSpec(PodSpec, rename="camel", frozen=True, gc=False):
    containers: list[_ManifestContainer] | None = None  # type: ignore[assignment] # views are read-only
    init_containers: list[_ManifestContainer] | None = None  # type: ignore[assignment] # views are read-only


class _PodTemplate(Struct):
    """A Pod or a template, to check its shape."""

    metadata: ObjectMeta | None = None
    spec: _PodSpec | None = None


class _ManifestGroup(Struct):
    template: _PodTemplate | None = None
    labels: Strings | None = None


class _ClusterView(Struct, rename="camel"):
    head_group_spec: _ManifestGroup | None = None
    worker_group_specs: list[_ManifestGroup] | None = None


class _Templates(Struct):
    """The pod templates of a RayCluster, to check their shape."""

    spec: _ClusterView | None = None


class _Job(Struct, rename="camel"):
    ray_cluster_spec: dict[str, Any] | None = None


class _Made(Struct, rename="camel"):
    ray_cluster_spec: dict[str, Any] | None = None
    ray_cluster_config: dict[str, Any] | None = None
    job_template: _Job | None = None


class _Owner(Struct):
    """The RayCluster template of a RayJob, RayService or RayCronJob, to check its shape."""

    metadata: ObjectMeta | None = None
    spec: _Made | None = None


def with_generated_name(manifest: Manifest) -> Manifest:
    """Return a Ray object with a name in place of its `generateName`: the same at each call, where
    the API server adds random characters. Any other object is returned unchanged.
    """
    meta = manifest.metadata
    prefix = meta.get("generateName")
    if manifest.kind not in RAY_KINDS or meta.get("name") or not (prefix and type(prefix) is str):
        return manifest
    document = {**manifest.document, "metadata": {**meta, "name": generate_name(prefix)}}
    return msgspec.structs.replace(manifest, document=document)


def require_owner(manifest: Manifest) -> None:
    """Raise ManifestError if no RayCluster can be created from the shape of its owner."""
    convert(manifest, _Owner)


def as_pod(manifest: Manifest) -> Pod:
    """Return the view of a Pod. Raises ManifestError for an invalid shape."""
    encoded = _encode(manifest)
    _decode(manifest, encoded, _PodTemplate)
    return _decode(manifest, encoded, Pod)


def as_cluster(manifest: Manifest, pods: Sequence[Pod] = ()) -> RayCluster:
    """Return the view of a RayCluster with the namespace and uid that it would receive.

    A uid that is not in the file is that of the owner of its pods, if one of them is in `pods`.
    Raises ManifestError for an invalid shape.
    """
    encoded = _encode(manifest)
    cluster = _decode(manifest, encoded, RayCluster)
    _decode(manifest, encoded, _Templates)
    meta = cluster.metadata
    namespace, name = meta.namespace or "default", meta.name or ""
    uid = meta.uid or _owner_uid(pods, namespace, name)
    # From the name, so that two runs and two files give the same identities.
    uid = uid or str(uuid.uuid5(uuid.NAMESPACE_URL, f"{namespace}/{name}"))
    meta = msgspec.structs.replace(meta, namespace=namespace, name=name, uid=uid)
    return msgspec.structs.replace(cluster, metadata=meta)


def problem_in(manifest: Manifest, problem: str, tokens: Sequence[str | int] = ()) -> ManifestError:
    """Return the error about a field of an object."""
    name = str(manifest.metadata.get("name", ""))
    object_name = " ".join(filter(None, (manifest.document.get("kind", ""), name)))
    return ManifestError(manifest.file, manifest.line(tokens), f"{object_name}: {problem}")


def _owner_uid(pods: Sequence[Pod], namespace: str, name: str) -> str | None:
    for pod in pods:
        owner = pod.controller
        theirs = pod.metadata.namespace or "default"
        if owner is not None and (owner.name, theirs) == (name, namespace):
            return owner.uid
    return None


def convert(manifest: Manifest, kind: type[T]) -> T:
    """Return an object as `kind`. Raises ManifestError for an invalid shape."""
    return _decode(manifest, _encode(manifest), kind)


def _encode(manifest: Manifest) -> bytes:
    document = {key: _without_nulls(value) for key, value in manifest.document.items()}
    return msgspec.json.encode(document)


def _decode(manifest: Manifest, encoded: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(encoded, type=kind)
    except msgspec.ValidationError as error:
        raise _wrong_shape(manifest, str(error)) from None


def _without_nulls(value: object) -> object:
    """Return a value as the API server reads it, without the nulls in its maps."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else as_stored(value)


def _wrong_shape(manifest: Manifest, problem: str) -> ManifestError:
    tokens = _complete(manifest.document, _tokens(problem), problem)
    message = _suggest_quotes(manifest.document, tokens, problem) or _in_words(problem)
    return problem_in(manifest, message, tokens)


def _complete(document: object, tokens: list[str | int], problem: str) -> list[str | int]:
    """Return the path of a value in a map of strings, whose key a message of msgspec leaves out."""
    value: Any = document
    try:
        for token in tokens:
            value = value[token]
    except (LookupError, TypeError):
        return tokens
    if not _STRING_EXPECTED.match(problem) or not isinstance(value, dict):
        return tokens
    return [*tokens, *[key for key, item in value.items() if type(item) in _SCALARS][:1]]


def _in_words(problem: str) -> str:
    """Return a message of msgspec, with type errors in the words of the validation rules."""
    match = _TYPE_EXPECTED.fullmatch(problem)
    if match is None:
        return problem
    expected, actual = (
        _TYPES.get(match[group_name], match[group_name]) for group_name in ("expected", "found")
    )
    return f"{match['path'] or 'it'}: expected {expected}, found {actual}"


def _suggest_quotes(document: object, tokens: Sequence[str | int], problem: str) -> str:
    """Return the fix for a number or boolean in place of a string, in the words of the validation
    rules; empty for any other problem, or if the path of the value is incomplete.
    """
    if not _STRING_EXPECTED.match(problem):
        return ""
    value: Any = document
    try:
        for token in tokens:
            value = value[token]
    except (LookupError, TypeError):
        return ""
    if type(value) not in _SCALARS:
        return ""
    return f"{path_of(tokens)}: {explain_non_string(value)}"


def _tokens(problem: str) -> list[str | int]:
    """Return the path in a message of msgspec, up to a part that is left open."""
    place = _PLACE.search(problem)
    path = place[1].partition("[...]")[0] if place else ""
    return [int(match[2]) if match[2] else match[1] for match in _TOKEN.finditer(path)]
