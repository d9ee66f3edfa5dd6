"""The reader of manifests: the objects in a file, with the line of every field."""

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Any, Final

import yaml
from msgspec import Struct, structs
from yaml.nodes import Node, ScalarNode

from webhook.api.formats import one_line, path_of
from webhook.api.names import RAY_GROUP, known_kind
from webhook.manifest.documents import split
from webhook.manifest.yaml_values import (
    TEMPLATE,
    Converter,
    DuplicateKey,
    Loader,
    ManifestError,
    check_nesting,
    child,
    first_node,
    line_at,
    line_of,
    problem_of,
)


def as_yaml(documents: Iterable[dict[str, Any]]) -> str:
    """Return objects as the documents of a file, with the order of their fields. A text stays in
    one line, so that it has no part that a reader of lines takes for one of its own.
    """
    yaml_text: str = yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, width=inf)
    return yaml_text


class _Dumper(yaml.SafeDumper):
    """Writes texts with line ends, and those that begin like a workflow command, in quotes."""


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    quoted = not text.isprintable() or one_line(text) != text
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if quoted else None)


_Dumper.add_representer(str, _represent)


class Manifest(Struct, frozen=True):
    """One document of a file: usually an object, but possibly any other YAML value."""

    file: str
    document: Any
    node: Node | None = None
    before: int = 0
    """The number of lines of the file before the first line of the node's text."""
    duplicates: tuple[DuplicateKey, ...] = ()
    within: str = ""
    """The path of a Ray object in another object, such as `spec.components[0].template`."""

    @property
    def kind(self) -> str:
        """The kind of a Ray object or a Pod of a supported version, empty for anything else."""
        document = self.document if isinstance(self.document, dict) else {}
        return known_kind(document.get("apiVersion"), document.get("kind"))

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of an object, empty if they are no map."""
        metadata = self.document.get("metadata") if isinstance(self.document, dict) else None
        return metadata if isinstance(metadata, dict) else {}

    def line(self, tokens: Sequence[str | int]) -> int:
        """Return the line of a field, or of the nearest enclosing field; 0 without a file."""
        return self.before + (line_at(self.node, tokens) if self.node is not None else 0)


def read(name: str, data: bytes) -> Iterator[Manifest | ManifestError]:
    """Yield the documents of a file, the items of a `List`, and the Ray objects in other objects.

    A document that is no Kubernetes object is yielded as well, and an error in place of a document
    that cannot be read.
    """
    for item in split(name, data):
        if isinstance(item, ManifestError):
            yield item
            continue
        try:
            yield from _documents(name, *item)
        except ManifestError as problem:
            yield problem


def read_strictly(name: str, data: bytes) -> list[Manifest]:
    """Return the documents of a file. Raises ManifestError for the first that cannot be read, and
    for a duplicate key.
    """
    documents = []
    for manifest in read(name, data):
        if isinstance(manifest, ManifestError):
            raise manifest
        for duplicate in manifest.duplicates:
            raise ManifestError(name, manifest.line(duplicate.tokens), duplicate.problem)
        documents.append(manifest)
    return documents


def _documents(name: str, before: int, text: str) -> Iterator[Manifest]:
    try:
        check_nesting(name, text, before)
        for node in yaml.compose_all(text, Loader=Loader):
            converter = Converter(name, before)
            value = converter.value(node)
            yield from _expand_document(
                Manifest(name, value, node=node, before=before, duplicates=(*converter.duplicates,))
            )
    except yaml.YAMLError as error:
        line, problem = problem_of(text, error)
        hint = TEMPLATE if "{{" in text else ""
        raise ManifestError(name, line and line + before, f"not YAML: {problem}{hint}") from None


def _expand_document(found: Manifest) -> Iterator[Manifest]:
    """Yield the items of a `List`, and any other document, followed by the Ray objects in it."""
    document = found.document if isinstance(found.document, dict) else {}
    kind, items = document.get("kind"), document.get("items")
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(items, list):
        yield found
        # A template within a Ray object is not an object of its own.
        if not found.kind:
            yield from _find_ray_objects(found)
        return
    for index, item in enumerate(items):
        part = _part(found, ("items", index), _add_type_meta(item, document))
        yield from _expand_document(structs.replace(part, within=""))


def _add_type_meta(item: Any, listed: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever a file holds
    """Return an item with version and kind, which the API server omits in a list of one kind."""
    kind = listed["kind"].removesuffix("List")
    if not kind or not isinstance(item, dict):
        return item
    return {"apiVersion": listed.get("apiVersion"), "kind": kind, **item}


_TEXTS: Final = ("manifest", "content")
"""Fields whose text is an object: `resource.manifest` of an Argo Workflow, and
`spec.resources[].content` of a Bundle of Fleet.
"""


def _find_ray_objects(found: Manifest) -> Iterator[Manifest]:
    """Yield the Ray objects within an object, such as an AppWrapper."""
    for tokens, value in _inside(found.document, (), set()):
        part = _part(found, tokens, value)
        if not isinstance(value, str):
            yield part
        elif isinstance(part.node, ScalarNode):
            yield from _parse_ray_object(part, part.node)


def _inside(
    value: object, tokens: tuple[str | int, ...], visited: set[int]
) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the paths and values of Ray objects in a value, and of texts that may be some. A value
    with many aliases is visited once.
    """
    if not isinstance(value, dict | list) or id(value) in visited:
        return
    visited.add(id(value))
    if isinstance(value, dict) and tokens and _is_ray_object(value):
        yield tokens, value
        return
    entries: Iterable[tuple[str | int, object]]
    entries = value.items() if isinstance(value, dict) else enumerate(value)
    for key, entry in entries:
        if isinstance(entry, dict | list):
            yield from _inside(entry, (*tokens, key), visited)
        elif key in _TEXTS and isinstance(entry, str) and f"{RAY_GROUP}/" in entry:
            yield (*tokens, key), entry


def _is_ray_object(value: dict[str, Any]) -> bool:
    """Return whether a map is a Ray object, and not a reference, which has no spec."""
    version = value.get("apiVersion")
    named = isinstance(version, str) and version.startswith(f"{RAY_GROUP}/")
    return named and isinstance(value.get("spec"), dict)


def _parse_ray_object(part: Manifest, node: ScalarNode) -> Iterator[Manifest]:
    """Yield the Ray object in a text; a text that is not YAML before its variables are replaced is
    none.
    """
    try:
        inner = first_node(node.value)
        converter = Converter("")
        value = converter.value(inner) if inner is not None else None
    except (yaml.YAMLError, ManifestError):
        return
    if isinstance(value, dict) and _is_ray_object(value):
        block = node.style == "|"
        before = part.before + line_of(node)
        yield Manifest(
            part.file,
            value,
            # Only the lines of a literal block are lines of the file.
            node=inner if block else None,
            before=before,
            duplicates=(*converter.duplicates,),
            within=part.within,
        )


def _part(found: Manifest, tokens: tuple[str | int, ...], value: Any) -> Manifest:  # noqa: ANN401
    """Return a value in a document as a document."""
    node = found.node
    for token in tokens:
        entry = child(node, token) if node is not None else None
        node = entry[1] if entry is not None else None
    size = len(tokens)
    duplicates = (
        duplicate._replace(tokens=duplicate.tokens[size:])
        for duplicate in found.duplicates
        if duplicate.tokens[:size] == tokens and len(duplicate.tokens) > size
    )
    return Manifest(
        found.file,
        value,
        node=node,
        before=found.before,
        duplicates=tuple(duplicates),
        within=path_of(tokens),
    )
