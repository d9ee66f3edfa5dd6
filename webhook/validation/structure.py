"""Rule of the types of fields, which the CRD's schema refuses as well; findings in files have a
line number.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from msgspec import ValidationError, convert, defstruct

from webhook.validation.cluster import GROUPS_MAX, Cluster
from webhook.validation.field import Field
from webhook.validation.finding import Fault

_NAMES: Final[dict[type, str]] = {
    dict: "a map",
    list: "a list",
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "a boolean",
}

Shape = Any
"""A type, a map of fields with a shape each, a list with that of its elements, or `STRINGS`."""

STRINGS: Final = dict[str, str]
_VARIABLE: Final = {"name": str, "value": str}
_CONTAINER: Final = {"name": str, "image": str, "env": [_VARIABLE], "resources": dict}
_POD: Final = {"containers": [_CONTAINER], "nodeSelector": STRINGS, "restartPolicy": str}
_GROUP: Final = {
    "groupName": str,
    "suspend": bool,
    "numOfHosts": int,
    "replicas": int,
    "minReplicas": int,
    "maxReplicas": int,
    "idleTimeoutSeconds": int,
    "priority": int,
    "rayStartParams": STRINGS,
    "resources": STRINGS,
    "labels": STRINGS,
    "template": {"spec": _POD},
}
_CLUSTER: Final = {
    "rayVersion": str,
    "enableInTreeAutoscaling": bool,
    "autoscalerOptions": dict,
    "headGroupSpec": _GROUP,
    "workerGroupSpecs": [_GROUP],
}
_META: Final = {"labels": STRINGS, "annotations": STRINGS}


def field_type_wrong(cluster: Cluster) -> Iterator[Fault]:
    """A field with a value of another type than in the CRD.

    The API server refuses the object. Usually a value such as `2.46` or `1` lacks the quotes that
    make it a string.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/config/crd/bases/ray.io_rayclusters.yaml
    """
    try:
        convert((cluster.meta.value, cluster.field.value), _FAST)
    except ValidationError:  # the full check may still pass
        if cluster.meta.map:
            yield from _faults(cluster.meta, _META)
        yield from _faults(cluster.field, _CLUSTER)


def kind_of(shape: Shape) -> type:
    """Return the type of a value of a shape."""
    if isinstance(shape, dict) or shape is STRINGS:
        return dict
    return list if isinstance(shape, list) else shape


def _type(shape: Shape) -> Any:  # noqa: ANN401 - a type
    """Return the type to which values of a shape convert."""
    if isinstance(shape, list):
        return list[_type(shape[0])] | None  # type: ignore[misc]
    if isinstance(shape, dict):
        return defstruct("Part", [(key, _type(each), None) for key, each in shape.items()]) | None
    return shape | None


_FAST: Final = tuple[_type(_META), _type(_CLUSTER)]  # type: ignore[misc]


def _faults(field: Field, shape: Shape) -> Iterator[Fault]:
    kind, value = kind_of(shape), field.value
    whole = kind is int and type(value) is float and value.is_integer()
    if value is not None and type(value) is not kind and not whole:
        yield _fault(field, kind)
    elif isinstance(shape, list):
        for item in islice(field.items(), GROUPS_MAX if shape[0] is _GROUP else None):
            yield from _faults(item, shape[0])
    elif isinstance(shape, dict) and value:
        for name, each in shape.items():
            yield from _faults(field / name, each)
    elif shape is STRINGS:
        for key in field.map:
            yield from _faults(field.key(key), str)


def _fault(field: Field, kind: type) -> Fault:
    value = field.value
    found = _NAMES[type(value)]
    if kind is str and not isinstance(value, dict | list):
        text = (str(value).lower() if isinstance(value, bool) else str(value))[:40]
        return Fault(field, f'{text} is {found}: quote it, as in "{text}"')
    return Fault(field, f"expected {_NAMES[kind]}, found {found}")
