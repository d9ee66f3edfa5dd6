"""The repeated parts of objects, from the schemas of their kinds: every list and every map."""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct, inspect

from webhook.api.objects import EnvVar
from webhook.validation.crd import Schema, schema_of

Object = dict[str, Any]
Path = tuple[str | int, ...]
ENTRY: Final = 0
"""In a path, the entries of a list; those of a map are `*`."""
ANY: Final = "*"
_DEPTH: Final = 3
_NESTED: Final = ("object", "list", "map")


class Part(Struct):
    """A part of a schema: the fields of an object, or the entries of a list or map, or a scalar."""

    kind: str
    fields: dict[str, "Part"] = {}
    entries: "Part | None" = None
    choices: tuple[Any, ...] = ()


def crd_part(name: str | int, schema: Schema) -> Part:
    part = schema.part(name)
    if part.fields is not None:
        fields = {key: crd_part(below, schema) for key, below in part.fields.items()}
        return Part("object", fields)
    if part.list is not None:
        return Part("list", entries=crd_part(part.list, schema))
    if part.map is not None:
        return Part("map", entries=crd_part(part.map, schema))
    return Part(part.type, choices=part.enum)


def kind_part(kind: str) -> Part:
    schema = schema_of(None)
    return crd_part(schema.roots[f"v1/{kind}"], schema)


def type_part(kind: Any) -> Part:  # noqa: ANN401 - a type
    return _info_part(inspect.type_info(kind))


def _info_part(info: inspect.Type) -> Part:
    part = Part("string")
    match info:
        case inspect.StructType():
            fields = {each.encode_name: _info_part(each.type) for each in info.fields}
            if fields.keys() >= {"name", "image", "env"}:  # its variables are decoded later
                fields["env"] = type_part(list[EnvVar])
            part = Part("object", fields)
        case inspect.ListType() | inspect.VarTupleType():
            part = Part("list", entries=_info_part(info.item_type))
        case inspect.DictType():
            part = Part("map", entries=_info_part(info.value_type))
        case inspect.UnionType():
            types = [each for each in info.types if not isinstance(each, inspect.NoneType)]
            parts = [_info_part(each) for each in types]
            part = max(parts, key=lambda each: (each.kind in _NESTED, each.kind))
        case inspect.IntType() | inspect.FloatType():
            part = Part("number")
        case inspect.BoolType():
            part = Part("boolean")
    return part


def repeated(part: Part, path: Path = ()) -> Iterator[Path]:
    if part.entries is not None:
        yield path
        yield from repeated(part.entries, (*path, ENTRY if part.kind == "list" else ANY))
    for key, below in part.fields.items():
        yield from repeated(below, (*path, key))


def sample(part: Part, number: int, depth: int = _DEPTH) -> Any:  # noqa: ANN401 - JSON
    if part.kind == "object":
        return {
            key: sample(below, number, depth - 1)
            for key, below in part.fields.items()
            if depth > 0 or (below.entries is None and not below.fields)
        }
    if part.entries is not None:
        entry = sample(part.entries, number, depth - 1)
        return [entry] if part.kind == "list" else {f"key-{number:06}": entry}
    if part.choices:
        return part.choices[number % len(part.choices)]
    if part.kind in ("integer", "int32", "int64", "number"):
        return number % 100
    return {"boolean": True, "date-time": "2024-11-21T11:00:00Z"}.get(part.kind, f"x-{number:06}")


def filled(document: Any, part: Part, path: Path, number: int) -> Any:  # noqa: ANN401 - JSON
    if not path:
        assert part.entries is not None
        entries = [sample(part.entries, each) for each in range(number)]
        if part.kind == "list":
            return entries
        return {f"key-{each:06}": entry for each, entry in enumerate(entries)}
    key, *below = path
    if part.entries is None:
        inner, old = part.fields[str(key)], document.get(key)
        return {**document, key: filled(_like(inner, old), inner, tuple(below), number)}
    if part.kind == "list":
        first = document[0] if document else sample(part.entries, 0)
        return [filled(first, part.entries, tuple(below), number), *document[1:]]
    name = next(iter(document), "key")
    first = document.get(name) or _like(part.entries, None)
    return {**document, name: filled(first, part.entries, tuple(below), number)}


def _like(part: Part, old: Any) -> Any:  # noqa: ANN401 - JSON
    empty: Any = [] if part.kind == "list" else {}
    return old if type(old) is type(empty) else empty
