"""YAML nodes: their nesting, their positions in the file, and their values as JSON types, as
Kubernetes parses them.
"""

import re
from base64 import b64decode
from collections.abc import Iterator, Sequence
from math import inf
from typing import Any, Final, NamedTuple, Self

import yaml
from yaml.events import CollectionEndEvent, CollectionStartEvent, DocumentEndEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.reader import ReaderError

from webhook.api.failures import InputError
from webhook.api.formats import shorten

TEMPLATE: Final = ": a template, such as Helm's, has to be rendered first"


class ManifestError(InputError):
    """A file, or a part of it, that cannot be read. `line` counts from 1; 0 is the whole file."""

    def __init__(self, file: str, line: int, problem: str) -> None:
        super().__init__(f"{file}:{line}: {problem}" if line else f"{file}: {problem}")
        self.file = file
        self.line = line
        self.problem = problem

    def __reduce__(self) -> tuple[type[Self], tuple[str, int, str]]:
        """Return the arguments from which pickle recreates the error in another process."""
        return type(self), (self.file, self.line, self.problem)


class DuplicateKey(NamedTuple):
    """A key that a map has more than once, with the path of its value and the first line."""

    tokens: tuple[str | int, ...]
    line: int

    @property
    def problem(self) -> str:
        return f"duplicate key {self.tokens[-1]!r}, first on line {self.line}"


_ALIAS: Final = re.compile(r"\*[^\s\[\]{},]+")


def problem_of(text: str, error: yaml.YAMLError) -> tuple[int, str]:
    """Return the line of an error of PyYAML, 0 if it is unknown, and the problem."""
    if isinstance(error, ReaderError):
        line = text.encode()[: error.position].count(b"\n") + 1
        return line, f"{error.reason}: remove the character U+{error.character:04X}"
    if not isinstance(error, yaml.MarkedYAMLError):
        return 0, "unreadable"
    mark = error.problem_mark or error.context_mark
    problem = error.problem or "unreadable"
    if mark and problem == "found undefined alias" and (alias := _ALIAS.match(text, mark.index)):
        problem = f"{problem} {alias[0]}"
    return mark.line + 1 if mark else 0, problem


DEEPEST: Final = 200
"""The maximum of nested collections. A Kubernetes object has about twenty."""


def check_nesting(file: str, text: str, before: int = 0, *, first: bool = False) -> None:
    """Raise ManifestError for nesting deeper than `DEEPEST`, on which the composer in C crashes;
    with `first`, only the first document is read. `before` is the number of lines of the file
    before the text. Raises yaml.YAMLError.
    """
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > DEEPEST:
            problem = f"nested too deeply: write at most {DEEPEST} levels"
            raise ManifestError(file, _line(event) + before, problem)
        if first and isinstance(event, DocumentEndEvent):
            return


_CORE: Final = "tag:yaml.org,2002:"
"""The prefix of the tags of YAML itself, which are written as `!!str`."""

_KNOWN: Final = ("null", "bool", "int", "float", "str", "map", "seq")


def unknown_tag(text: str) -> tuple[int, str] | None:
    """Return the first tag that JSON has no type for, such as `!secret`, and its line from 1."""
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        tag = getattr(event, "tag", None)
        if tag is not None and tag.removeprefix(_CORE) not in _KNOWN:
            return _line(event), tag
    return None


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


PLAIN: Final = "!plain"
"""The tag of a scalar without quotes and without a tag, whose type depends on its text."""

_TAGS: Final = (PLAIN, *(f"{_CORE}{name}" for name in _KNOWN[:4]))
_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))
_LONGEST_NUMBER: Final = 64
_SHORTEST_EXPONENT: Final = 1e21
"""The first number that JSON of Go has with an exponent."""
_INTEGER: Final = re.compile(
    r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[1-9][0-9_]*|0)", re.ASCII
)
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)


def _cases(*words: str) -> frozenset[str]:
    return frozenset(spelling for word in words for spelling in (word, word.title(), word.upper()))


_TRUE: Final = _cases("y", "yes", "true", "on")
_FALSE: Final = _cases("n", "no", "false", "off")


