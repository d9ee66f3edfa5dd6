"""Objects in YAML or JSON files, each with the line of every field."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml
from msgspec import Struct
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from webhook.manifest.nesting import DEEPEST, too_deep_at

STDIN: Final = "-"
SUFFIXES: Final = (".yaml", ".yml", ".json")

_PLAIN: Final = "!plain"
_PREFIX: Final = "tag:yaml.org,2002:"
_MERGE: Final = "<<"
_SURROGATES: Final = re.compile(
    r"(?P<before>(?<!\\)(?:\\\\)*)\\u(?P<high>[dD][89abAB][0-9a-fA-F]{2})(?:\\u(?P<low>[dD][c-fC-F][0-9a-fA-F]{2}))?"
)


class Unreadable(Exception):  # noqa: N818 - named for what it is
    """A file, or a place in it, that cannot be read. `line` counts from 1; 0 is the file as a whole."""

    def __init__(self, file: str, line: int, problem: str) -> None:
        super().__init__(f"{file}:{line}: {problem}" if line else f"{file}: {problem}")
        self.file = file
        self.line = line
        self.problem = problem


class Located(Struct):
    """One object: its value as JSON would have it, and where it is written."""

    file: str
    value: Any
    node: Node

    def line(self, tokens: tuple[str | int, ...]) -> int:
        """Return the line of a field, or of the deepest part of the way to it that there is."""
        node, line = self.node, _line(self.node)
        for token in tokens:
            found = _child(node, token)
            if found is None:
                break
            line, node = found
        return line


def _loader() -> type[Any]:
    """Return a loader that marks plain scalars, whose types YAML leaves open, and is as fast as it can be."""
    base: type[Any] = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    loader: Any = type("_Loader", (base,), {})
    loader.add_implicit_resolver(_PLAIN, re.compile(""), None)
    made: type[Any] = loader
    return made


_LOADER: Final = _loader()


def read(paths: list[str]) -> Iterator[Located | Unreadable]:
    """Yield the objects of files, of all files below directories, and of standard input for `-`; and what cannot be read.

    What is not an object, such as a list or an empty document, is yielded as well.
    """
    for path in paths:
        for file in _files(path):
            try:
                yield from _objects(file)
            except Unreadable as problem:
                yield problem


def _files(path: str) -> list[str]:
    if path == STDIN or not Path(path).is_dir():
        return [path]
    return sorted(
        str(file)
        for file in Path(path).rglob("*")
        if file.suffix in SUFFIXES and file.is_file() and not _hidden(file.relative_to(path))
    )


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _text(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == STDIN else Path(file).read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise Unreadable(file, 0, error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        raise Unreadable(file, data[: error.start].count(b"\n") + 1, "not UTF-8") from None
    return _json_as_yaml(text) if text.lstrip()[:1] in ("{", "[") else text


def _json_as_yaml(text: str) -> str:
    """Return JSON as YAML can read it: without tabs between tokens, and without characters written as two surrogates."""
    return _SURROGATES.sub(_joined, text.replace("\t", " "))


def _joined(match: re.Match[str]) -> str:
    low = int(match["low"], 16) - 0xDC00 if match["low"] else None
    character = 0xFFFD if low is None else 0x10000 + ((int(match["high"], 16) - 0xD800) << 10) + low
    return f"{match['before']}\\U{character:08x}"


def _objects(file: str) -> Iterator[Located]:
    name = "<stdin>" if file == STDIN else file
    try:
        text = _text(file)
        line = too_deep_at(text)
        if line is not None:
            raise Unreadable(name, line, "nested too deeply")
        for node in yaml.compose_all(text, Loader=_LOADER):
            yield from _unfolded(Located(name, _Converter(name).value(node), node))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unreadable(name, mark.line + 1 if mark else 0, error.problem or "not YAML") from None
    except yaml.YAMLError as error:
        raise Unreadable(name, 0, " ".join(str(error).split())) from None


def _unfolded(found: Located) -> Iterator[Located]:
    """Yield the items of a `List` one by one, and any other object as it is."""
    value = found.value
    kind, items = (value.get("kind"), value.get("items")) if isinstance(value, dict) else (None, None)
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(items, list):
        yield found
        return
    child = _child(found.node, "items")
    nodes = child[1].value if child is not None else []
    for item, node in zip(items, nodes, strict=True):
        yield from _unfolded(Located(found.file, item, node))


def _line(node: Node) -> int:
    line: int = node.start_mark.line
    return line + 1


def _child(node: Node, token: str | int) -> tuple[int, Node] | None:
    """Return the line and the node of an element or an entry; that of a key is the key's."""
    if isinstance(node, SequenceNode) and isinstance(token, int) and token < len(node.value):
        element = node.value[token]
        return _line(element), element
    if not isinstance(node, MappingNode):
        return None
    for key, value in reversed(node.value):
        if isinstance(key, ScalarNode) and key.value == token and not _is_merge(key):
            return _line(key), value
    for parent in _merged(node):
        found = _child(parent, token)
        if found is not None:
            return found
    return None


