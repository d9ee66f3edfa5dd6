"""Rules of Ray's autoscaler: options that KubeRay refuses, and values that crash the autoscaler."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

from webhook.accelerators.devices import CLAIMED_GPU
from webhook.api import names
from webhook.api.formats import shorten
from webhook.api.quantity import read_quantity
from webhook.api.release import parse_release
from webhook.api.review import FORBIDDEN, REQUIRED
from webhook.validation.cluster import ClusterSpec, GroupSpec
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.ray_object import RayObject

PRIORITY_SINCE: Final = (2, 56)
REQUESTS_SINCE: Final = (2, 41)
_IDLE_SECONDS: Final = 300
_KINDS: Final = ("limits", "requests")


def idle_timeout_negative(cluster: ClusterSpec) -> Iterator[Fault]:
    """An idle timeout below 0, of a group or of the autoscaler.

    KubeRay refuses the whole RayCluster and creates no pods.
    """
    for holder in (cluster.options, *(group.field for group in cluster.groups)):
        field = holder / "idleTimeoutSeconds"
        if (field.number or 0) < 0:
            yield Fault(field, f"{field.number}: write 0 or more seconds")


def idle_timeout_without_v2(cluster: ClusterSpec) -> Iterator[Fault]:
    """An idle timeout of a group without an explicit autoscaler v2.

    Only v2 supports timeouts per group. KubeRay does not infer v2 from the Ray release here, and
    refuses the RayCluster.
    """
    message = "idleTimeoutSeconds needs autoscaler v2: set autoscalerOptions.version, or remove it"
    for group in cluster.groups:
        field = group.field / "idleTimeoutSeconds"
        if field.given and not cluster.v2_on:
            yield Fault(field, message, FORBIDDEN)


def idle_timeout_short(cluster: ClusterSpec) -> Iterator[Fault]:
    """An idle timeout below 300 s of an autoscaled group of several hosts.

    The hosts of a replica start one after the other, and the first ones are idle until the last one
    is ready: the autoscaler deletes the replica before its work can start.

    https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/configuring-autoscaling.html
    """
    slow = "less than replicas of several hosts take to start"
    for group in cluster.groups if cluster.autoscaling else ():
        group_field = group.field / "idleTimeoutSeconds"
        field = group_field if group_field.given else cluster.options / "idleTimeoutSeconds"
        seconds = field.number
        if group.hosts > 1 and seconds is not None and 0 <= seconds < _IDLE_SECONDS:
            yield Fault(field, f"{seconds} s is {slow}: write {_IDLE_SECONDS} or more")


def priority_unsupported(cluster: ClusterSpec) -> Iterator[Fault]:
    """A priority of a group without an explicit autoscaler v2, or without Ray 2.56.

    Earlier autoscalers do not support priorities, so KubeRay refuses the RayCluster; it reads
    `rayVersion`.
    """
    release = parse_release((cluster.field / "rayVersion").text)
    old = release is None or release < PRIORITY_SINCE
    message = "priority needs rayVersion 2.56.0 and autoscaler v2: set both, or remove it"
    for group in cluster.groups:
        field = group.field / "priority"
        if field.number and (old or not cluster.v2_on):
            yield Fault(field, message, FORBIDDEN)


def group_suspend_autoscaled(cluster: ClusterSpec) -> Iterator[Fault]:
    """A suspended worker group in a cluster that autoscales.

    The autoscaler would recreate the group's pods, so KubeRay refuses the RayCluster.
    """
    message = "suspend is true, but the cluster autoscales: remove it, and set maxReplicas to 0"
    for group in cluster.groups if cluster.autoscaling else ():
        if group.scale.suspend:
            yield Fault(group.field / "suspend", message, FORBIDDEN)


def autoscaler_v2_switch_alone(cluster: ClusterSpec) -> Iterator[Fault]:
    """The variable that chooses autoscaler v2, in a cluster that does not autoscale.

    KubeRay regards the variable as a mistake and refuses the RayCluster.
    """
    switch = cluster.v2_switch
    if not cluster.autoscaling and switch is not None and (switch / "value").text in ("1", "true"):
        message = (
            "the cluster does not autoscale: set enableInTreeAutoscaling, or remove the variable"
        )
        yield Fault(switch, message, FORBIDDEN)


def autoscaler_version_twice(cluster: ClusterSpec) -> Iterator[Fault]:
    """The version of the autoscaler, set as an option and as a variable of the head.

    The two may contradict each other, so KubeRay refuses the RayCluster.
    """
    switch = cluster.v2_switch
    if cluster.autoscaling and switch is not None and (cluster.options / "version").given:
        message = "autoscalerOptions.version is set as well: remove the variable"
        yield Fault(switch, message, FORBIDDEN)


def restart_policy_with_v2(cluster: ClusterSpec) -> Iterator[Fault]:
    """A restart policy other than Never together with autoscaler v2.

    Autoscaler v2 replaces pods itself and does not detect containers that restart in place, so
    KubeRay refuses the RayCluster.
    """
    if (cluster.options / "version").text == "v2":
        for policy in _restart_policies(cluster.autoscaled):
            problem = f"restartPolicy is {shorten(policy.text)} with autoscaler v2"
            yield Fault(policy, f"{problem}: write Never, or remove it")


def restart_policy_not_never(cluster: ClusterSpec) -> Iterator[Fault]:
    """A restart policy other than Never in an autoscaled cluster whose autoscaler version KubeRay
    does not check.

    Both autoscalers expect that a terminated Ray node is not restarted. Since Ray 2.47, v2 runs if
    no version is set.

    https://github.com/ray-project/kuberay/issues/4810
    """
    if not cluster.autoscaling or (cluster.options / "version").text == "v2":
        return
    groups = cluster.every_group if cluster.v2 else cluster.groups if cluster.v2 is False else ()
    for policy in _restart_policies(groups):
        message = (
            f"restartPolicy is {shorten(policy.text)}: write Never, as autoscalers replace pods"
        )
        yield Fault(policy, message)


def _restart_policies(groups: Iterable[GroupSpec]) -> Iterator[Field]:
    """Yield the restart policies other than Never."""
    for group in groups:
        policy = group.pod / "restartPolicy"
        if policy.given and policy.text not in ("", "Never"):
            yield policy


def multi_host_with_v1(cluster: ClusterSpec) -> Iterator[Fault]:
    """A group of several hosts in a cluster that Ray's autoscaler v1 scales.

    Autoscaler v1 counts hosts and writes their number as `replicas`: a group of 4 hosts that should
    have 2 replicas gets 8, or `maxReplicas` if that is lower. Autoscaler v2 divides by
    `numOfHosts`.

    https://github.com/ray-project/ray/blob/ray-2.60.0/python/ray/autoscaler/_private/kuberay/node_provider.py
    (`_scale_request_to_patch_payload`)
    """
    advice = "set autoscalerOptions.version to v2"
    for group in cluster.groups if cluster.autoscaling and cluster.v2 is False else ():
        if group.hosts > 1:
            problem = f"numOfHosts is {group.hosts}, and autoscaler v1 counts hosts as replicas"
            yield Fault(group.field / "numOfHosts", f"{problem}: {advice}")


def autoscaler_command_variable(cluster: ClusterSpec) -> Iterator[Fault]:
    """The variable with the autoscaler's start command, among the options.

    KubeRay sets this variable itself, and another value would silently replace KubeRay's, so
    KubeRay refuses the RayCluster.
    """
    for entry in (cluster.options / "env").items():
        if (entry / "name").text == names.AUTOSCALER_START_COMMAND:
            message = "KubeRay sets this variable itself: remove it"
            yield Fault(entry / "name", message, FORBIDDEN)


def autoscaler_options_unused(ray_object: RayObject) -> Iterator[Fault]:
    """Options of the autoscaler in a cluster that does not autoscale.

    The options have no effect.

    https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/configuring-autoscaling.html
    """
    cluster, advice = ray_object.cluster, "set enableInTreeAutoscaling, or remove autoscalerOptions"
    if cluster is not None and not cluster.autoscaling and cluster.options.size:
        yield Fault(cluster.options, f"the cluster does not autoscale: {advice}")


def _is_amount(text: str) -> bool:
    try:
        return int(text[:4000]) >= 0
    except ValueError:
        return False


def _is_resources(text: str) -> bool:
    try:
        value = json.loads(text[1:-1].replace("\\", ""))
    except (ValueError, RecursionError):
        return False
    return isinstance(value, dict) and all(
        isinstance(amount, int) and amount >= 0 for amount in value.values()
    )


_PARAMS: Final = {
    "num-cpus": (_is_amount, "an integer such as 4"),
    "num-gpus": (_is_amount, "an integer such as 1"),
    "memory": (_is_amount, "an integer such as 8589934592, in bytes"),
    "resources": (_is_resources, """quoted JSON, as in '"{\\"Custom\\": 1}"'"""),
}
"""Start parameters that Ray's autoscaler parses: a predicate of readable values, and advice."""


