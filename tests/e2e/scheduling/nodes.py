"""Nodes without a machine: pods are bound to them, but do not run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.e2e.api import NODES, PODS, Api, Json, Objects

CAPACITY = {"cpu": "8", "memory": "64Gi", "pods": "10"}
"""Of a Node unless a story says otherwise: room for one worker of most examples."""


@contextmanager
def present(
    api: Api, names: Sequence[str], labels: Json | None = None, capacity: Json | None = None
) -> Iterator[None]:
    """Ready Nodes, removed when the block ends; the pods on them are the story's to remove."""
    try:
        for name in names:
            _create(api, name, labels or {}, {**CAPACITY, **(capacity or {})})
        yield
    finally:
        for name in names:
            api.delete(NODES, name)


def bind(api: Api, pod: str, namespace: str, node: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod},
        "target": {"kind": "Node", "name": node},
    }
    api.request("POST", PODS.path(namespace, pod, "binding"), body)


def bound(pods: Objects) -> Objects:
    return [pod for pod in pods if pod["spec"].get("nodeName")]


def _create(api: Api, name: str, labels: Json, capacity: Json) -> None:
    """Remove the taint of a new Node too, as a kubelet and a controller would."""
    api.create(NODES, {"metadata": {"name": name, "labels": labels}})
    status = {
        "capacity": capacity,
        "allocatable": capacity,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    api.set_status(NODES, name, status)
    api.patch(NODES, name, {"spec": {"taints": None}})
