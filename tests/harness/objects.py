"""Worker pods and RayClusters as the API server stores them."""

from tests.harness.fake_api import Object
from webhook.groups.identity import GroupKey, HostIdentity

KEY = GroupKey("default", "uid-of-ray", "tpu")


def a_pod(
    name: str,
    identity: HostIdentity | None = None,
    *,
    cluster: str = "ray",
    group: str = "tpu",
    namespace: str = "default",
) -> Object:
    labels = {
        "ray.io/cluster": cluster,
        "ray.io/group": group,
        "ray.io/node-type": "worker",
        "app": "ray",
    }
    if identity is not None:
        labels["ray.io/worker-group-replica-index"] = str(identity.replica)
        if identity.name:
            labels["ray.io/worker-group-replica-name"] = identity.name
            labels["ray.io/replica-host-index"] = str(identity.host)
    owner = {
        "apiVersion": "ray.io/v1", "kind": "RayCluster", "name": cluster,
        "uid": f"uid-of-{cluster}", "controller": True,
    }  # fmt: skip
    meta = {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [owner]}
    return {
        "kind": "Pod",
        "metadata": meta,
        "spec": {"containers": [{"name": "ray", "env": [{"name": "A", "value": "b"}]}]},
    }


def terminating(pod: Object) -> Object:
    return {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2026-11-21T10:00:00Z"}}


def served_by_another(pod: Object, legacy: str, worker_id: str) -> Object:
    """Return a pod as a webhook before this one left it."""
    labels = {**pod["metadata"]["labels"], "replicaIndex": legacy}
    env = [
        {"name": "TPU_NAME", "valueFrom": {"fieldRef": {}}},
        {"name": "TPU_WORKER_ID", "value": worker_id},
    ]
    return {
        **pod,
        "metadata": {**pod["metadata"], "labels": labels},
        "spec": {"containers": [{"name": "ray", "env": env}]},
    }


def a_raycluster(
    name: str = "ray", *, uid: str = "", namespace: str = "default", **group: object
) -> Object:
    spec = {
        "groupName": "tpu", "numOfHosts": 4, "replicas": 2, "minReplicas": 0, "maxReplicas": 100,
        **group,
    }  # fmt: skip
    meta = {"name": name, "namespace": namespace, "uid": uid or f"uid-of-{name}", "annotations": {}}
    return {"kind": "RayCluster", "metadata": meta, "spec": {"workerGroupSpecs": [spec]}}
