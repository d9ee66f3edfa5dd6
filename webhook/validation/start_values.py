"""Values of start parameters by which `ray start` ends, or by which the head cannot be reached."""

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
"""Amounts that Ray's autoscaler reads as well: another rule checks them where it runs."""
_PORTS: Final = (
    "port", "object-manager-port", "node-manager-port", "gcs-server-port", "min-worker-port",
    "max-worker-port", "ray-client-server-port", "dashboard-port", "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port", "dashboard-grpc-port", "runtime-env-agent-port",
    "metrics-export-port",
)  # fmt: skip
_DIGITS: Final = 20
"""Of the largest number; Python itself reads none of more than 4,300."""
_PORT_MAX: Final = 65535
_OWN_HOSTS: Final = ("127.0.0.1", "localhost", "::1")
_OWNERS: Final = (names.RAYJOB_KIND, names.RAYSERVICE_KIND)
_SHELL: Final = ("$", "`")
_LONGEST: Final = 4096


def ray_start_value_invalid(cluster: Cluster) -> Iterator[Fault]:
    """A value of a start parameter by which `ray start` ends: a number that is none, a port that
    does not exist, or custom resources that are not JSON.

    The container restarts for ever. KubeRay writes the values into a command of a shell, so one
    with a variable is not checked.

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
    """Return what to write in place of a value, nothing when it can be used."""
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
    """A head whose dashboard listens on loopback, of a RayJob or RayService.

    KubeRay submits the job, and the configuration of Serve, to the dashboard by its Service, and
    waits for ever. Without the parameter it listens on all addresses.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    """
    host = cluster.head.params.get("dashboard-host", "").strip().strip("\"'")
    if cluster.owner in _OWNERS and host in _OWN_HOSTS:
        text = f"{host}, where KubeRay cannot reach it: write 0.0.0.0"
        yield Fault(cluster.head.param("dashboard-host"), text)


def ray_version_unreadable(cluster: Cluster) -> Iterator[Fault]:
    """A `rayVersion` that is not a version.

    KubeRay chooses commands and defaults by it, and refuses RayJobs with metadata and the
    authentication of Ray when it cannot read it.

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
