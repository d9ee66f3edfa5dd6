"""Rules of the start of Ray: parameters, resources, labels, variables and versions."""

import json
import shlex
from collections.abc import Iterator
from typing import Final

from webhook.api import names
from webhook.api.formats import (
    LABEL_VALUE_ADVICE,
    is_label_value,
    is_qualified_name,
    nearest,
    shorten,
)
from webhook.api.release import format_release, image_release, parse_release, same_release
from webhook.api.review import FORBIDDEN, NOT_SUPPORTED
from webhook.groups.annotations import check_reserved_labels
from webhook.manifest.start_command import start_amounts
from webhook.validation.cluster import ClusterSpec, GroupSpec
from webhook.validation.field import Field
from webhook.validation.finding import Fault

# https://docs.ray.io/en/latest/cluster/cli.html#ray-start
KNOWN: Final = frozenset({
    "address", "port", "node-ip-address", "node-name", "object-manager-port", "node-manager-port",
    "gcs-server-port", "min-worker-port", "max-worker-port", "worker-port-list",
    "ray-client-server-port", "memory", "object-store-memory", "num-cpus", "num-gpus", "resources",
    "head", "include-dashboard", "dashboard-host", "dashboard-port", "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port", "dashboard-grpc-port", "runtime-env-agent-port", "block",
    "plasma-directory", "object-spilling-directory", "autoscaling-config", "no-redirect-output",
    "plasma-store-socket-name", "raylet-socket-name", "temp-dir", "storage", "system-config",
    "enable-object-reconstruction", "metrics-export-port", "no-monitor", "tracing-startup-hook",
    "ray-debugger-external", "disable-usage-stats", "labels", "labels-file", "include-log-monitor",
    "enable-resource-isolation", "system-reserved-cpu", "system-reserved-memory", "cgroup-path",
    "redis-username", "redis-password", "redis-shard-ports", "redis-max-memory", "log-style",
    "log-color", "verbose", "proxy-server-url",
})  # fmt: skip
_RESOURCES: Final = ("num-cpus", "num-gpus", "memory", "resources")


def resources_given_twice(cluster: ClusterSpec) -> Iterator[Fault]:
    """Resources of a group in both `resources` and `rayStartParams`.

    The two may contradict each other, so KubeRay refuses the RayCluster.
    """
    for group in cluster.every_group:
        field = group.field / "resources"
        if field.size and (twice := [name for name in _RESOURCES if group.params.get(name)]):
            message = (
                f"resources and rayStartParams both have {', '.join(twice)}: keep one of the two"
            )
            yield Fault(field, message, FORBIDDEN)


def labels_in_ray_start_params(cluster: ClusterSpec) -> Iterator[Fault]:
    """Ray node labels given as a start parameter.

    KubeRay sets that parameter from the group's `labels`, and refuses another value.
    """
    for group in cluster.every_group:
        if "labels" in group.params:
            message = "rayStartParams has labels: move them to the field labels of the group"
            yield Fault(group.param("labels"), message, FORBIDDEN)


def ray_label_invalid(cluster: ClusterSpec) -> Iterator[Fault]:
    """A Ray node label that is not a valid Kubernetes label.

    KubeRay adds the label to pods too, and refuses a RayCluster with an invalid label.
    """
    for group in cluster.every_group:
        labels = group.field / "labels"
        for key, value in labels.strings.items():
            if not is_qualified_name(key):
                advice = "write name or prefix/name, with letters, digits, -, _ and ."
                yield Fault(labels.key(key), f"{shorten(key)!r} is not a label key: {advice}")
            elif not is_label_value(value):
                yield Fault(labels.key(key), f"label {shorten(value)!r}: {LABEL_VALUE_ADVICE}")


def ray_label_reserved(cluster: ClusterSpec) -> Iterator[Fault]:
    """A label of a Ray node that only Ray may set, among the labels of a group.

    The raylet ends when it starts, so the pods restart repeatedly.

    https://github.com/ray-project/ray/blob/master/src/ray/raylet/node_manager.cc
    """
    for group in cluster.every_group:
        labels = group.field / "labels"
        for key in labels.strings:
            if why := check_reserved_labels([key]):
                yield Fault(labels.key(key), why, FORBIDDEN)