def param_ends_autoscaler(cluster: ClusterSpec) -> Iterator[Fault]:
    """A start parameter of an autoscaled group that the autoscaler cannot parse.

    Ray's autoscaler parses amounts with int(); they must not be negative. Of custom resources it
    drops the first and the last character and all backslashes, and expects JSON with integers of 0
    or more. Otherwise it exits with an exception, so no group scales.

    https://github.com/ray-project/ray/blob/master/python/ray/autoscaler/_private/kuberay/autoscaling_config.py
    """
    for group in cluster.autoscaled:
        for name, (readable, advice) in _PARAMS.items():
            value = group.params.get(name)
            if value is not None and not readable(value):
                problem = f"{shorten(value)!r}, which ends the autoscaler"
                yield Fault(group.param(name), f"{problem}: write {advice}")


def autoscaled_without_groups(cluster: ClusterSpec) -> Iterator[Fault]:
    """A cluster that autoscales and has no field `workerGroupSpecs`.

    Ray's autoscaler exits with a KeyError. An empty list is enough in a standalone RayCluster, but
    KubeRay does not pass an empty list on from a RayJob or RayService.

    https://github.com/ray-project/ray/blob/master/python/ray/autoscaler/_private/kuberay/autoscaling_config.py
    """
    field = cluster.field / "workerGroupSpecs"
    if cluster.autoscaling and not field.size and (cluster.owner or not field.given):
        message = "workerGroupSpecs is empty, which ends the autoscaler: add a worker group"
        yield Fault(field, message, REQUIRED)


