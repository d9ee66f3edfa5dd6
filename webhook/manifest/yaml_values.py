"""The values of YAML nodes, as JSON types."""

from typing import Any, Final

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from webhook.manifest.manifest_error import TEMPLATE, ManifestError
from webhook.manifest.nesting import DEEPEST
from webhook.manifest.positions import is_merge, line_of, merged
from webhook.manifest.scalars import scalar

VALUES_MAX: Final = 10_000_000
"""Values of a document with its aliases written out: more would exhaust the memory of commands that
write an object as JSON.
"""


class Converter:
    """Converts the nodes of a file to values; shared nodes once, so that aliases are cheap."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._done: dict[int, Any] = {}
        self._open: set[int] = set()
        self._sizes: dict[int, int] = {}
        """The number of values in each map and list, with aliases written out."""

    def value(self, node: Node) -> Any:  # noqa: ANN401 - JSON has values of every type
        """Return the value of a node. Raises ManifestError for values that JSON lacks."""
        if isinstance(node, ScalarNode):
            return scalar(node.tag, node.value)
        key = id(node)
        if key in self._done:
            return self._done[key]
        if key in self._open or len(self._open) > DEEPEST:
            raise self._error(node, "an alias within itself, or nested too deeply")
        self._open.add(key)
        value = self._map(node) if isinstance(node, MappingNode) else self._list(node)
        self._open.discard(key)
        self._done[key] = value
        self._sizes[key] = 1 + sum(self._sizes.get(id(each), 1) for each in _children(node))
        if self._sizes[key] > VALUES_MAX:
            raise self._error(node, f"aliases that stand for more than {VALUES_MAX} values")
        return value

    def _list(self, node: Node) -> list[Any]:
        return [self.value(element) for element in node.value]

    def _map(self, node: MappingNode) -> dict[str, Any]:
        own: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            if is_merge(key):
                self._check_merge(value)
                continue
            name = self._key(key)
            if name in own:
                raise self._error(key, f"the key {name!r} stands on line {lines[name]} already")
            own[name], lines[name] = self.value(value), line_of(key)
        for parent in merged(node):
            for name, item in self.value(parent).items():
                own.setdefault(name, item)
        return own

    def _key(self, key: Node) -> str:
        if not isinstance(key, ScalarNode):
            hint = TEMPLATE if isinstance(key, MappingNode) else ""  # how YAML parses {{ x }}
            raise self._error(key, f"a key that is not a scalar{hint}")
        name: str = key.value
        return name

    def _check_merge(self, value: Node) -> None:
        parents = value.value if isinstance(value, SequenceNode) else [value]
        for parent in parents:
            if not isinstance(parent, MappingNode):
                raise self._error(value, "<< merges maps only")

    def _error(self, node: Node, problem: str) -> ManifestError:
        return ManifestError(self._file, line_of(node), problem)


def _children(node: Node) -> list[Node]:
    return [each for _, each in node.value] if isinstance(node, MappingNode) else list(node.value)