def ray_start_param_unknown(cluster: ClusterSpec) -> Iterator[Fault]:
    """A start parameter that `ray start` does not have.

    `ray start` exits with a usage error, and the pod restarts repeatedly. New releases of Ray add
    parameters, so this is a warning.

    https://docs.ray.io/en/latest/cluster/cli.html#ray-start
    """
    for group in cluster.every_group:
        for name in group.params:
            if name not in KNOWN:
                message = f"ray start has no --{shorten(name.lstrip('-'))}{_suggestion(name)}"
                yield Fault(group.param(name), message, NOT_SUPPORTED)


def _suggestion(name: str) -> str:
    close = nearest(name.lower().replace("_", "-").lstrip("-"), KNOWN)
    return f": write {close}" if close else ""


_PORTS: Final = (
    "port", "object-manager-port", "node-manager-port", "gcs-server-port", "min-worker-port",
    "max-worker-port", "ray-client-server-port", "dashboard-port", "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port", "dashboard-grpc-port", "runtime-env-agent-port",
    "metrics-export-port",
)  # fmt: skip
_DIGITS: Final = 20
"""Maximum digits of a number; Python itself parses at most 4,300."""
_PORT_MAX: Final = 65535
_OWN_HOSTS: Final = ("127.0.0.1", "localhost", "::1")
_OWNERS: Final = (names.RAYJOB_KIND, names.RAYSERVICE_KIND)
_SHELL: Final = ("$", "`")
_LONGEST: Final = 4096


def _strip_quotes(text: str) -> str:
    return text.strip().strip("\"'")


def _is_integer(text: str) -> bool:
    plain = _strip_quotes(text)
    return plain.isascii() and plain.isdecimal() and len(plain) <= _DIGITS


def _is_port(text: str) -> bool:
    return _is_integer(text) and int(_strip_quotes(text)) <= _PORT_MAX


def _is_map(text: str) -> bool:
    try:
        return isinstance(json.loads(_strip_quotes(text).replace("\\", "")), dict)
    except (ValueError, RecursionError):
        return False


def _is_word(text: str) -> bool:
    """Return whether a text is one word of a shell that is a JSON map."""
    try:
        word, *rest = shlex.split(text)
        return not rest and isinstance(json.loads(word), dict)
    except (ValueError, RecursionError):
        return False


_BYTES: Final = (_is_integer, "an integer such as 8589934592, in bytes")
_VALUES: Final = {
    **dict.fromkeys(_PORTS, (_is_port, f"a port from 0 to {_PORT_MAX}")),
    **dict.fromkeys(("num-cpus", "num-gpus"), (_is_integer, "an integer such as 4")),
    **dict.fromkeys(("memory", "object-store-memory"), _BYTES),
    "resources": (_is_map, """quoted JSON, as in '"{\\"Custom\\": 1}"'"""),
}
"""By start parameter, a predicate of valid values, and advice."""


def ray_start_value_invalid(cluster: ClusterSpec) -> Iterator[Fault]:
    """A value of a start parameter with which `ray start` exits: an invalid number or port, or
    custom resources that are not JSON.

    The container restarts repeatedly. KubeRay inserts the values into a shell command, so JSON
    needs quotes of its own, and a value with a shell variable is not checked.

    https://docs.ray.io/en/latest/cluster/cli.html#ray-start
    """
    # If the cluster autoscales, another rule checks resources as the autoscaler reads them.
    elsewhere = _RESOURCES if cluster.autoscaling else ()
    for group in cluster.every_group:
        for name, value in group.params.items():
            if name not in _VALUES or name in elsewhere:
                continue
            readable, advice = _VALUES[name]
            if name == "resources" and _has_own_resources(cluster, group):
                readable = _is_word
            shell = len(value) > _LONGEST or any(character in value for character in _SHELL)
            if not shell and not readable(value):
                problem = f"{shorten(value)!r}, which ends ray start"
                yield Fault(group.param(name), f"{problem}: write {advice}")


def _has_own_resources(cluster: ClusterSpec, group: GroupSpec) -> bool:
    """Return whether KubeRay writes the `resources` of a group into a shell command as they are:
    the group has no command of its own, and KubeRay adds no devices to them.
    """
    container = group.first.field
    entries = [*(container / "command").items(), *(container / "args").items()]
    if cluster.overwrites_start(group) or any(
        names.RAY_START_COMMAND in entry.text for entry in entries
    ):
        return False
    params = start_amounts(group.field.map)
    return params is not None and params.get("resources") == group.params["resources"]