def group_resource_unreadable(cluster: ClusterSpec) -> Iterator[Fault]:
    """An amount in the `resources` of a group that is negative or not a quantity.

    Ray's autoscaler parses all of them and exits with an exception, so no group scales. Without
    autoscaling this is a warning: KubeRay silently omits the resource from `ray start`, so Ray
    schedules the group without it.

    https://github.com/ray-project/ray/blob/master/python/ray/autoscaler/_private/kuberay/autoscaling_config.py
    """
    effect = "which ends the autoscaler" if cluster.autoscaling else "so KubeRay drops it"
    for group in cluster.every_group:
        resources = group.field / "resources"
        for key, value in resources.strings.items():
            amount = read_quantity(value)
            if amount is None or amount < 0:
                problem = f"{shorten(value)!r} is not an amount"
                message = f"{problem}, {effect}: write one such as 4 or 8Gi"
                yield Fault(resources.key(key), message, doubtful=not cluster.autoscaling)


def devices_not_counted(cluster: ClusterSpec) -> Iterator[Fault]:
    """An autoscaled group with devices that Ray's autoscaler does not count.

    The autoscaler counts TPUs, and extended resources whose names end with `gpu`. It starts no node
    of the group for tasks that need other devices, even where KubeRay or Ray counts them when a
    node has started: slices and shares of GPUs, Intel and AMD's other resources, Gaudi, Ascend,
    NeuronCores, and GPUs of claims (DRA).

    https://github.com/ray-project/ray/blob/ray-2.60.0/python/ray/autoscaler/_private/kuberay/autoscaling_config.py
    """
    for group in cluster.groups if cluster.autoscaling else ():
        scale = group.scale
        # A fixed group is never started for a task, and Ray detects its devices when it starts.
        if scale.min_replicas == scale.max_replicas:
            continue
        listed = {**group.first.requests, **group.first.limits}
        if any(name.endswith("gpu") for name in listed):
            continue
        ray_resources = ((name, _find_uncounted_resource(name)) for name in listed)
        field, resource = next(
            ((_device_field(group, name), ray) for name, ray in ray_resources if ray),
            (group.pod / "resourceClaims", _GPU if group.count(CLAIMED_GPU) else ""),
        )
        if resource and not _has_amount(group, resource):
            param = "num-gpus" if resource == _GPU else f"resources with {resource}"
            message = f"the autoscaler sees none of these devices: set {param} in rayStartParams"
            yield Fault(field, message)