def _is_merge(key: Node) -> bool:
    return isinstance(key, ScalarNode) and key.tag == _PLAIN and key.value == _MERGE


def _merged(node: MappingNode) -> Iterator[MappingNode]:
    """Yield the maps that a map merges in with `<<`, the strongest first."""
    for key, value in node.value:
        if _is_merge(key):
            parents = value.value if isinstance(value, SequenceNode) else [value]
            yield from (parent for parent in parents if isinstance(parent, MappingNode))


class _Converter:
    """Turns nodes into the values of JSON, each shared node once, so that aliases cost nothing."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._done: dict[int, Any] = {}
        self._open: set[int] = set()

    def value(self, node: Node) -> Any:  # noqa: ANN401 - JSON has values of every type
        """Return the value of a node. Raises Unreadable for what JSON cannot have."""
        if isinstance(node, ScalarNode):
            return scalar(node.tag, node.value)
        key = id(node)
        if key in self._done:
            return self._done[key]
        if key in self._open or len(self._open) > DEEPEST:
            raise Unreadable(self._file, _line(node), "an alias within itself, or nested too deeply")
        self._open.add(key)
        value = self._map(node) if isinstance(node, MappingNode) else [self.value(element) for element in node.value]
        self._open.discard(key)
        self._done[key] = value
        return value

    def _map(self, node: MappingNode) -> dict[str, Any]:
        own: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key, value in node.value:
            if _is_merge(key):
                self._check_merge(value)
                continue
            name = self._key(key)
            if name in own:
                raise Unreadable(self._file, _line(key), f"the key {name!r} stands on line {lines[name]} already")
            own[name], lines[name] = self.value(value), _line(key)
        for parent in _merged(node):
            for name, item in self.value(parent).items():
                own.setdefault(name, item)
        return own

    def _key(self, key: Node) -> str:
        if not isinstance(key, ScalarNode):
            raise Unreadable(self._file, _line(key), "a key that is not a scalar")
        name: str = key.value
        return name

    def _check_merge(self, value: Node) -> None:
        parents = value.value if isinstance(value, SequenceNode) else [value]
        for parent in parents:
            if not isinstance(parent, MappingNode):
                raise Unreadable(self._file, _line(value), "<< merges maps only")


_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE: Final = frozenset(word for base in ("y", "yes", "true", "on") for word in (base, base.title(), base.upper()))
_FALSE: Final = frozenset(word for base in ("n", "no", "false", "off") for word in (base, base.title(), base.upper()))
_INTEGER: Final = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[1-9][0-9_]*|0)", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_LONGEST_NUMBER: Final = 64


def scalar(tag: str, text: str) -> str | float | bool | None:
    """Return the value of a scalar as Kubernetes' YAML 1.1 has it: `yes` and `on` are booleans, dates are strings."""
    if tag not in (_PLAIN, *(_PREFIX + name for name in ("null", "bool", "int", "float"))):
        return text
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if len(text) <= _LONGEST_NUMBER and _INTEGER.fullmatch(text):
        return _integer(text.replace("_", ""))
    return float(text) if len(text) <= _LONGEST_NUMBER and _FLOAT.fullmatch(text) else text


def _integer(text: str) -> int | str:
    digits = text.lstrip("+-")
    octal = len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
    try:
        return int(text, 8) if octal else int(text, 0)
    except ValueError:
        return text
