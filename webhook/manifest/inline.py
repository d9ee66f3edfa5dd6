"""YAML in a string field of an object, as Go parses it."""

import base64
import binascii
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import yaml
from msgspec import Struct
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)

from webhook.manifest.yaml_values import (
    CORE,
    DEEPEST,
    PLAIN,
    Converter,
    ManifestError,
    first_node,
    scalar,
)

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_VERSION: Final = (1, 1)
_TYPES: Final = {"int": (int,), "float": (int, float), "bool": (bool,), "null": (type(None),)}
_SPECIAL: Final = (".inf", "-.inf", "+.inf", ".nan")

_MAP: Final = "a map"
_LIST: Final = "a list"
_SCALAR: Final = "a scalar"


class _RefusedError(Exception):
    """An error in the text."""


class _Open(Struct):
    """A map or list that is being read; `merges`: whether the next values are for `<<`."""

    kind: str
    anchor: str
    at_key: bool = False
    merges: bool = False


class Inline(Struct, frozen=True, eq=False):
    """A text that should be a YAML map: its value, or an error. `twice` is a duplicate key; Go uses
    the last value, so the map has a value.
    """

    value: dict[str, Any] | None
    problem: str = ""
    twice: str = ""


@lru_cache(maxsize=8)  # several rules, and both sides of an update, read the same text
def read_map(text: str, example: str) -> Inline:
    """Return the YAML map in a text. The result is shared, and must not be changed."""
    problem = _problem(text, example)
    if problem:
        return Inline(None, problem)
    try:
        node = first_node(text)
        return Inline(Converter("").value(node) or {} if node is not None else {})
    except ManifestError as error:
        return Inline(None, twice=f"line {error.line}: {error.problem}")


def _problem(text: str, example: str) -> str:
    """Return the error of a text that should be a YAML map such as `example`, or an empty string.

    Only the first document counts, as in Go. Events are read, and never composed: the composer in C
    crashes on deep nesting.
    """
    try:
        first = _Reader().read(_first_document(text))
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        return f"not YAML: {line}{error.problem}"
    except (yaml.YAMLError, UnicodeEncodeError):
        return "not YAML: it has characters that YAML does not allow"
    except _RefusedError as error:
        return f"not YAML: {error}"
    is_map = first is None or isinstance(first, MappingStartEvent) or _empty(first)
    return "" if is_map else f"write a YAML map, such as {example}"


def _first_document(text: str) -> Iterator[Event]:
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, DocumentEndEvent):
            return
        if isinstance(event, DocumentStartEvent) and event.version not in (None, _VERSION):
            msg = "write %YAML 1.1, which is the only version that Go reads, or leave it out"
            raise _RefusedError(msg)
        yield event


def _empty(event: Event) -> bool:
    return isinstance(event, ScalarEvent) and _value(event) is None


def _value(event: ScalarEvent) -> object:
    return scalar(PLAIN, event.value) if event.implicit[0] else event.value


class _Reader:
    """A reader of the events of a document."""

    def __init__(self) -> None:
        self._open: list[_Open] = []
        self._anchors: dict[str, str] = {}

    def read(self, events: Iterator[Event]) -> Event | None:
        """Return the first node. Raises _RefusedError for YAML that Go rejects."""
        first = None
        for event in events:
            if isinstance(event, CollectionEndEvent):
                closed = self._open.pop()
                self._anchors[closed.anchor] = closed.kind
            elif isinstance(event, NodeEvent):
                first = first or event
                self._node(event)
        return first

    def _node(self, event: NodeEvent) -> None:
        kind = self._kind(event)
        merges = self._place(event, kind)
        if isinstance(event, CollectionStartEvent):
            self._open.append(_Open(kind, str(event.anchor), kind == _MAP, merges))
            if len(self._open) > DEEPEST:
                raise _RefusedError("nested too deeply")
        elif isinstance(event, ScalarEvent):
            self._anchors[str(event.anchor)] = kind
            _check_tag(event)

    def _kind(self, event: NodeEvent) -> str:
        if isinstance(event, AliasEvent):
            kind = self._anchors.get(str(event.anchor))
            if kind is None:
                raise _RefusedError(f"there is no anchor {str(event.anchor)[:40]}")
            return kind
        if isinstance(event, ScalarEvent):
            return _SCALAR
        return _MAP if isinstance(event, MappingStartEvent) else _LIST

    def _place(self, event: NodeEvent, kind: str) -> bool:
        """Check a node in its collection; return whether its elements have to be maps for `<<`."""
        holder = self._open[-1] if self._open else None
        if holder is None:
            return False
        if holder.kind == _LIST:
            if holder.merges and kind != _MAP:
                raise _RefusedError("<< merges maps only")
            return False
        holder.at_key = not holder.at_key
        if not holder.at_key:
            _check_key(event, kind)
            holder.merges = (
                isinstance(event, ScalarEvent) and event.value == "<<" and event.implicit[0]
            )
            return False
        if holder.merges and (kind == _SCALAR or (kind == _LIST and isinstance(event, AliasEvent))):
            raise _RefusedError("<< merges maps only")
        return holder.merges and kind == _LIST


def _check_key(event: NodeEvent, kind: str) -> None:
    if kind != _SCALAR:
        raise _RefusedError(f"{kind} cannot be a key")
    if isinstance(event, ScalarEvent) and _empty(event):
        raise _RefusedError("null cannot be a key")


def _check_tag(event: ScalarEvent) -> None:
    """Raise _RefusedError for a value that contradicts its tag."""
    name = str(event.tag or "").removeprefix(CORE)
    if name == "binary" and not _is_base64(event.value):
        raise _RefusedError("!!binary needs base64")
    if event.value.lower() in _SPECIAL and (event.implicit[0] or name == "float"):
        raise _RefusedError(f"{event.value} is not a number in JSON")
    value = scalar(PLAIN, event.value)
    if name in _TYPES and type(value) not in _TYPES[name]:
        raise _RefusedError(f"{event.value[:40]!r} is not of type !!{name}")


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode("".join(text.split("\n")).replace("\r", ""), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True
