"""Fake of Google's webhook for TPUs: it changes pods to the format of that webhook.

Its behaviour follows the source; identities are assigned by the existing pods, the lowest first.
https://github.com/ai-on-gke/kuberay-tpu-webhook/blob/main/main.go
"""

import copy
import math
from collections.abc import Iterable
from typing import Any

import jsonpatch

from webhook.api import names

Object = dict[str, Any]


def mutate(pod: Object, others: Iterable[Object]) -> list[Object]:
    asking = [each for each in _containers(pod) if _chips(each)]
    if not asking:
        return []
    labels, spec = pod["metadata"]["labels"], pod["spec"]
    cluster, group = labels[names.LABEL_CLUSTER], labels[names.LABEL_GROUP]
    topology = spec["nodeSelector"][names.NODE_TPU_TOPOLOGY]
    chips = math.prod(int(size) for size in topology.split("x"))
    hosts = max(chips // sum(_chips(each) for each in asking), 1)
    v7x = spec["nodeSelector"].get(names.NODE_TPU_ACCELERATOR, "").startswith("tpu7x")
    patch: list[Object] = []
    if names.LABEL_REPLICA_INDEX in labels and names.LABEL_HOST_INDEX in labels:
        replica, host = (
            int(labels[names.LABEL_REPLICA_INDEX]),
            int(labels[names.LABEL_HOST_INDEX]),
        )
    else:
        replica, host = _free(group, hosts, others)
        patch.append(_add("/metadata/labels/replicaIndex", f"{group}-{replica}"))
    service = f"{cluster}-headless"
    if hosts > 1:
        patch.append(_add("/spec/hostname", f"{group}-{replica}-{host}"))
        patch.append(_add("/spec/subdomain", service))
    peers = [f"{group}-{replica}-{each}.{service}" for each in range(hosts)]
    for ordinal, container in enumerate(asking):
        number = host * len(asking) + ordinal if v7x else host
        variables = {
            names.TPU_WORKER_HOSTNAMES: ",".join(peers) if hosts > 1 else "",
            names.TPU_PROCESS_ADDRESSES: ",".join(
                f"{peer}:{8471 + each}" for peer in peers for each in range(len(asking))
            )
            if v7x and hosts > 1
            else "",
            names.TPU_PROCESS_PORT: str(8471 + ordinal) if v7x and hosts > 1 else "",
            names.TPU_WORKER_ID: str(number),
            names.TPU_NAME: f"{group}-{replica}",
        }
        patch += _set_variables(pod, container, variables, ordinal)
    return patch


def admitted(pod: Object, others: Iterable[Object] = ()) -> Object:
    created: Object = jsonpatch.apply_patch(copy.deepcopy(pod), mutate(pod, others))
    return created


def host_of(pod: Object) -> int:
    asking = [each for each in _containers(pod) if _chips(each)]
    v7x = pod["spec"]["nodeSelector"].get(names.NODE_TPU_ACCELERATOR, "").startswith("tpu7x")
    ids = [each["value"] for each in asking[0]["env"] if each["name"] == names.TPU_WORKER_ID]
    return int(ids[-1]) // (len(asking) if v7x else 1)


def _free(group: str, hosts: int, others: Iterable[Object]) -> tuple[int, int]:
    taken: dict[int, set[int]] = {}
    for other in others:
        label = other["metadata"]["labels"].get(names.LABEL_LEGACY_REPLICA_INDEX, "")
        if label.startswith(f"{group}-") and "deletionTimestamp" not in other["metadata"]:
            taken.setdefault(int(label.rpartition("-")[2]), set()).add(host_of(other))
    short = [replica for replica, held in sorted(taken.items()) if len(held) < hosts]
    replica = short[0] if short else len(taken)
    held = taken.get(replica, set())
    return replica, min(host for host in range(hosts) if host not in held)


def _set_variables(
    pod: Object, container: Object, variables: dict[str, str], ordinal: int
) -> list[Object]:
    """Return the operations that append variables; what the user set stays before them."""
    path = f"/spec/containers/{pod['spec']['containers'].index(container)}/env"
    mine = {each["name"]: each.get("value", "") for each in container.get("env") or ()}
    placeholders = {names.TPU_WORKER_HOSTNAMES: "localhost", names.TPU_WORKER_ID: str(ordinal)}
    lacking = {
        name: value
        for name, value in variables.items()
        if value and value != mine.get(name) and mine.get(name, "") in ("", placeholders.get(name))
    }
    start = [] if container.get("env") else [_add(path, [])]
    return start + [
        _add(f"{path}/-", {"name": name, "value": value}) for name, value in lacking.items()
    ]


def _containers(pod: Object) -> list[Object]:
    return list(pod["spec"]["containers"])


def _chips(container: Object) -> int:
    resources = container.get("resources") or {}
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return int(amounts.get(names.RESOURCE_TPU, 0))


def _add(path: str, value: object) -> Object:
    return {"op": "add", "path": path, "value": value}
