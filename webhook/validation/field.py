"""A field of an object of any shape: its value, and its path, which is formatted only for findings.

See docs/contributing/decisions/0006-rules-read-plain-json.md.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import Struct

from webhook.api.formats import shorten

_ENTRIES: Final = {
    "workerGroupSpecs": "worker group",
    "containers": "container",
    "initContainers": "init container",
    "volumes": "volume",
    "env": "variable",
}
"""Lists whose entries messages refer to by name."""
_PARTS: Final = {
    "headGroupSpec": "the head",
    "submitterPodTemplate": "the submitter",
    "autoscalerOptions": "the autoscaler",
}
"""Fields that messages refer to by the component that they describe."""
_OWN: Final = ("name", "groupName", "value", "template", "spec")
"""Fields that add nothing to the name of the entry or part that contains them."""
_TOKEN: Final = re.compile(r"\[[^\]]*\]|\.?[^.\[]+")
"""One element of a path."""
COMPARED_MAX: Final = 64
"""Keys of a map that rules compare with similar names: a map may have tens of thousands."""


class UserKey(str):
    """A key that users choose, such as the name of a label; a path contains it in brackets."""

    __slots__ = ()


class Field(Struct, frozen=True, eq=False):
    """A value of decoded JSON with its path. An absent field has the value None.

    No types are assumed: a value of another type reads as absent. The API server refuses such an
    object by the schema of its kind, so rules do not report it.
    """

    value: Any
    parent: "Field | None" = None
    token: str | int = ""

    def __truediv__(self, name: str) -> "Field":
        """Return the field `name` of this map."""
        value = self.value
        return Field(value.get(name) if type(value) is dict else None, self, name)

    def key(self, name: str) -> "Field":
        """Return the entry `name` of this map, whose keys users choose."""
        value = self.value
        return Field(value.get(name) if type(value) is dict else None, self, UserKey(name))

    def below(self, tokens: Iterable[str | int]) -> "Field":
        """Return the field at a path."""
        field = self
        for token in tokens:
            value = field.value
            if isinstance(token, str):
                field = field / token
            else:
                field = Field(value[token] if type(value) is list else None, field, token)
        return field

    def items(self) -> Iterator["Field"]:
        """Yield the elements of this list."""
        if type(self.value) is list:
            for index, value in enumerate(self.value):
                yield Field(value, self, index)

    def entries(self) -> Iterator["Field"]:
        """Yield the elements of this list that are maps."""
        for index, value in enumerate(self.value if type(self.value) is list else ()):
            if type(value) is dict:
                yield Field(value, self, index)

    @property
    def holder(self) -> "Field":
        """The map or list that contains this field; the field itself if it is the object."""
        return self.parent or self

    @property
    def given(self) -> bool:
        """Return whether the field exists, of any type."""
        return self.value is not None

    @property
    def text(self) -> str:
        """The value if it is a string, else an empty string."""
        return self.value if type(self.value) is str else ""

    @property
    def number(self) -> int | None:
        """The value if it is an integer, else None."""
        return self.value if type(self.value) is int else None

    @property
    def flag(self) -> bool:
        """Return whether the value is `true`."""
        return self.value is True

    @property
    def map(self) -> dict[str, Any]:
        """The value if it is a map, else an empty map."""
        return self.value if type(self.value) is dict else {}

    @property
    def strings(self) -> dict[str, str]:
        """The entries of this map that are strings."""
        return {key: value for key, value in self.map.items() if type(value) is str}

    @property
    def size(self) -> int:
        """The number of elements or entries."""
        return len(self.value) if type(self.value) in (list, dict) else 0

    @property
    def tokens(self) -> tuple[str | int, ...]:
        """The path from the object to this field."""
        return (*self.parent.tokens, self.token) if self.parent is not None else ()

    @property
    def path(self) -> str:
        """The path as Kubernetes writes it: `spec.workerGroupSpecs[2].numOfHosts`."""
        return "".join(_format_token(token) for token in self.tokens).removeprefix(".")

    @property
    def subject(self) -> str:
        """The part of the object that contains the field, in the reader's terms, such as `worker
        group "tpu", container "ray-worker"`; empty for a field of the object itself.
        """
        names: list[str] = []
        field: Field | None = self
        while field is not None and field.parent is not None:
            if type(field.token) is int:
                kind = _ENTRIES.get(str(field.parent.token))
                if kind:
                    names.append(f'{kind} "{shorten(field.name)}"' if field.name else "")
            elif type(field.token) is str and field.token in _PARTS:
                names.append(_PARTS[field.token])
            field = field.parent
        return ", ".join(filter(None, reversed(names)))

    @property
    def called(self) -> str:
        """The name of the field; empty for an element of a list, and for a field that every element
        has, such as `name`.
        """
        return "" if type(self.token) is int or self.token in _OWN else str(self.token)

    @property
    def identity(self) -> tuple[str | int, ...]:
        """The path with names in place of indices where elements have names, so that it does not
        change when elements move.
        """
        if self.parent is None:
            return ()
        return (*self.parent.identity, self.name or self.token)

    @property
    def name(self) -> str:
        """The name of this element of a list, or an empty string."""
        if type(self.token) is not int or type(self.value) is not dict:
            return ""
        name = self.value.get("groupName") or self.value.get("name")
        return name if type(name) is str else ""

    def renamed(self, old: "Field") -> bool:
        """Return whether this field replaced the field `old` of an earlier version: at the same
        indices, where elements with new names replaced elements whose names are gone.
        """
        if self.parent is None or old.parent is None:
            return self.parent is old.parent
        if self.name != old.name:
            old_names = {element.name for element in old.parent.items()}
            new_names = {element.name for element in self.parent.items()}
            if self.name in old_names or old.name in new_names:
                return False
        return self.token == old.token and self.parent.renamed(old.parent)

    @property
    def position(self) -> tuple[tuple[int, str], ...]:
        """The sort key: names by letter, elements by index."""
        return tuple(
            (token, "") if isinstance(token, int) else (-1, token) for token in self.tokens
        )


def at(value: object, *path: str) -> Any:  # noqa: ANN401 - JSON
    """Return the value at a path of plain JSON, or None."""
    for name in path:
        value = value.get(name) if type(value) is dict else None
    return value


def shorten_path(path: str, limit: int) -> str:
    """Return a path in at most `limit` characters, with its middle left out."""
    if len(path) <= limit:
        return path
    first, *rest = _TOKEN.findall(path) or [path]
    tail = ""
    for token in reversed(rest):
        if len(first) + len("…") + len(token) + len(tail) > limit:
            break
        tail = token + tail
    if tail:
        return f"{first}…{tail}"
    half = max(limit - 1, 0) // 2
    return f"{path[:half]}…{path[len(path) - half :]}"


def _format_token(token: str | int) -> str:
    return f"[{token}]" if isinstance(token, UserKey | int) else f".{token}"
