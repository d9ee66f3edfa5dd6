"""Where the fields of an object stand in its file."""

from collections.abc import Iterator, Sequence
from typing import Final

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from webhook.manifest.scalars import PLAIN

_MERGE: Final = "<<"


def line_of(node: Node) -> int:
    """Return the line of a node, from 1."""
    line: int = node.start_mark.line
    return line + 1


def line_at(node: Node, tokens: Sequence[str | int]) -> int:
    """Return the line of a field, or of the deepest part of the way to it that there is."""
    line = line_of(node)
    for token in tokens:
        found = child(node, token)
        if found is None:
            break
        line, node = found
    return line


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
    """Tell whether a key is YAML's `<<`."""
    return isinstance(key, ScalarNode) and key.tag == PLAIN and key.value == _MERGE


def merged(node: MappingNode) -> Iterator[MappingNode]:
    """Yield the maps that a map merges in with `<<`, the strongest first."""
    for key, value in node.value:
        if is_merge(key):
            parents = value.value if isinstance(value, SequenceNode) else [value]
            yield from (parent for parent in parents if isinstance(parent, MappingNode))
