"""Rules of in-place resize of pods by Ray's autoscaler, enabled by the annotation `ray.io/ippr`."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from webhook.api import names
from webhook.api.formats import nearest, shorten
from webhook.api.quantity import read_quantity
from webhook.api.release import format_release
from webhook.api.review import FORBIDDEN, INVALID, NOT_FOUND, NOT_SUPPORTED, REQUIRED
from webhook.validation.cluster import ClusterSpec, GroupSpec
from webhook.validation.field import Field
from webhook.validation.finding import Fault

CPU: Final = "max-cpu"
MEMORY: Final = "max-memory"
TIMEOUT: Final = "resize-timeout"
RAY_SINCE: Final = (2, 56)
KUBERAY_SINCE: Final = (1, 5)
KUBERNETES_SINCE: Final = (1, 33)
"""The first release with the gate InPlacePodVerticalScaling on by default."""
_GROUPS: Final = "groups"

_AMOUNTS: Final = {CPU: "cpu", MEMORY: "memory"}
_KEYS: Final = (CPU, MEMORY, TIMEOUT)
_ADVICE: Final = {
    CPU: "an amount above 0 such as 4 or 500m",
    MEMORY: "an amount above 0 such as 8Gi",
    TIMEOUT: "whole seconds, without quotes",
}
_FIXING: Final = ("num-cpus", "memory")
"""Start parameters that fix an amount that a resize would change."""
_Entry = tuple[str, dict[str, Any], GroupSpec | None]


def ippr_malformed(cluster: ClusterSpec) -> Iterator[Fault]:
    """An annotation `ray.io/ippr` that Ray cannot parse.

    Each group needs `max-cpu`, `max-memory` and `resize-timeout`: positive quantities, and whole
    seconds. Otherwise Ray's autoscaler raises an error, and in-place resize is off for all groups.
    A quantity such as `NaN` or `1_000` makes Ray send resizes that Kubernetes refuses. Without an
    autoscaler that reads the annotation, this is a warning.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
    """
    value, problem = cluster.ippr
    if problem:
        yield _fault(cluster, f"not JSON: {problem}")
    elif not isinstance(value, dict) or not isinstance(value.get("groups", {}), dict):
        entry = ", ".join(f'"{key}": ...' for key in _KEYS)
        yield _fault(cluster, f'write {{"groups": {{"<group>": {{{entry}}}}}}}')
    else:
        for name, entry in value.get("groups", {}).items():
            for message, reason in _unreadable(entry):
                yield _fault(cluster, f'group "{shorten(name)}": {message}', reason)


def _unreadable(entry: object) -> Iterator[tuple[str, str]]:
    """Yield the reasons why Ray cannot parse the entry of a group, with the cause type."""
    if not isinstance(entry, dict):
        yield f"write an object with {', '.join(_KEYS)}", INVALID
        return
    if missing := [key for key in _KEYS if key not in entry]:
        yield f"add {', '.join(missing)}", REQUIRED
    for key, advice in _ADVICE.items():
        sound = _whole(entry.get(key)) if key == TIMEOUT else _maximum(entry, key) is not None
        if key in entry and not sound:
            yield f"{key} is {shorten(str(entry[key]))!r}: write {advice}", INVALID


def ippr_value_too_low(cluster: ClusterSpec) -> Iterator[Fault]:
    """A maximum below the initial amount of the pods, or a timeout of 0 or less.

    Ray resizes directly to the maxima, so the pod would shrink; the initial amount is the limit of
    Ray's container, else its request. With such a timeout every resize times out immediately.
    Without an autoscaler that reads the annotation, this is a warning.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
    """
    for name, entry, group in _entries(cluster):
        texts = []
        for key, resource in _AMOUNTS.items():
            maximum, baseline = _maximum(entry, key), _baseline(group, resource)
            if maximum is not None and baseline is not None and maximum < baseline:
                problem = f"{key} is {shorten(str(entry[key]))}, but pods start with more"
                texts.append(f"{problem}: raise it, or lower their {resource}")
        timeout = entry.get(TIMEOUT)
        if isinstance(timeout, int | float) and _whole(timeout) and timeout <= 0:
            texts.append(f"{TIMEOUT} is {shorten(str(timeout))}: write seconds above 0, such as 60")
        for message in texts:
            yield _fault(cluster, f'group "{shorten(name)}": {message}')


def ippr_group_not_resizable(cluster: ClusterSpec) -> Iterator[Fault]:
    """A group in `ray.io/ippr` whose pods cannot be resized in place.

    Ray's container must request cpu and memory, no start parameter or entry of `resources` may fix
    them, and no resize policy may restart the container. Otherwise Ray's autoscaler refuses the
    annotation, or keeps the fixed amounts after a resize. Without an autoscaler that reads the
    annotation, this is a warning.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
    """
    for name, _, group in _entries(cluster):
        if group is not None:
            alternative = f'or remove group "{shorten(name)}" from {names.ANNOTATION_IPPR}'
            for field, advice, reason in _preventing(group):
                yield Fault(field, f"{advice}, {alternative}", reason, doubtful=not _read(cluster))


def _preventing(group: GroupSpec) -> Iterator[tuple[Field, str, str]]:
    """Yield the fields that prevent a resize of pods, with advice and the cause type."""
    for param in _FIXING:
        if param in group.params:
            yield group.param(param), "a start parameter fixes the amount: remove it", FORBIDDEN
    resources = group.field / "resources"
    for key in resources.strings:
        if key.lower() in _AMOUNTS.values():
            yield resources.key(key), "remove it", FORBIDDEN
    if not group.containers:
        return
    for resource in _AMOUNTS.values():
        if resource not in group.first.requests:
            field = group.first.amounts("requests") / resource
            yield field, f"{resource} has no request: set it", REQUIRED
    for entry in (group.first.field / "resizePolicy").items():
        policy = entry / "restartPolicy"
        resizes = (entry / "resourceName").text in _AMOUNTS.values()
        if resizes and policy.text not in ("", "NotRequired"):
            yield policy, f"{shorten(policy.text)} ends the Ray node: write NotRequired", INVALID


def ippr_without_effect(cluster: ClusterSpec) -> Iterator[Fault]:
    """In-place resize that has no effect.

    Only autoscaler v2 of Ray 2.56 and later resizes pods, KubeRay permits it since 1.5, and
    Kubernetes since 1.33 or with its gate InPlacePodVerticalScaling. Only pods of existing groups
    with maxima above their initial amounts are resized. One of the two maxima may be equal to the
    initial amount, so that only the other amount grows. Ray ignores unknown keys.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
    """
    listed = list(_entries(cluster))
    if cluster.annotations.get(names.ANNOTATION_IPPR):
        for message in _unknown_keys(cluster.ippr[0], listed):
            yield _fault(cluster, message, NOT_SUPPORTED)
    if listed:
        yield from _find_unmet_preconditions(cluster)
    for name, entry, group in listed:
        shown_name = f'group "{shorten(name)}"'
        if group is None:
            group_names = ", ".join(sorted(group.name for group in cluster.groups)[:8]) or "none"
            message = (
                f"{shown_name} does not exist: rename it, or add it; worker groups: {group_names}"
            )
            yield _fault(cluster, message, NOT_FOUND)
            continue
        maxima = [_maximum(entry, key) for key in _AMOUNTS]
        if None not in maxima and maxima == [
            _baseline(group, resource) for resource in _AMOUNTS.values()
        ]:
            message = f"{shown_name} has {CPU} and {MEMORY} from the start: raise one, or remove it"
            yield _fault(cluster, message)


def _find_unmet_preconditions(cluster: ClusterSpec) -> Iterator[Fault]:
    """Yield what in-place resize needs and the cluster does not have."""
    kuberay, kubernetes = cluster.settings.kuberay, cluster.settings.kubernetes
    if kuberay is not None and kuberay < KUBERAY_SINCE:
        needed = format_release(KUBERAY_SINCE)
        problem = f"KubeRay {format_release(kuberay)} does not permit it: use {needed}"
        yield _fault(cluster, f"{problem}, or remove it")
    if kubernetes is not None and kubernetes < KUBERNETES_SINCE:
        problem = f"Kubernetes {format_release(kubernetes)} resizes no pods unless a gate is on"
        needed = format_release(KUBERNETES_SINCE)
        yield _fault(cluster, f"{problem}: use {needed}, or remove it")
    release = cluster.release
    if not cluster.autoscaling:
        field = cluster.field / "enableInTreeAutoscaling"
        yield Fault(field, f"set it to true, or remove {names.ANNOTATION_IPPR}", REQUIRED)
    elif cluster.v2 is False:
        message = f"set it to v2, or remove {names.ANNOTATION_IPPR}"
        yield Fault(cluster.options / "version", message, REQUIRED)
    if release is not None and release < RAY_SINCE:
        problem = f"Ray {format_release(release)} cannot resize pods"
        yield _fault(cluster, f"{problem}: use {format_release(RAY_SINCE)}, or remove it")


def _unknown_keys(value: object, listed: list[_Entry]) -> Iterator[str]:
    """Yield the problems of an annotation that names no group, and of keys that Ray ignores."""
    if not isinstance(value, dict):
        return
    unknown_keys = [key for key in value if key != _GROUPS]
    near = next((key for key in unknown_keys if nearest(key.lower(), (_GROUPS,))), None)
    if value.get(_GROUPS) == {} or (_GROUPS not in value and near is None):
        yield f'no group is resized: write {{"{_GROUPS}": ...}} with groups, or remove it'
    for key in unknown_keys:
        right = _GROUPS not in value and key == near
        yield f"Ray ignores {shorten(key)!r}: {f'write {_GROUPS}' if right else 'remove it'}"
    for name, entry, _ in listed:
        for key in (key for key in entry if key not in _KEYS):
            close = nearest(key, _KEYS)
            advice = f"write {close}" if close and close not in entry else "remove it"
            yield f'group "{shorten(name)}": Ray ignores {shorten(key)!r}: {advice}'


def _read(cluster: ClusterSpec) -> bool:
    """Return whether an autoscaler reads the annotation."""
    old = cluster.release is not None and cluster.release < RAY_SINCE
    return cluster.autoscaling and cluster.v2 is not False and not old


def _fault(cluster: ClusterSpec, message: str, reason: str = INVALID) -> Fault:
    field = cluster.annotation(names.ANNOTATION_IPPR)
    return Fault(field, message, reason, doubtful=not _read(cluster))


def _entries(cluster: ClusterSpec) -> Iterator[_Entry]:
    """Yield each group of the annotation that can be parsed, with the group of the cluster that it
    names.
    """
    value = cluster.ippr[0]
    listed = value.get("groups") if isinstance(value, dict) else None
    if not isinstance(listed, dict):
        return
    groups = {group.name: group for group in (*reversed(cluster.groups), cluster.head)}
    for name, entry in listed.items():
        if isinstance(entry, dict):
            yield name, entry, groups.get(name)


def _whole(value: object) -> bool:
    return type(value) is int or (type(value) is float and value.is_integer())


def _maximum(entry: dict[str, Any], key: str) -> Decimal | None:
    """Return a maximum, or None if it is not a positive quantity of a type that Ray accepts."""
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if key == MEMORY and isinstance(value, float) and not value.is_integer():
        return None
    return _quantity(value) or None


def _baseline(group: GroupSpec | None, resource: str) -> Decimal | None:
    """Return the initial amount of a resource of Ray's container: its limit, else its request."""
    if group is None:
        return None
    return _quantity(group.first.limits.get(resource, group.first.requests.get(resource)))


def _quantity(value: object) -> Decimal | None:
    amount = read_quantity(value)
    return amount if amount is not None and amount >= 0 else None
