"""YAML in a string field of an object, as Go parses it."""

import base64
import binascii
from functools import lru_cache
from typing import Any, Final

import yaml
from msgspec import Struct
from yaml.events import CollectionEndEvent, CollectionStartEvent, DocumentEndEvent
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from webhook.manifest.yaml_values import (
    CORE,
    DEEPEST,
    PLAIN,
    Converter,
    ManifestError,
    children,
    first_node,
    is_merge,
    scalar,
)

_VERSION: Final = (1, 1)
_TYPES: Final = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}
_SPECIAL: Final = (".inf", "-.inf", "+.inf", ".nan")


class _RefusedError(Exception):
    """An error in the text."""


class Inline(Struct, frozen=True, eq=False):
    """A text that should be a YAML map: its value, or an error. `twice` is a duplicate key; Go uses
    the last value, so the map has a value. A text that gives two values one anchor has neither: Go
    takes it, and PyYAML does not.
    """

    value: dict[str, Any] | None
    problem: str = ""
    twice: str = ""


@lru_cache(maxsize=8)  # several rules, and both sides of an update, read the same text
def read_map(text: str, example: str) -> Inline:
    """Return the YAML map in the first document of a text, the only one that Go reads. The result
    is shared, and must not be changed.
    """
    try:
        _check_events(text)
        node = first_node(text)
        if node is None or _is_null(node):
            return Inline({})
        _check(node, set(), set())
        if isinstance(node, MappingNode):
            return Inline(Converter("").value(node))
    except ManifestError as error:
        return Inline(None, twice=f"line {error.line}: {error.problem}")
    except (yaml.YAMLError, UnicodeEncodeError, _RefusedError) as error:
        return Inline(None, _problem(error))
    return Inline(None, f"write a YAML map, such as {example}")


def _problem(error: Exception) -> str:
    if isinstance(error, _RefusedError):
        return f"not YAML: {error}"
    if not isinstance(error, yaml.MarkedYAMLError):
        return "not YAML: it has characters that YAML does not allow"
    if "duplicate anchor" in (error.context or ""):
        return ""
    line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
    return f"not YAML: {line}{error.problem}"


def _check_events(text: str) -> None:
    """Raise _RefusedError for another version of YAML, and for deep nesting, on which the composer
    in C crashes.
    """
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, DocumentEndEvent):
            return
        if getattr(event, "version", None) not in (None, _VERSION):
            msg = "write %YAML 1.1, which is the only version that Go reads, or leave it out"
            raise _RefusedError(msg)
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > DEEPEST:
            raise _RefusedError("nested too deeply")


def _check(node: Node, above: set[int], done: set[int]) -> None:
    """Raise _RefusedError for a node that Go rejects. `above` and `done` are the ids of the nodes
    that contain it, and of those without errors.
    """
    if isinstance(node, ScalarNode):
        _check_tag(node)
    elif id(node) in above:
        raise _RefusedError("an alias within itself")
    elif id(node) not in done:
        if isinstance(node, MappingNode):
            for key, value in node.value:
                _check_key(key)
                if is_merge(key):
                    _check_merge(key, value)
        above.add(id(node))
        for each in children(node):
            _check(each, above, done)
        above.remove(id(node))
        done.add(id(node))


def _check_key(key: Node) -> None:
    if not isinstance(key, ScalarNode):
        kind = "a map" if isinstance(key, MappingNode) else "a list"
        raise _RefusedError(f"{kind} cannot be a key")
    if _is_null(key):
        raise _RefusedError("null cannot be a key")
    _check_tag(key)


def _check_merge(key: Node, value: Node) -> None:
    """Raise _RefusedError unless `<<` has a map, or a list of maps that is not an alias."""
    parents = [value]
    if isinstance(value, SequenceNode) and value.start_mark.index > key.start_mark.index:
        parents = value.value
    if not all(isinstance(each, MappingNode) for each in parents):
        raise _RefusedError("<< merges maps only")


def _is_null(node: Node) -> bool:
    return node.tag == PLAIN and scalar(PLAIN, node.value) is None


def _check_tag(node: ScalarNode) -> None:
    """Raise _RefusedError for a value that contradicts its tag."""
    name = node.tag.removeprefix(CORE)
    if name == "binary" and not _is_base64(node.value):
        raise _RefusedError("!!binary needs base64")
    if node.value.lower() in _SPECIAL and node.tag in (PLAIN, f"{CORE}float"):
        raise _RefusedError(f"{node.value} is not a number in JSON")
    value = scalar(PLAIN, node.value)
    if name in _TYPES and type(value) not in _TYPES[name]:
        raise _RefusedError(f"{node.value[:40]!r} is not of type !!{name}")


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode("".join(text.split("\n")).replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
