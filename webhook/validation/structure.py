"""The types of fields: what the schema of the CRD refuses as well, said with the line where it
stands.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from webhook.validation.cluster import GROUPS_MAX, Cluster
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.rule import deny

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
    """A field with a value of another type than the CRD has for it.

    The API server refuses the object. Most often a value such as `2.46` or `1` lacks the quotes
    that make it a string.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/config/crd/bases/ray.io_rayclusters.yaml
    """
    if _meta_sound(cluster.meta.value) and _cluster_sound(cluster.field.value):
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


def _meta_sound(meta: Any) -> bool:  # noqa: ANN401 - JSON has values of every type
    return _sound(meta, _META) and all(_texts_sound(meta.get(name)) for name in _META)


def _cluster_sound(spec: Any) -> bool:  # noqa: ANN401 - JSON has values of every type
    """Tell whether nothing is wrong, at a glance: the long look may find nothing either."""
    if not _sound(spec, _CLUSTER):
        return False
    groups = islice(spec.get("workerGroupSpecs") or (), GROUPS_MAX)
    return all(map(_group_sound, (spec.get("headGroupSpec"), *groups)))


def _group_sound(group: Any) -> bool:  # noqa: ANN401 - JSON has values of every type
    pod: Any = None
    if _sound(group, _GROUP) and _sound(group.get("template"), _TEMPLATE):
        pod = group["template"].get("spec")
    if not _sound(pod, _POD) or not all(_texts_sound(group.get(name)) for name in _TEXTS):
        return False
    containers = pod.get("containers") or ()
    return _texts_sound(pod.get("nodeSelector")) and all(map(_container_sound, containers))


def _container_sound(container: Any) -> bool:  # noqa: ANN401 - JSON has values of every type
    return _sound(container, _CONTAINER) and all(
        _sound(variable, _VARIABLE) for variable in container.get("env") or ()
    )


def _sound(value: Any, expected: dict[str, type]) -> bool:  # noqa: ANN401 - JSON
    if type(value) is not dict:
        return False
    for name, item in value.items():
        kind = expected.get(name)
        if kind is not None and item is not None and type(item) is not kind:
            return False
    return True


def _texts_sound(value: Any) -> bool:  # noqa: ANN401 - JSON has values of every type
    return not value or all(type(text) is str for text in value.values())


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


STRUCTURE: Final = (deny(field_type_wrong),)
