"""Worker pods of unusual RayClusters that the shared server has in its cache."""

from typing import Any

Object = dict[str, Any]


def worker(group: str, cluster: str = "odd", **labels: str) -> Object:
    """Return a worker pod; names of labels are those of `LABELS`."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{cluster}-{group}-worker-"[:50].lower(),
            "namespace": "default",
            "labels": {
                "ray.io/cluster": cluster,
                "ray.io/group": group,
                "ray.io/node-type": "worker",
                **{LABELS[name]: value for name, value in labels.items()},
            },
            "ownerReferences": [
                {
                    "apiVersion": "ray.io/v1", "kind": "RayCluster", "name": cluster,
                    "uid": f"{cluster}-uid", "controller": True,
                }
            ],
        },
        "spec": {"containers": [{"name": "ray-worker", "image": "rayproject/ray:2.54.0"}]},
    }  # fmt: skip


LABELS = {
    "index": "ray.io/worker-group-replica-index",
    "name": "ray.io/worker-group-replica-name",
    "host": "ray.io/replica-host-index",
}


def without(pod: Object, label: str) -> Object:
    del pod["metadata"]["labels"][label]
    return pod