_GPU: Final = "GPU"
_UNCOUNTED: Final = (
    (re.compile(r"nvidia\.com/(?:mig-.+|gpu\.shared)|.+/gpu-(?:mem|core).*"), _GPU),
    (re.compile(r"gpu\.intel\.com/(?:i915|xe)|.+/vcuda-core"), _GPU),
    (re.compile(r"habana\.ai/gaudi"), "HPU"),
    (re.compile(r"huawei\.com/Ascend.+"), "NPU"),
    (re.compile(r"aws\.amazon\.com/neuroncore"), "neuron_cores"),
)
"""Devices that the autoscaler does not count, with Ray's resource."""


def _find_uncounted_resource(resource: str) -> str:
    """Return Ray's resource of a device that the autoscaler does not count, or an empty text."""
    return next((ray for form, ray in _UNCOUNTED if form.fullmatch(resource)), "")


def _device_field(group: GroupSpec, name: str) -> Field:
    kind = "limits" if name in group.first.limits else "requests"
    return group.first.amounts(kind).key(name)


def _has_amount(group: GroupSpec, resource: str) -> bool:
    """Return whether the amount of a resource is set for Ray, in a start parameter or the group."""
    resources = (group.field / "resources").map
    if resource == _GPU and ("num-gpus" in group.params or any(map(_is_gpu, resources))):
        return True
    return resource in resources or resource in group.params.get("resources", "")


def _is_gpu(name: str) -> bool:
    return name.lower().endswith("gpu")


def cpu_unknown(cluster: ClusterSpec) -> Iterator[Fault]:
    """An autoscaled group without a number of CPUs.

    Ray's autoscaler exits with "failed to detect CPU resources". It reads `num-cpus`, or the limit
    of the first container, or, since Ray 2.41, its request.

    https://github.com/ray-project/ray/blob/master/python/ray/autoscaler/_private/kuberay/autoscaling_config.py
    """
    message = "the autoscaler finds no cpu limit: set it, or num-cpus in rayStartParams"
    release = cluster.release
    kinds = ("limits",) if release is not None and release < REQUESTS_SINCE else _KINDS
    for group in cluster.autoscaled:
        has_cpus = "num-cpus" in group.params or "CPU" in (group.field / "resources").map
        if has_cpus or not group.containers:
            continue
        if all("cpu" not in group.first.amounts(kind).map for kind in kinds):
            yield Fault(group.first.amounts("limits") / "cpu", message, REQUIRED)
