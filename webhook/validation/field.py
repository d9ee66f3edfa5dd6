"""A field of an object that may be garbage: its value, and its place, written out only for
findings.

See docs/contributing/decisions/0006-rules-read-plain-json.md.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

_ENTRIES: Final = {
    "workerGroupSpecs": "worker group",
    "containers": "container",
    "initContainers": "init container",
    "volumes": "volume",
    "env": "variable",
}
"""Lists whose entries a message calls by their names."""
_PARTS: Final = {
    "headGroupSpec": "the head",
    "submitterPodTemplate": "the submitter",
    "autoscalerOptions": "the autoscaler",
}
"""Fields that a message calls by what they describe."""
_OWN: Final = ("name", "groupName", "value", "template", "spec")
"""Fields that say nothing beside the entry or the part that has them."""
_TOKEN: Final = re.compile(r"\[[^\]]*\]|\.?[^.\[]+")
"""A part of a path."""
_NAME_MAX: Final = 40
"""Characters of a name in a message."""


class Key(str):
    """A key that people choose, such as the name of a label; a path shows it in brackets."""

    __slots__ = ()


class Field(Struct, frozen=True, eq=False):
    """A value of decoded JSON with the way to it. An absent field has the value None.

    Nothing is assumed about types: what is not of the asked type reads as absent. The API server
    refuses such an object by the schema of its kind before or after us, so a rule has nothing to
    say about it.
    """

    value: Any
    parent: "Field | None" = None
    token: str | int = ""

    def __truediv__(self, name: str) -> "Field":
        """Return the field `name` of this map."""
        value = self.value
        return Field(value.get(name) if type(value) is dict else None, self, name)

    def key(self, name: str) -> "Field":
        """Return the entry `name` of this map, whose keys are people's choice."""
        value = self.value
        return Field(value.get(name) if type(value) is dict else None, self, Key(name))

    def items(self) -> Iterator["Field"]:
        """Yield the elements of this list."""
        if type(self.value) is list:
            for index, value in enumerate(self.value):
                yield Field(value, self, index)

    @property
    def given(self) -> bool:
        """Return whether the field is there, whatever its type."""
        return self.value is not None

    @property
    def text(self) -> str:
        """The value, when it is a string; else nothing."""
        return self.value if type(self.value) is str else ""

    @property
    def number(self) -> int | None:
        """The value, when it is an integer."""
        return self.value if type(self.value) is int else None

    @property
    def flag(self) -> bool:
        """Return whether the value is `true`."""
        return self.value is True

    @property
    def map(self) -> dict[str, Any]:
        """The value, when it is a map; else an empty one."""
        return self.value if type(self.value) is dict else {}

    @property
    def strings(self) -> dict[str, str]:
        """The entries of this map that are strings."""
        return {key: value for key, value in self.map.items() if type(value) is str}

    @property
    def size(self) -> int:
        """How many elements or entries there are."""
        return len(self.value) if type(self.value) in (list, dict) else 0

    @property
    def tokens(self) -> tuple[str | int, ...]:
        """The way from the object to this field."""
        return (*self.parent.tokens, self.token) if self.parent is not None else ()

    @property
    def path(self) -> str:
        """The way as Kubernetes writes it: `spec.workerGroupSpecs[2].numOfHosts`."""
        return "".join(_shown(token) for token in self.tokens).removeprefix(".")

    @property
    def subject(self) -> str:
        """The part of the object that has the field, in the reader's terms, such as `worker group
        "tpu", container "ray-worker"`; nothing for a field of the object itself.
        """
        names: list[str] = []
        field: Field | None = self
        while field is not None and field.parent is not None:
            if type(field.token) is int:
                kind = _ENTRIES.get(str(field.parent.token))
                if kind:
                    names.append(f'{kind} "{_cut(field.name)}"' if field.name else "")
            elif type(field.token) is str and field.token in _PARTS:
                names.append(_PARTS[field.token])
            field = field.parent
        return ", ".join(filter(None, reversed(names)))

    @property
    def called(self) -> str:
        """The name of the field; nothing for an element of a list, and for what every element has,
        such as `name`.
        """
        return "" if type(self.token) is int or self.token in _OWN else str(self.token)

    @property
    def identity(self) -> tuple[str | int, ...]:
        """The way with names in place of indices, where an element has one: it survives that
        elements move.
        """
        if self.parent is None:
            return ()
        return (*self.parent.identity, self.name or self.token)

    @property
    def name(self) -> str:
        """The name of this element of a list, or nothing."""
        if type(self.token) is not int or type(self.value) is not dict:
            return ""
        name = self.value.get("groupName") or self.value.get("name")
        return name if type(name) is str else ""

    def renamed(self, old: "Field") -> bool:
        """Return whether this was the field `old` of an earlier version: at the same indices, where
        each element with another name took the place of one whose name is gone.
        """
        if self.parent is None or old.parent is None:
            return self.parent is old.parent
        if self.name != old.name:
            before = {each.name for each in old.parent.items()}
            after = {each.name for each in self.parent.items()}
            if self.name in before or old.name in after:
                return False
        return self.token == old.token and self.parent.renamed(old.parent)

    @property
    def position(self) -> tuple[tuple[int, str], ...]:
        """What to sort by: names by letter, elements by index."""
        return tuple(
            (token, "") if isinstance(token, int) else (-1, token) for token in self.tokens
        )


def shortened(path: str, room: int) -> str:
    """Return a path in at most `room` characters, from which the middle is left out."""
    if len(path) <= room:
        return path
    first, *rest = _TOKEN.findall(path) or [path]
    tail = ""
    for token in reversed(rest):
        if len(first) + len("…") + len(token) + len(tail) > room:
            break
        tail = token + tail
    if tail:
        return f"{first}…{tail}"
    half = max(room - 1, 0) // 2
    return f"{path[:half]}…{path[len(path) - half :]}"


def _cut(name: str) -> str:
    return name if len(name) <= _NAME_MAX else f"{name[: _NAME_MAX - 1]}…"


def _shown(token: str | int) -> str:
    return f"[{token}]" if isinstance(token, Key | int) else f".{token}"
