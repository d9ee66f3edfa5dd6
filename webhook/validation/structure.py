"""Rule of the types of fields, which the CRD's schema refuses as well; findings in files have a
line number.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from msgspec import Struct, ValidationError, convert

from webhook.validation.cluster import GROUPS_MAX, Cluster
from webhook.validation.field import Field
from webhook.validation.finding import Fault

_INTEGERS: Final = (
    "numOfHosts",
    "replicas",
    "minReplicas",
    "maxReplicas",
    "idleTimeoutSeconds",
    "priority",
)
_NAMES: Final[dict[type, str]] = {
    dict: "a map",
    list: "a list",
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "a boolean",
}
_META: Final[dict[str, type]] = {"labels": dict, "annotations": dict}
_CLUSTER: Final[dict[str, type]] = {
    "rayVersion": str,
    "enableInTreeAutoscaling": bool,
    "autoscalerOptions": dict,
    "headGroupSpec": dict,
    "workerGroupSpecs": list,
}
_GROUP: Final[dict[str, type]] = {
    "groupName": str,
    "suspend": bool,
    "rayStartParams": dict,
    "resources": dict,
    "labels": dict,
    "template": dict,
    **dict.fromkeys(_INTEGERS, int),
}
_TEMPLATE: Final[dict[str, type]] = {"spec": dict}
_POD: Final[dict[str, type]] = {"containers": list, "nodeSelector": dict, "restartPolicy": str}
_CONTAINER: Final[dict[str, type]] = {"name": str, "image": str, "env": list, "resources": dict}
_VARIABLE: Final[dict[str, type]] = {"name": str, "value": str}
_TEXTS: Final = ("rayStartParams", "resources", "labels")
"""Maps of a group whose values are strings."""


def field_type_wrong(cluster: Cluster) -> Iterator[Fault]:
    """A field with a value of another type than in the CRD.

    The API server refuses the object. Usually a value such as `2.46` or `1` lacks the quotes that
    make it a string.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/config/crd/bases/ray.io_rayclusters.yaml
    """
    if _sound(cluster.meta.value, _Meta) and _sound(cluster.field.value, _Spec):
        return
    yield from _is_map(cluster.field)
    yield from _types(cluster.meta, _META)
    for name in _META:
        yield from _texts(cluster.meta / name)
    yield from _types(cluster.field, _CLUSTER)
    groups = cluster.field / "workerGroupSpecs"
    yield from _group(cluster.field / "headGroupSpec")
    for group in islice(groups.items(), GROUPS_MAX):
        yield from _is_map(group)
        yield from _group(group)


class _Variable(Struct, gc=False):
    name: str | None = None
    value: str | None = None


class _Container(Struct, gc=False):
    name: str | None = None
    image: str | None = None
    env: list[_Variable] | None = None
    resources: dict[str, Any] | None = None


class _Pod(Struct, rename="camel", gc=False):
    containers: list[_Container] | None = None
    node_selector: dict[str, str] | None = None
    restart_policy: str | None = None


class _Template(Struct, gc=False):
    spec: _Pod | None = None


class _Group(Struct, rename="camel", gc=False):
    group_name: str | None = None
    suspend: bool | None = None
    ray_start_params: dict[str, str] | None = None
    resources: dict[str, str] | None = None
    labels: dict[str, str] | None = None
    template: _Template | None = None
    num_of_hosts: int | None = None
    replicas: int | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None
    idle_timeout_seconds: int | None = None
    priority: int | None = None


class _Spec(Struct, rename="camel", gc=False):
    ray_version: str | None = None
    enable_in_tree_autoscaling: bool | None = None
    autoscaler_options: dict[str, Any] | None = None
    head_group_spec: _Group | None = None
    worker_group_specs: list[_Group] | None = None


class _Meta(Struct, gc=False):
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


def _sound(value: object, kind: type[Struct]) -> bool:
    """Return whether a fast check passes; if it fails, the full check may still pass."""
    try:
        convert(value, kind)
    except ValidationError:
        return False
    return True


def _group(group: Field) -> Iterator[Fault]:
    yield from _types(group, _GROUP)
    for name in _TEXTS:
        yield from _texts(group / name)
    template = group / "template"
    yield from _types(template, _TEMPLATE)
    pod = template / "spec"
    yield from _types(pod, _POD)
    yield from _texts(pod / "nodeSelector")
    for container in (pod / "containers").items():
        yield from _is_map(container)
        yield from _types(container, _CONTAINER)
        for variable in (container / "env").items():
            yield from _is_map(variable)
            yield from _types(variable, _VARIABLE)


def _types(holder: Field, expected: dict[str, type]) -> Iterable[Fault]:
    value = holder.map
    return (
        [
            _fault(holder / name, kind)
            for name, kind in expected.items()
            if not _fits(value.get(name), kind)
        ]
        if value
        else ()
    )


def _texts(holder: Field) -> Iterable[Fault]:
    return [
        _fault(holder.key(name), str) for name, value in holder.map.items() if not _fits(value, str)
    ]


def _is_map(field: Field) -> Iterable[Fault]:
    return () if _fits(field.value, dict) else (_fault(field, dict),)


def _fits(value: Any, kind: type) -> bool:  # noqa: ANN401 - JSON has values of every type
    return (
        value is None
        or type(value) is kind
        or (kind is int and type(value) is float and value.is_integer())
    )


def _fault(field: Field, kind: type) -> Fault:
    value = field.value
    if kind is str and not isinstance(value, dict | list):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return Fault(field, f'{text[:40]} is {_NAMES[type(value)]}: quote it, as in "{text[:40]}"')
    return Fault(field, f"expected {_NAMES[kind]}, found {_NAMES[type(value)]}")
