"""A realistic review of about 10 KB: a TPU worker pod as KubeRay builds it, with managed fields, probes and volumes."""

import json
from typing import Any

from tests.apiserver import pod_review

Object = dict[str, Any]

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
"""Of a review; a load generator puts its own in its place, for the server takes no two pods for one."""

CLUSTER: Object = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "metadata": {"name": "bench", "namespace": "default", "uid": "2b7c1d5e-0000-4000-8000-00000000cafe"},
    "spec": {"workerGroupSpecs": [{"groupName": "tpu-group", "replicas": 1000000, "maxReplicas": 1000000, "numOfHosts": 16}]},
}

_FIELDS = {
    "RAY_CLUSTER_NAME": "metadata.labels['ray.io/cluster']",
    "RAY_CLUSTER_NAMESPACE": "metadata.namespace",
    "RAY_CLOUD_INSTANCE_ID": "metadata.name",
    "RAY_NODE_TYPE_NAME": "metadata.labels['ray.io/group']",
}


def worker_pod() -> Object:
    """Return a worker pod of the bench cluster's TPU group."""
    env: list[Object] = [{"name": f"APP_SETTING_{i}", "value": f"value-of-setting-{i}-which-has-some-length"} for i in range(25)]
    env += [{"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}} for name, path in _FIELDS.items()]
    env += [{"name": "FQ_RAY_IP", "value": "bench-head-svc.default.svc.cluster.local"}, {"name": "RAY_PORT", "value": "6379"}]
    env += [{"name": "KUBERAY_GEN_RAY_START_CMD", "value": "ray start --address=x:6379 --block --metrics-export-port=8080 " * 2}]
    probe = {
        "exec": {"command": ["bash", "-c", "wget -T 2 -q -O- http://localhost:52365/api/healthz | grep success"]},
        "periodSeconds": 5,
    }
    mounts = [{"mountPath": f"/mnt/data-{i}", "name": f"data-{i}"} for i in range(8)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": "bench-tpu-group-worker-",
            "namespace": "default",
            "labels": {
                "app.kubernetes.io/name": "kuberay",
                "app.kubernetes.io/created-by": "kuberay-operator",
                "ray.io/cluster": "bench",
                "ray.io/group": "tpu-group",
                "ray.io/identifier": "bench-worker",
                "ray.io/is-ray-node": "yes",
                "ray.io/node-type": "worker",
            },
            "ownerReferences": [
                {
                    "apiVersion": "ray.io/v1",
                    "kind": "RayCluster",
                    "name": "bench",
                    "uid": CLUSTER["metadata"]["uid"],
                    "controller": True,
                }
            ],
            "managedFields": [_managed()],
        },
        "spec": {
            "nodeSelector": {
                "cloud.google.com/gke-tpu-accelerator": "tpu-v5p-slice",
                "cloud.google.com/gke-tpu-topology": "4x4x4",
            },
            "initContainers": [
                {"name": "wait-gcs-ready", "image": "rayproject/ray:2.54.0", "env": env[:25], "volumeMounts": mounts}
            ],
            "containers": [
                {
                    "name": "ray-worker",
                    "image": "rayproject/ray:2.54.0",
                    "command": ["/bin/bash", "-c", "--"],
                    "args": ["ulimit -n 65536; ray start --address=x:6379 --block"],
                    "env": env,
                    "livenessProbe": probe,
                    "readinessProbe": probe,
                    "resources": {
                        "limits": {"cpu": "8", "memory": "40Gi", "google.com/tpu": "4"},
                        "requests": {"cpu": "8", "memory": "40Gi", "google.com/tpu": "4"},
                    },
                    "volumeMounts": mounts,
                }
            ],
            "volumes": [{"name": f"data-{i}", "persistentVolumeClaim": {"claimName": f"claim-{i}"}} for i in range(8)],
            "tolerations": [{"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
    }


def _managed() -> Object:
    fields: Object = {f'k:{{"name":"APP_SETTING_{i}"}}': {".": {}, "f:name": {}, "f:value": {}} for i in range(15)}
    spec = {"f:containers": {'k:{"name":"ray-worker"}': {"f:env": fields}}}
    return {
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": spec},
        "manager": "kuberay-operator",
        "operation": "Update",
    }


def review_body(uid: str = UID) -> bytes:
    """Return the review of that pod."""
    return json.dumps(pod_review(worker_pod(), uid=uid), separators=(",", ":")).encode()
