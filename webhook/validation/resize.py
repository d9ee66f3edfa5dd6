"""In-place resize of pods by Ray's autoscaler, which the annotation `ray.io/ippr` asks for."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from webhook.groups.ippr import parse_ippr
from webhook.kube import names
from webhook.kube.quantity import parse_quantity
from webhook.kube.release import shown
from webhook.kube.review import FORBIDDEN, NOT_FOUND, REQUIRED
from webhook.validation.cluster import Cluster, Group
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.rule import deny, warn

CPU: Final = "max-cpu"
MEMORY: Final = "max-memory"
TIMEOUT: Final = "resize-timeout"
RAY_SINCE: Final = (2, 56)

_AMOUNTS: Final = {CPU: "cpu", MEMORY: "memory"}
_KEYS: Final = (CPU, MEMORY, TIMEOUT)
_Entry = tuple[str, dict[str, Any], Group | None]


def ippr_malformed(cluster: Cluster) -> Iterator[Fault]:
    """An annotation that is not the JSON that Ray expects.

    Ray's autoscaler raises while it reads the annotation, and in-place resize is off for all
    groups.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
    """
    value, problem = parse_ippr(_text(cluster))
    if problem:
        yield _fault(cluster, f"not JSON: {problem}")
    elif not isinstance(value, dict) or not isinstance(value.get("groups", {}), dict):
        yield _fault(
            cluster,
            'write {"groups": {"<group>": {"max-cpu": ..., "max-memory": ..., "resize-timeout": '
            "...}}}",
        )
    else:
        for name, entry in value.get("groups", {}).items():
            if not isinstance(entry, dict):
                yield _fault(cluster, f"group {name}: write an object with {', '.join(_KEYS)}")


def ippr_group_unknown(cluster: Cluster) -> Iterator[Fault]:
    """A group in the annotation that the cluster does not have.

    Ray ignores it without a word, so the group that was meant is never resized.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
    """
    for name, _, group in _entries(cluster):
        if group is None:
            known = ", ".join(sorted(group.name for group in cluster.groups)[:8]) or "none"
            yield _fault(
                cluster,
                f"group {name[:63]} does not exist; the worker groups are {known}",
                NOT_FOUND,
            )


def ippr_key_missing(cluster: Cluster) -> Iterator[Fault]:
    """A group in the annotation without all three of its keys.

    Ray's autoscaler raises while it reads the annotation, and in-place resize is off for all
    groups.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
    """
    for name, entry, _ in _entries(cluster):
        if missing := [key for key in _KEYS if key not in entry]:
            yield _fault(cluster, f"group {name}: add {', '.join(missing)}", REQUIRED)


def ippr_amount_invalid(cluster: Cluster) -> Iterator[Fault]:
    """A maximum that is not a positive Kubernetes quantity.

    Ray reads some of these, such as `NaN` or `1_000`, and then sends a resize that Kubernetes
    refuses.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
    """
    for name, entry, _ in _entries(cluster):
        for key in _AMOUNTS:
            if key in entry and _maximum(entry, key) is None:
                example = "4 or 500m" if key == CPU else "8Gi"
                yield _fault(
                    cluster,
                    f"group {name}: {key} {str(entry[key])[:40]!r} is not an amount above 0: write "
                    f"one such as {example}",
                )


def ippr_timeout_invalid(cluster: Cluster) -> Iterator[Fault]:
    """A resize timeout that is not a positive number of seconds.

    With 0 or less every resize times out at once; anything but an integer makes Ray's autoscaler
    raise.

    https://github.com/ray-project/ray/pull/61814
    """
    for name, entry, _ in _entries(cluster):
        value = entry.get(TIMEOUT, 1)
        whole = type(value) is int or (type(value) is float and value.is_integer())
        if not whole or value <= 0:
            yield _fault(
                cluster,
                f"group {name}: {TIMEOUT} {str(value)[:40]!r}: write whole seconds above 0, "
                "without quotes",
            )


def ippr_below_baseline(cluster: Cluster) -> Iterator[Fault]:
    """A maximum below what the pods have from the start.

    The baseline is the limit of Ray's container, else its request. Ray goes straight to the maxima,
    so the pod would shrink.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
    """
    for name, entry, group in _entries(cluster):
        for key, resource in _AMOUNTS.items():
            maximum, baseline = _maximum(entry, key), _baseline(group, resource)
            if maximum is not None and baseline is not None and maximum < baseline:
                yield _fault(
                    cluster,
                    f"group {name}: {key} {entry[key]} is below the {resource} its pods start "
                    "with: raise it",
                )


def ippr_without_effect(cluster: Cluster) -> Iterator[Fault]:
    """Maxima that are what the pods have from the start.

    There is nothing to resize. One of the two may be equal, to let only the other one grow.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
    """
    for name, entry, group in _entries(cluster):
        pairs = [
            (_maximum(entry, key), _baseline(group, resource)) for key, resource in _AMOUNTS.items()
        ]
        if all(maximum is not None and maximum == baseline for maximum, baseline in pairs):
            yield _fault(
                cluster,
                f"group {name}: pods have {CPU} and {MEMORY} from the start: raise one, or remove "
                "the group",
            )


def ippr_requests_missing(cluster: Cluster) -> Iterator[Fault]:
    """A group to be resized whose Ray container does not request both cpu and memory.

    Ray takes the requests as lower bounds and refuses to start pods of the group; limits do not
    stand in for them.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
    """
    for name, _, group in _entries(cluster):
        if group is not None and group.first is not None:
            requests = group.first.amounts("requests")
            for resource in _AMOUNTS.values():
                if resource not in group.first.requests:
                    yield Fault(
                        requests / resource,
                        f"set a request: group {name} is in {names.ANNOTATION_IPPR}",
                        REQUIRED,
                    )


def ippr_start_params(cluster: Cluster) -> Iterator[Fault]:
    """A group to be resized whose start parameters fix cpu or memory.

    Ray would keep believing the fixed amounts after a resize, so it refuses to start pods of the
    group.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
    """
    for name, _, group in _entries(cluster):
        for param in ("num-cpus", "memory"):
            if group is not None and param in group.params:
                yield Fault(
                    group.param(param),
                    f"remove it: group {name} is in {names.ANNOTATION_IPPR}",
                    FORBIDDEN,
                )


def ippr_group_resources(cluster: Cluster) -> Iterator[Fault]:
    """A group to be resized whose `resources` fix cpu or memory.

    KubeRay makes start parameters of them, so Ray would keep believing the fixed amounts after a
    resize.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    """
    for name, _, group in _entries(cluster):
        if group is not None:
            resources = group.field / "resources"
            for key in resources.strings:
                if key.lower() in ("cpu", "memory"):
                    yield Fault(
                        resources.key(key),
                        f"remove it: group {name} is in {names.ANNOTATION_IPPR}",
                        FORBIDDEN,
                    )


def ippr_restart_container(cluster: Cluster) -> Iterator[Fault]:
    """A group to be resized whose resize policy restarts the container.

    A restart ends the Ray node, so Ray refuses to start pods of the group.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
    """
    for name, _, group in _entries(cluster):
        for entry in _policies(group):
            policy = entry / "restartPolicy"
            if (entry / "resourceName").text in _AMOUNTS.values() and policy.text not in (
                "",
                "NotRequired",
            ):
                yield Fault(
                    policy, f"write NotRequired: group {name} is in {names.ANNOTATION_IPPR}"
                )


def _policies(group: Group | None) -> Iterator[Field]:
    if group is not None and group.first is not None:
        yield from (group.first.field / "resizePolicy").items()


def ippr_without_autoscaling(cluster: Cluster) -> Iterator[Fault]:
    """In-place resize in a cluster that does not autoscale.

    Ray's autoscaler does the resizing; without it the annotation has no effect.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
    """
    if any(True for _ in _entries(cluster)) and not cluster.autoscaling:
        field = cluster.field / "enableInTreeAutoscaling"
        yield Fault(
            field, f"set it to true: {names.ANNOTATION_IPPR} needs the autoscaler", REQUIRED
        )


def ippr_without_v2(cluster: Cluster) -> Iterator[Fault]:
    """In-place resize with Ray's first autoscaler.

    Only autoscaler v2 resizes. It runs when asked for, or from Ray 2.47 on when nothing is asked
    for.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
    """
    if any(True for _ in _entries(cluster)) and cluster.autoscaling and cluster.v2 is False:
        yield Fault(
            cluster.options / "version", f"write v2: {names.ANNOTATION_IPPR} needs it", REQUIRED
        )


def ippr_ray_too_old(cluster: Cluster) -> Iterator[Fault]:
    """In-place resize with a Ray release that does not have it.

    The annotation has no effect before Ray 2.56.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
    """
    release = cluster.release
    if release is not None and release < RAY_SINCE and any(True for _ in _entries(cluster)):
        yield _fault(
            cluster,
            f"Ray {shown(release)} cannot resize pods in place: use {shown(RAY_SINCE)} or later",
        )


def _text(cluster: Cluster) -> str:
    return cluster.annotations.get(names.ANNOTATION_IPPR, "")


def _fault(cluster: Cluster, message: str, reason: str = "FieldValueInvalid") -> Fault:
    return Fault(cluster.annotation(names.ANNOTATION_IPPR), message, reason)


def _entries(cluster: Cluster) -> Iterator[_Entry]:
    """Yield each group of the annotation that can be read, with the group of the cluster that it
    names.
    """
    text = _text(cluster)
    if not text:
        return
    value = parse_ippr(text)[0]
    listed = value.get("groups") if isinstance(value, dict) else None
    if not isinstance(listed, dict):
        return
    groups = {group.name: group for group in reversed(cluster.groups)} | {
        names.HEAD_GROUP: cluster.head
    }
    for name, entry in listed.items():
        if isinstance(entry, dict):
            yield name, entry, groups.get(name)


def _maximum(entry: dict[str, Any], key: str) -> Decimal | None:
    """Return a maximum, or None when it is not a positive quantity of a type that Ray accepts."""
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    if key == MEMORY and isinstance(value, float) and not value.is_integer():
        return None
    return _quantity(value) or None


def _baseline(group: Group | None, resource: str) -> Decimal | None:
    """Return what Ray's container has of a resource from the start: its limit, else its request."""
    if group is None or group.first is None:
        return None
    return _quantity(group.first.limits.get(resource, group.first.requests.get(resource)))


def _quantity(value: object) -> Decimal | None:
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        return None
    try:
        amount = parse_quantity(value)
    except ValueError:
        return None
    return amount if amount >= 0 else None


RESIZE: Final = (
    deny(ippr_malformed),
    deny(ippr_group_unknown),
    deny(ippr_key_missing),
    deny(ippr_amount_invalid),
    deny(ippr_timeout_invalid),
    deny(ippr_below_baseline),
    warn(ippr_without_effect),
    deny(ippr_requests_missing),
    deny(ippr_start_params),
    deny(ippr_group_resources),
    deny(ippr_restart_container),
    deny(ippr_without_autoscaling),
    deny(ippr_without_v2),
    warn(ippr_ray_too_old),
)
