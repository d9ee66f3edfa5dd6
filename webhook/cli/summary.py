"""A table of the values of pods: identity, host name, and variables of Ray's container."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from webhook.api import names
from webhook.api.objects import ray_container

Object = dict[str, Any]

SHOWN: Final = (
    names.TPU_WORKER_ID,
    names.TPU_NAME,
    names.MEGASCALE_SLICE_ID,
    names.NODE_RANK,
    names.NNODES,
    names.MASTER_ADDR,
    names.RAY_SHARD_INDEX,
)
"""The variables that differ between hosts."""

_ALL: Final = 13
_FIRST: Final = 3
_LAST: Final = 2
"""Workers shown at each end of a group of more than `_ALL` workers."""


def table(pods: Iterable[Object]) -> Iterator[str]:
    """Yield the lines of a table of worker pods, as they are stored; other pods are skipped."""
    groups: dict[tuple[str, str], list[Object]] = {}
    for pod in pods:
        labels = pod["metadata"].get("labels") or {}
        if names.LABEL_REPLICA_INDEX in labels:
            place = labels.get(names.LABEL_CLUSTER, ""), labels.get(names.LABEL_GROUP, "")
            groups.setdefault(place, []).append(pod)
    if not groups:
        yield "no worker has an identity"
        return
    widths = [max(len(head), *(len(place[i]) for place in groups)) for i, head in enumerate(_HEADS)]
    yield _line(widths, *_HEADS, "replica", "host", "host name", "variables of Ray's container")
    for workers in groups.values():
        many = len(workers) > _ALL
        for pod in workers[:_FIRST] if many else workers:
            yield _row(widths, pod)
        if many:
            yield f"… {len(workers) - _FIRST - _LAST} more"
            for pod in workers[-_LAST:]:
                yield _row(widths, pod)


_HEADS: Final = ("cluster", "group")


def _row(widths: list[int], pod: Object) -> str:
    labels, spec = pod["metadata"]["labels"], pod["spec"]
    container = _ray(spec.get("containers") or [{}])
    env = {variable["name"]: variable.get("value", "") for variable in container.get("env") or ()}
    assignments = [f"{name}={env[name]}" for name in SHOWN if name in env]
    peers = env.get(names.TPU_WORKER_HOSTNAMES, "").count(",")
    assignments += [f"{names.TPU_WORKER_HOSTNAMES}=({peers + 1} hosts)"] if peers else []
    group = spec.get("schedulingGroup")
    assignments += [f"podGroupName={group['podGroupName']}"] if group else []
    rules = [rule["resourceName"] for rule in container.get("resizePolicy") or ()]
    assignments += [f"resizePolicy={','.join(rules)}"] if rules else []
    return _line(
        widths,
        labels.get(names.LABEL_CLUSTER, ""),
        labels.get(names.LABEL_GROUP, ""),
        labels[names.LABEL_REPLICA_INDEX],
        labels.get(names.LABEL_HOST_INDEX, "0"),
        spec.get("hostname") or "-",
        " ".join(assignments) or "-",
    )


def _ray(containers: list[Object]) -> Object:
    container_variables = (
        (container.get("name", ""), [entry["name"] for entry in container.get("env") or ()])
        for container in containers
    )
    return containers[ray_container(container_variables)]


def _line(widths: list[int], *cells: str) -> str:
    cluster, group, replica, host, name, variables = cells
    where = f"{cluster:<{widths[0]}} {group:<{widths[1]}} {replica:>7} {host:>4}"
    return f"{where}  {name:<16} {variables}"