def scalar(tag: str, text: str) -> str | float | bool | None:
    """Return the value of a scalar in YAML 1.1: `yes` and `on` are booleans. Dates are strings."""
    if tag not in _TAGS:
        return text
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if len(text) <= _LONGEST_NUMBER and _INTEGER.fullmatch(text):
        return _integer(text)
    value = float(text) if len(text) <= _LONGEST_NUMBER and _FLOAT.fullmatch(text) else inf
    return text if value in (inf, -inf) else value  # Go reads 1e400 as a string, too


def as_stored(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a scalar as the API server stores it: Go writes a float without a fraction, such as
    2.0 and 1e+06, as an integer.
    """
    whole = type(value) is float and value.is_integer() and abs(value) < _SHORTEST_EXPONENT
    return int(value) if whole else value


def _integer(text: str) -> int | str:
    digits = text.replace("_", "").lstrip("+-")
    # YAML 1.1, as go-yaml reads it: 0644 is octal, as in the modes of files.
    octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
    try:
        value = int(digits, 8 if octal else 0)
    except ValueError:
        return text
    return -value if text[0] == "-" else value


_RESOLVED: Final[dict[type, str]] = {
    type(None): "null",
    bool: "bool",
    int: "int",
    float: "float",
    str: "str",
}
"""The tag of each type of value."""

_TIMESTAMP: Final = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:(?P<sign>[Tt ])[0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}"
    r"(?:\.[0-9]+)?(?(sign)(?:Z|[+-][0-9]{2}:[0-9]{2})?))?",
    re.ASCII,
)
_NO_NUMBERS: Final = frozenset(
    sign + infinity for infinity in (".inf", ".Inf", ".INF") for sign in ("", "+", "-")
) | {".nan", ".NaN", ".NAN"}


def mismatch(tag: str, text: str) -> str:
    """Return why Go's parser refuses a scalar: an explicit tag that does not fit its text, or a
    number that JSON lacks; empty if it accepts it.

    https://github.com/yaml/go-yaml/blob/v2.4.0/resolve.go
    """
    if tag in (PLAIN, f"{_CORE}float") and text in _NO_NUMBERS:
        return f"unsupported value: {text}"
    tag_name = tag.removeprefix(_CORE)
    if tag_name == tag or tag_name not in (*_KNOWN[:4], "timestamp", "binary"):
        return ""
    if tag_name == "binary":
        return "" if _is_base64(text) else "!!binary value contains invalid base64 data"
    if tag_name == "timestamp":
        resolved = tag_name if _TIMESTAMP.fullmatch(text) else "str"
    else:
        resolved = _RESOLVED[type(scalar(tag, text))]
    fits = resolved == tag_name or (resolved, tag_name) == ("int", "float")
    return "" if fits else f"cannot decode !!{resolved} `{shorten(text)}` as a !!{tag_name}"


def _is_base64(text: str) -> bool:
    try:
        b64decode(text.replace("\n", "").replace("\r", ""), validate=True)
    except ValueError:
        return False
    return True


_MERGE: Final = "<<"


class Loader(yaml.CBaseLoader):
    """A loader that marks plain scalars, whose types depend on the schema."""


Loader.add_implicit_resolver(PLAIN, re.compile(""), None)


def first_node(text: str) -> Node | None:
    """Return the first document of a text, None without a document. Raises yaml.YAMLError, and
    ManifestError for deep nesting.
    """
    check_nesting("", text, first=True)
    node: Node | None = next(iter(yaml.compose_all(text, Loader=Loader)), None)
    return node


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
        entry = child(node, token)
        if entry is None:
            break
        line, node = entry[0] + above, entry[1]
    return line


def _inner(node: ScalarNode) -> Node | None:
    """Return the node in a block text whose lines are those of the file, None for other texts."""
    if node.style != "|":
        return None
    try:
        return first_node(node.value)
    except (yaml.YAMLError, ManifestError):
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
    for parent in find_merged_maps(node):
        entry = child(parent, token)
        if entry is not None:
            return entry
    return None


def is_merge(key: Node) -> bool:
    """Return whether a key is YAML's `<<`."""
    return isinstance(key, ScalarNode) and key.tag == PLAIN and key.value == _MERGE


def is_null(node: Node) -> bool:
    """Return whether a node is null in any notation without a tag."""
    return isinstance(node, ScalarNode) and node.tag == PLAIN and node.value in _NULL


def find_merged_maps(node: MappingNode) -> Iterator[MappingNode]:
    """Yield the maps that a map merges with `<<`, in order of precedence."""
    for key, value in node.value:
        if is_merge(key):
            yield from (parent for parent in _parents(value) if isinstance(parent, MappingNode))


def _parents(value: Node) -> list[Node]:
    return value.value if isinstance(value, SequenceNode) else [value]


VALUES_MAX: Final = 10_000_000
"""Values of a document with its aliases written out: more would exhaust the memory of commands that
write an object as JSON.
"""


class Converter:
    """Converts the nodes of a document to values; shared nodes once, so that aliases are cheap.

    `before` is the number of lines before the document. Of a duplicate key the last value counts,
    as for kubectl, Helm and KubeRay.
    """

    def __init__(self, file: str, before: int = 0) -> None:
        self._file = file
        self._before = before
        self.duplicates: list[DuplicateKey] = []
        self._path: list[str | int] = []
        self._done: dict[int, Any] = {}
        self._open: set[int] = set()
        self._sizes: dict[int, tuple[int, int]] = {}
        """The numbers of values and levels in each map and list, with aliases written out."""

    def value(self, node: Node) -> Any:  # noqa: ANN401 - JSON has values of every type
        """Return the value of a node. Raises ManifestError for values that JSON lacks."""
        if isinstance(node, ScalarNode):
            self._check_tag(node)
            return scalar(node.tag, node.value)
        key = id(node)
        if key in self._done:
            return self._done[key]
        if key in self._open:
            raise self._error(node, "an alias within itself")
        self._open.add(key)
        value = self._map(node) if isinstance(node, MappingNode) else self._list(node)
        self._open.discard(key)
        self._done[key] = value
        below = (
            [child_node for _, child_node in node.value]
            if isinstance(node, MappingNode)
            else node.value
        )
        sizes = [self._sizes.get(id(child_node), (1, 0)) for child_node in below]
        values = 1 + sum(size for size, _ in sizes)
        depth = 1 + max((levels for _, levels in sizes), default=0)
        self._sizes[key] = values, depth
        if values > VALUES_MAX:
            raise self._error(node, f"aliases that stand for more than {VALUES_MAX} values")
        if depth > DEEPEST:
            message = f"nested too deeply with its aliases: write at most {DEEPEST} levels"
            raise self._error(node, message)
        return value

    def _list(self, node: Node) -> list[Any]:
        values = []
        for index, element in enumerate(node.value):
            self._path.append(index)
            values.append(self.value(element))
            self._path.pop()
        return values

    def _map(self, node: MappingNode) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            if is_merge(key):
                if not all(isinstance(parent, MappingNode) for parent in _parents(value)):
                    raise self._error(value, "<< merges maps only")
                continue
            name = self._key(key)
            self._path.append(name)
            if lines.get(name):
                self.duplicates.append(DuplicateKey((*self._path,), lines[name] + self._before))
            lines[name] = 0 if name in lines else line_of(key)  # a key is reported once
            entries[name] = self.value(value)
            self._path.pop()
        for parent in find_merged_maps(node):
            for name, item in self.value(parent).items():
                # Own keys win over merged ones: https://yaml.org/type/merge.html
                entries.setdefault(name, item)
        return entries

    def _key(self, key: Node) -> str:
        if not isinstance(key, ScalarNode):
            hint = TEMPLATE if isinstance(key, MappingNode) else ""  # how YAML parses {{ x }}
            raise self._error(key, f"a key that is not a scalar{hint}")
        if is_null(key):
            raise self._error(key, "null cannot be a key")
        self._check_tag(key)
        name: str = key.value
        return name

    def _check_tag(self, node: ScalarNode) -> None:
        if problem := mismatch(node.tag, node.value):
            raise self._error(node, problem)

    def _error(self, node: Node, problem: str) -> ManifestError:
        return ManifestError(self._file, line_of(node) + self._before, problem)
