"""The reader of manifests: the objects in a file, with the line of every field."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import yaml
from msgspec import Struct
from yaml.nodes import Node

from webhook.api.names import known_kind
from webhook.manifest.yaml_values import (
    TEMPLATE,
    Converter,
    Loader,
    ManifestError,
    check_nesting,
    child,
    line_at,
    problem_of,
)


def as_yaml(documents: Iterable[dict[str, Any]]) -> str:
    """Return objects as the documents of a file, with the order of their fields."""
    text: str = yaml.safe_dump_all(documents, sort_keys=False, width=132)
    return text


_SURROGATES: Final = re.compile(
    r"(?P<before>(?<!\\)(?:\\\\)*)\\u(?P<high>[dD][89abAB][0-9a-fA-F]{2})"
    r"(?:\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2}))?"
)


class Manifest(Struct, frozen=True):
    """One document of a file: usually an object, but possibly any other YAML value."""

    file: str
    document: Any
    node: Node | None = None

    @property
    def kind(self) -> str:
        """The kind of a Ray object or a Pod of a supported version, empty for anything else."""
        held = self.document if isinstance(self.document, dict) else {}
        return known_kind(held.get("apiVersion"), held.get("kind"))

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of an object, empty if they are no map."""
        held = self.document.get("metadata") if isinstance(self.document, dict) else None
        return held if isinstance(held, dict) else {}

    def line(self, tokens: Sequence[str | int]) -> int:
        """Return the line of a field, or of the nearest enclosing field; 0 without a file."""
        return line_at(self.node, tokens) if self.node is not None else 0


def read(name: str, data: bytes) -> Iterator[Manifest]:
    """Yield the documents of a file, and the items of a `List`.

    A document that is no Kubernetes object is yielded as well. Raises ManifestError at the first
    document that cannot be read.
    """
    text = text_of(name, data)
    try:
        check_nesting(name, text)
        for node in yaml.compose_all(text, Loader=Loader):
            yield from _unfolded(Manifest(name, Converter(name).value(node), node))
    except yaml.YAMLError as error:
        line, problem = problem_of(text, error)
        hint = TEMPLATE if b"{{" in data else ""
        raise ManifestError(name, line, f"not YAML: {problem}{hint}") from None


def text_of(name: str, data: bytes) -> str:
    """Return the YAML in a file, which may be written as JSON. Raises ManifestError."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ManifestError(name, line, "not a text file in UTF-8") from None
    return _json_as_yaml(text) if text.lstrip()[:1] in ("{", "[") else text


def _json_as_yaml(text: str) -> str:
    """Return JSON that YAML can read: without tabs between tokens, without surrogates."""
    return _SURROGATES.sub(_joined, text.replace("\t", " "))


def _joined(match: re.Match[str]) -> str:
    low = int(match["low"], 16) - 0xDC00 if match["low"] else None
    high = int(match["high"], 16) - 0xD800
    character = 0xFFFD if low is None else 0x10000 + (high << 10) + low
    return f"{match['before']}\\U{character:08x}"


def _unfolded(found: Manifest) -> Iterator[Manifest]:
    """Yield the items of a `List`, and any other document unchanged."""
    held = found.document if isinstance(found.document, dict) else {}
    kind, items = held.get("kind"), held.get("items")
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(items, list):
        yield found
        return
    listed = child(found.node, "items") if found.node is not None else None
    nodes = listed[1].value if listed is not None else []
    for item, node in zip(items, nodes, strict=True):
        yield from _unfolded(Manifest(found.file, _headed(item, held), node))


def _headed(item: Any, listed: dict[str, Any]) -> Any:  # noqa: ANN401 - whatever a file holds
    """Return an item with version and kind, which the API server omits in a list of one kind."""
    kind = listed["kind"].removesuffix("List")
    if not kind or not isinstance(item, dict):
        return item
    return {"apiVersion": listed.get("apiVersion"), "kind": kind, **item}
