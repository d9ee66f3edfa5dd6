"""Worker pods and RayClusters as the API server stores them, and pods of the shared server."""

from tests import builders
from tests.harness.fake_api import Object
from webhook.api import names
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
    pod = builders.a_pod().of(cluster).worker(group).env("A", "b")
    if identity is not None and identity.name:
        pod.identity(identity.replica, identity.host, identity.name)
    elif identity is not None:
        pod.label(names.LABEL_REPLICA_INDEX, str(identity.replica))
    return pod.meta(name=name, namespace=namespace).build()


def terminating(pod: Object) -> Object:
    return {**pod, "metadata": {**pod["metadata"], "deletionTimestamp": "2024-11-21T10:00:00Z"}}


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


LABELS = {
    "index": names.LABEL_REPLICA_INDEX,
    "name": names.LABEL_REPLICA_NAME,
    "host": names.LABEL_HOST_INDEX,
}


def worker(group: str, cluster: str = "odd", **labels: str) -> Object:
    """Return a worker pod of the shared server; names of labels are those of `LABELS`."""
    pod = builders.a_pod().of(cluster).worker(group)
    for name, value in labels.items():
        pod.label(LABELS[name], value)
    return pod.build()
