"""The positions of an object's fields in its file."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from webhook.manifest.nesting import too_deep_at
from webhook.manifest.scalars import PLAIN

_MERGE: Final = "<<"


def _loader() -> type[Any]:
    """Return a loader that marks plain scalars, whose types depend on the schema."""
    base: type[Any] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    loader: Any = type("_Loader", (base,), {})
    loader.add_implicit_resolver(PLAIN, re.compile(""), None)
    made: type[Any] = loader
    return made


LOADER: Final = _loader()


def first_node(text: str) -> Node | None:
    """Return the first document of a text, None without a document. Raises yaml.YAMLError."""
    found: Node | None = next(iter(yaml.compose_all(text, Loader=LOADER)), None)
    return found


def line_of(node: Node) -> int:
    """Return the line of a node, from 1."""
    line: int = node.start_mark.line
    return line + 1


def line_at(node: Node, tokens: Sequence[str | int]) -> int:
    """Return the line of a field, also in nested YAML, or of its deepest existing parent."""
    line, above = line_of(node), 0
    for token in tokens:
        if isinstance(node, ScalarNode):
            inner = _inner(node)
            if inner is None:
                break
            node, above = inner, above + line_of(node)
        found = child(node, token)
        if found is None:
            break
        line, node = found[0] + above, found[1]
    return line


def _inner(node: ScalarNode) -> Node | None:
    """Return the node in a block text whose lines are those of the file, None for other texts."""
    if node.style != "|":
        return None
    try:
        return None if too_deep_at(node.value) else first_node(node.value)
    except yaml.YAMLError:
        return None


def child(node: Node, token: str | int) -> tuple[int, Node] | None:
    """Return the line and the node of an element or an entry; the line of an entry is its key's."""
    if isinstance(node, SequenceNode) and isinstance(token, int) and token < len(node.value):
        element = node.value[token]
        return line_of(element), element
    if not isinstance(node, MappingNode):
        return None
    for key, value in reversed(node.value):
        if isinstance(key, ScalarNode) and key.value == token and not is_merge(key):
            return line_of(key), value
    for parent in merged(node):
        found = child(parent, token)
        if found is not None:
            return found
    return None


def is_merge(key: Node) -> bool:
    """Return whether a key is YAML's `<<`."""
    return isinstance(key, ScalarNode) and key.tag == PLAIN and key.value == _MERGE


def merged(node: MappingNode) -> Iterator[MappingNode]:
    """Yield the maps that a map merges with `<<`, in order of precedence."""
    for key, value in node.value:
        if is_merge(key):
            parents = value.value if isinstance(value, SequenceNode) else [value]
            yield from (parent for parent in parents if isinstance(parent, MappingNode))
