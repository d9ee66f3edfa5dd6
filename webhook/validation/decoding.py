"""Values that KubeRay cannot decode: its Go types have smaller ranges than the schemas of its CRDs.

One such object stops KubeRay for all users: its client lists all objects of a kind in one request,
and the whole request fails.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Final

from msgspec import Meta, Struct, ValidationError, convert, defstruct, field

from webhook.validation.crd import INT32, NUMBERS, Schema, schema_of
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.ray_object import RayObject

_QUANTITY: Final = "quantity"
_EXPONENT: Final = re.compile(r"[^eE]*(?:Ei?|[eE][+-]?0*[0-9]{1,2})?", re.ASCII)
"""A quantity that matches the CRD's pattern and that Go parses in a short time: its exponent has at
most two digits. Amounts range from 1e-9 to 2^63, and Go expands each digit of an exponent:
1e-999999999 takes minutes and gigabytes. The ValidatingAdmissionPolicy in the API server has the
same limit.
"""

_NUMBER: Final = re.compile(r"[+-]?[0-9.]+[eE][-+.0-9]+", re.ASCII)
"""A quantity with an exponent; the CRD's pattern refuses other text with an `e`."""

_QUANTITIES: Final = (
    Annotated[str, Meta(pattern=rf"^(?:{_EXPONENT.pattern})\Z")] | float | int | None
)


class Limited(Struct):
    """The part of a schema that contains fields or entries with limited values."""

    low: int = 0
    high: int = 0
    quantity: bool = False
    fields: dict[str, "Limited"] = field(default_factory=dict)
    entries: "Limited | None" = None
    shape: Any = None
    """The type by which msgspec checks whether a value fits; built on first use."""


@cache
def limits_of(kind: str) -> Limited:
    """Return the limited values of an object of a Ray kind."""
    schema = schema_of(None)
    return _limited(schema, schema.roots[f"v1/{kind}"]) or Limited()


def _limited(schema: Schema, name: str | int) -> Limited | None:
    part = schema.part(name)
    if part.type in NUMBERS:
        return Limited(*NUMBERS[part.type])
    if part.type == _QUANTITY:
        return Limited(quantity=True)
    below = part.list if part.list is not None else part.map
    if below is not None:
        entries = _limited(schema, below)
        return Limited(entries=entries) if entries is not None else None
    held = {key: _limited(schema, each) for key, each in (part.fields or {}).items()}
    fields = {key: each for key, each in held.items() if each is not None}
    return Limited(fields=fields) if fields else None


def _shape(limited: Limited) -> Any:  # noqa: ANN401 - a type
    """Return a type to which every value that fits a part converts, unless the value has types that
    the API server refuses.
    """
    if limited.fields:
        return _fields(tuple((name, _shape(below)) for name, below in limited.fields.items()))
    if limited.entries is not None:
        entry: Any = _shape(limited.entries)
        return list[entry] | dict[str, entry] | None
    return _QUANTITIES if limited.quantity else _number(limited.low, limited.high)


@cache
def _fields(fields: tuple[tuple[str, Any], ...]) -> Any:  # noqa: ANN401 - a type
    """Return the type of a map; equal maps, of which there are many, share a type."""
    return defstruct("Part", [(name, kind, None) for name, kind in fields], gc=False) | None


@cache
def _number(low: int, high: int) -> Any:  # noqa: ANN401 - a type
    return Annotated[int, Meta(ge=low, le=high)] | str | None


def fits(value: object, limited: Limited) -> bool:
    """Return whether Go can decode a value. Values of another type are accepted: the API server
    refuses them.
    """
    if limited.shape is None:
        limited.shape = _shape(limited)
    try:
        convert(value, limited.shape)
    except ValidationError:
        return next(_misfits(Field(value), limited), None) is None
    return True


def _fits(value: Any, limited: Limited) -> bool:  # noqa: ANN401 - JSON has values of every type
    kind = type(value)
    if kind is str:
        number = limited.quantity and _NUMBER.fullmatch(value) is not None
        return not number or _EXPONENT.fullmatch(value) is not None
    numeric = limited.low < limited.high and (kind is int or kind is float)
    return not numeric or limited.low <= value <= limited.high


def count_fits(value: object) -> bool:
    """Return whether a number of replicas can be decoded."""
    return type(value) is not int or INT32[0] <= value <= INT32[1]


def _misfits(field: Field, limited: Limited) -> Iterator[tuple[Field, Limited]]:
    """Yield the fields whose values do not fit."""
    if type(field.value) is dict:
        for key in field.value:
            below = limited.entries or limited.fields.get(key)
            if below is not None:
                yield from _misfits(field / key if limited.fields else field.key(key), below)
    elif type(field.value) is list:
        for item in field.items() if limited.entries is not None else ():
            yield from _misfits(item, limited.entries or limited)
    elif not _fits(field.value, limited):
        yield field, limited


def value_not_decodable(ray_object: RayObject) -> Iterator[Fault]:
    """A number that is too large for its field, or a quantity with a malformed or huge exponent.

    The CRD allows the value, but KubeRay cannot decode it, or needs minutes. KubeRay lists all
    objects of a kind in one request, so it stops for every RayCluster, RayJob or RayService in all
    namespaces.

    https://github.com/kubernetes/apimachinery/blob/master/pkg/util/intstr/intstr.go (`IntOrString`)
    """
    limited = limits_of(ray_object.kind)
    if fits(ray_object.root.value, limited):
        return
    for found, limit in _misfits(ray_object.root, limited):
        text = str(found.value)[:40]
        if limit.quantity:
            message = f"{text!r}: write a whole exponent of at most two digits, such as 1e3"
            yield Fault(found, message)
        else:
            yield Fault(found, f"{text} is out of range: write {limit.low} to {limit.high}")
