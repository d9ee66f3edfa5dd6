"""Values that KubeRay cannot decode: its Go types have smaller ranges than the schemas of its CRDs.

One such object stops KubeRay for all users: its client lists all objects of a kind in one request,
and the whole request fails.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Final

from msgspec import Meta, ValidationError, convert, defstruct

from webhook.api.formats import shorten
from webhook.validation.crd import INT32, NUMBERS, schema_of, walk_schema
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

_GROUPS: Final = "workerGroupSpecs"
"""A list of which each entry is converted alone: a single conversion of 1,000 worker groups holds
the interpreter for 4 ms, in which no review of a pod is answered.
"""


@cache
def _type(name: str | int) -> Any:  # noqa: ANN401 - a type
    """Return a type to which every value that fits a part of the schema converts, unless the value
    has types that the API server refuses; None for a part without limited values.
    """
    part = schema_of(None).part(name)
    if part.type in NUMBERS:
        low, high = NUMBERS[part.type]
        return Annotated[int, Meta(ge=low, le=high)] | str | None
    if part.type == _QUANTITY:
        return _QUANTITIES
    if part.entries is not None:
        entry: Any = _type(part.entries)
        return None if entry is None else list[entry] | dict[str, entry] | None
    fields = [
        (key, list[Any] | None if key == _GROUPS else _type(part_name), None)
        for key, part_name in (part.fields or {}).items()
    ]
    limited = [field_definition for field_definition in fields if field_definition[1] is not None]
    return defstruct("Part", limited, gc=False) | None if limited else None


@cache
def _groups_type() -> Any:  # noqa: ANN401 - a type
    schema = schema_of(None)
    root = schema.part(schema.roots["v1/RayCluster"])
    spec = schema.part((root.fields or {})["spec"])
    return _type((spec.fields or {})[_GROUPS])


def _fits(value: Any, kind: str) -> bool:  # noqa: ANN401 - JSON has values of every type
    """Return whether Go can decode a value of a plain type. Values of another type are accepted:
    the API server refuses them.
    """
    if type(value) is str and kind == _QUANTITY:
        return _NUMBER.fullmatch(value) is None or _EXPONENT.fullmatch(value) is not None
    if type(value) in (int, float) and kind in NUMBERS:
        low, high = NUMBERS[kind]
        return bool(low <= value <= high)
    return True


def count_fits(value: object) -> bool:
    """Return whether a number of replicas can be decoded."""
    return type(value) is not int or INT32[0] <= value <= INT32[1]


def value_not_decodable(ray_object: RayObject) -> Iterator[Fault]:
    """A number that is too large for its field, or a quantity with a malformed or huge exponent.

    The CRD allows the value, but KubeRay cannot decode it, or needs minutes. KubeRay lists all
    objects of a kind in one request, so it stops for every RayCluster, RayJob or RayService in all
    namespaces.

    https://github.com/kubernetes/apimachinery/blob/master/pkg/util/intstr/intstr.go (`IntOrString`)
    """
    schema = schema_of(None)
    root = schema.roots[f"v1/{ray_object.kind}"]
    groups = (ray_object.cluster.field / _GROUPS).value if ray_object.cluster else None
    try:
        convert(ray_object.root.value, _type(root))
        for group in groups if type(groups) is list else ():
            convert([group], _groups_type())
    except ValidationError:  # the value may still fit
        for field, part in walk_schema(ray_object.root, schema, root):
            value_text = shorten(str(field.value))
            if not _fits(field.value, part.type):
                if part.type == _QUANTITY:
                    message = (
                        f"{value_text!r}: write a whole exponent of at most two digits, such as 1e3"
                    )
                else:
                    low, high = NUMBERS[part.type]
                    message = f"{value_text} is out of range: write {low} to {high}"
                yield Fault(field, message)
