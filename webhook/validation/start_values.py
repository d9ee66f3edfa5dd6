"""Rules of start parameters with values that make `ray start` exit or the head unreachable."""

import json
from collections.abc import Iterator
from typing import Final

from webhook.api import names
from webhook.api.release import parse_release
from webhook.validation.cluster import Cluster
from webhook.validation.finding import Fault
from webhook.validation.rule import RAY, deny, warn

_AMOUNTS: Final = ("num-cpus", "num-gpus", "memory", "object-store-memory")
_AUTOSCALED: Final = ("num-cpus", "num-gpus", "memory")
"""Amounts that another rule checks if the cluster autoscales, as the autoscaler reads them."""
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


def ray_start_value_invalid(cluster: Cluster) -> Iterator[Fault]:
    """A value of a start parameter with which `ray start` exits: an invalid number or port, or
    custom resources that are not JSON.

    The container restarts repeatedly. KubeRay inserts the values into a shell command, so a value
    with a shell variable is not checked.

    https://docs.ray.io/en/latest/cluster/cli.html#ray-start
    """
    for group in cluster.everyone:
        for name, text in group.params.items():
            if len(text) > _LONGEST or any(each in text for each in _SHELL):
                continue
            if cluster.autoscaling and (name in _AUTOSCALED or name == "resources"):
                continue
            if problem := _problem(name, text):
                yield Fault(group.param(name), f"{text[:40]!r}, which ends ray start: {problem}")


def _problem(name: str, text: str) -> str:
    """Return the advice for a value, or an empty string if the value is valid."""
    if name in _PORTS:
        number = _integer(text)
        fine = number is not None and number <= _PORT_MAX
        return "" if fine else f"write a port from 0 to {_PORT_MAX}"
    if name in _AMOUNTS:
        example = "4" if name.startswith("num-") else "8589934592, in bytes"
        return "" if _integer(text) is not None else f"write an integer such as {example}"
    if name == "resources" and not _is_map(text):
        return """write quoted JSON, as in '"{\\"Custom\\": 1}"'"""
    return ""


def _integer(text: str) -> int | None:
    plain = text.strip().strip("\"'")
    return int(plain) if plain.isascii() and plain.isdecimal() and len(plain) <= _DIGITS else None


def _is_map(text: str) -> bool:
    try:
        return isinstance(json.loads(text.strip().strip("\"'").replace("\\", "")), dict)
    except (ValueError, RecursionError):
        return False


def dashboard_host_unreachable(cluster: Cluster) -> Iterator[Fault]:
    """A head of a RayJob or RayService whose dashboard listens on loopback.

    KubeRay submits the job, and the configuration of Serve, to the dashboard by its Service, and
    never succeeds. Without the parameter the dashboard listens on all addresses.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    """
    host = cluster.head.params.get("dashboard-host", "").strip().strip("\"'")
    if cluster.owner in _OWNERS and host in _OWN_HOSTS:
        text = f"{host}, where KubeRay cannot reach it: write 0.0.0.0"
        yield Fault(cluster.head.param("dashboard-host"), text)


def ray_version_unreadable(cluster: Cluster) -> Iterator[Fault]:
    """A `rayVersion` that is not a version.

    KubeRay chooses commands and defaults by `rayVersion`. If it cannot parse the version, it
    refuses token authentication, and RayJobs with metadata.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/util.go
    """
    field = cluster.field / "rayVersion"
    if field.text and parse_release(field.text) is None:
        yield Fault(field, f"{field.text[:40]!r} is not a version: write one such as 2.55.1")


START_VALUES: Final = (
    deny(ray_start_value_invalid, by=RAY),
    deny(dashboard_host_unreachable),
    warn(ray_version_unreadable),
)
