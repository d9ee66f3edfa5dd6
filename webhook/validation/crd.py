"""KubeRay's CustomResourceDefinitions: the fields of each release, with their types and limits.

The data is `crd_table.json`, written by `make kuberay`.
"""

from collections.abc import Iterator
from functools import cache
from pkgutil import get_data
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from webhook.validation.field import Field
from webhook.validation.finding import KubeRay
from webhook.validation.rule_settings import DEFAULT_GATES, parse_kuberay

INT32: Final = (-(2**31), 2**31 - 1)
INT64: Final = (-(2**63), 2**63 - 1)

NUMBERS: Final = {"int32": INT32, "int-or-string": INT32, "int64": INT64}
"""The plain types that Go decodes into an integer, with their ranges.

https://github.com/kubernetes/apimachinery/blob/master/pkg/util/intstr/intstr.go (`IntOrString`)
"""

NEWEST: Final = max(DEFAULT_GATES)
"""The release of KubeRay that is assumed if none is configured or detected."""


class Part(Struct, rename="camel", frozen=True):
    """One part of a schema. Parts are named by plain types, such as `int32`, or by their number."""

    type: str = ""
    fields: dict[str, str | int] | None = None
    required: tuple[str, ...] = ()
    defaulted: tuple[str, ...] = ()
    list: str | int | None = None
    map: str | int | None = None
    keys: tuple[str, ...] = ()
    set: bool = False
    enum: tuple[Any, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    pattern: str = ""

    @property
    def entries(self) -> "str | int | None":
        """The part of the elements of a list, or of the values of a map."""
        return self.list if self.list is not None else self.map

    def below(self, key: str) -> "str | int | None":
        """Return the part of the entry or field `key`, or None."""
        return self.map if self.map is not None else (self.fields or {}).get(key)


class _Table(Struct):
    roots: dict[str, dict[str, int]]
    parts: list[Part]


class Schema(Struct, frozen=True):
    """The schemas of one release of KubeRay."""

    roots: dict[str, int]
    parts: list[Part] = field(default_factory=list)

    def part(self, name: str | int) -> Part:
        """Return a part; a plain type is a part with only a type."""
        return self.parts[name] if isinstance(name, int) else _plain(name)


@cache
def _plain(name: str) -> Part:
    return Part(type=name)


@cache
def _table() -> _Table:
    return msgspec.json.decode(get_data(__package__, "crd_table.json") or b"", type=_Table)


def walk_schema(value: Field, schema: Schema, name: str | int) -> Iterator[tuple[Field, Part]]:
    """Yield a value and all values in it that the schema describes, each with its part."""
    part = schema.part(name)
    yield value, part
    if type(value.value) is list and part.list is not None:
        for item in value.items():
            yield from walk_schema(item, schema, part.list)
    for key, json_value in value.map.items():
        below = part.below(key)
        if below is not None and json_value is not None:
            entry = value.key(key) if part.map is not None else value / key
            yield from walk_schema(entry, schema, below)


def releases() -> list[KubeRay]:
    """Return the releases with known schemas, the oldest first."""
    return sorted(filter(None, map(parse_kuberay, _table().roots)))


@cache
def schema_of(release: KubeRay | None) -> Schema:
    """Return the schemas of a release, of the nearest known one before it, or of the newest."""
    known_releases, target_release = releases(), release or NEWEST
    nearest = max(
        (known_release for known_release in known_releases if known_release <= target_release),
        default=known_releases[0],
    )
    return Schema(_table().roots[".".join(map(str, nearest))], _table().parts)


def release_of(fields: frozenset[str]) -> KubeRay | None:
    """Return the newest release that has no field of a RayCluster outside `fields`, or None.

    `fields` are those of a spec and those one level below, such as `headGroupSpec.resources`: all
    deeper fields are Kubernetes' own. Each release adds fields.
    """
    return max((release for release in releases() if _fields_of(release) <= fields), default=None)


def _fields_of(release: KubeRay) -> set[str]:
    schema = schema_of(release)
    root = schema.part(schema.roots["v1/RayCluster"]).fields or {}
    field_names = set()
    for name, below in (schema.part(root["spec"]).fields or {}).items():
        part = schema.part(below)
        entry_part = part if part.list is None else schema.part(part.list)
        field_names |= {name, *(f"{name}.{field_name}" for field_name in entry_part.fields or ())}
    return field_names