def dashboard_host_unreachable(cluster: ClusterSpec) -> Iterator[Fault]:
    """A head of a RayJob or RayService whose dashboard listens on loopback.

    KubeRay submits the job, and the configuration of Serve, to the dashboard by its Service, and
    never succeeds. Without the parameter the dashboard listens on all addresses.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    """
    host = _strip_quotes(cluster.head.params.get("dashboard-host", ""))
    if cluster.owner in _OWNERS and host in _OWN_HOSTS:
        message = f"{host}, where KubeRay cannot reach it: write 0.0.0.0"
        yield Fault(cluster.head.param("dashboard-host"), message)


def ray_version_unreadable(cluster: ClusterSpec) -> Iterator[Fault]:
    """A `rayVersion` that is not a version.

    KubeRay chooses commands and defaults by `rayVersion`. If it cannot parse the version, it
    refuses token authentication, and RayJobs with metadata.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/util.go
    """
    field = cluster.field / "rayVersion"
    if field.text and parse_release(field.text) is None:
        yield Fault(field, f"{shorten(field.text)!r} is not a version: write one such as 2.55.1")


def ray_version_mismatch(cluster: ClusterSpec) -> Iterator[Fault]:
    """A `rayVersion` that differs from the release of the head's image.

    KubeRay chooses commands, probes and the default autoscaler by `rayVersion`, but the image runs.
    Only the tags of Ray's own images are parsed.

    https://docs.ray.io/en/latest/cluster/kubernetes/user-guides/config.html
    """
    field = cluster.field / "rayVersion"
    declared = parse_release(field.text)
    actual = image_release(cluster.head.first.image)[0]
    if declared and actual and not same_release(declared, actual):
        head_release = format_release(actual)
        problem = (
            f"rayVersion is {shorten(field.text)}, but the head's image has Ray {head_release}"
        )
        yield Fault(field, f"{problem}: make them equal")


def image_version_mismatch(cluster: ClusterSpec) -> Iterator[Fault]:
    """An image of workers or of the autoscaler with another Ray or Python than the head's image.

    The head refuses such a worker with "Version mismatch", and an autoscaler of another release may
    not be compatible with the head. Only the tags of Ray's own images are parsed.

    https://github.com/ray-project/ray/issues/44063
    """
    ray, python = image_release(cluster.head.first.image)
    workers = [group.first.field / "image" for group in cluster.groups]
    autoscaler_images = [cluster.options / "image"] if cluster.autoscaling else []
    for field in (*autoscaler_images, *workers):
        own_ray, own_python = image_release(field.text)
        if ray and own_ray and ray != own_ray:
            problem = (
                f"image has Ray {format_release(own_ray)}, but the head's has {format_release(ray)}"
            )
            yield Fault(field, f"{problem}: use one release")
        elif python and own_python and python != own_python:
            message = f"image has {own_python}, but the head's has {python}: use one Python"
            yield Fault(field, message)


# KubeRay appends these unconditionally, so its value wins; the first two only exist on workers.
# https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
# (`setContainerEnvVars`)
_WORKER_LOST: Final = ("FQ_RAY_IP", "RAY_IP")
_LOST: Final = (
    "RAY_CLUSTER_NAME",
    "RAY_CLUSTER_NAMESPACE",
    "RAY_CLOUD_INSTANCE_ID",
    "RAY_NODE_TYPE_NAME",
    "KUBERAY_GEN_RAY_START_CMD",
)
# KubeRay sets these only if they are absent, so the user's value wins.
_REPLACED: Final = ("RAY_ADDRESS", "RAY_PORT")


def variable_lost(cluster: ClusterSpec) -> Iterator[Fault]:
    """A variable that KubeRay sets to its own value.

    KubeRay silently overrides the value in the template.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    (`setContainerEnvVars`)
    """
    for group in cluster.every_group:
        lost = _LOST if group is cluster.head else (*_WORKER_LOST, *_LOST)
        for field in _find_variable_names(group, lost):
            yield Fault(field, f"KubeRay replaces the value of {field.text}: remove it")


def variable_replaces_kuberay(cluster: ClusterSpec) -> Iterator[Fault]:
    """A variable that overrides KubeRay's value.

    Pods then join the address in the variable, and not the head of their own cluster.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    (`setContainerEnvVars`)
    """
    for group in cluster.every_group:
        for field in _find_variable_names(group, _REPLACED):
            yield Fault(field, f"{field.text} replaces the address that KubeRay sets: remove it")


def _find_variable_names(group: GroupSpec, wanted: tuple[str, ...]) -> list[Field]:
    """Return the names of variables of Ray's container that are among these."""
    entries = map(group.variable, wanted)
    return [entry / "name" for entry in entries if entry]
