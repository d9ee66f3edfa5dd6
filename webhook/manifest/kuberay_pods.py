"""The pods that KubeRay would create for a RayCluster, in its order, as admission receives them."""

import copy
from collections.abc import Iterator
from typing import Any, Final

from webhook.api import names
from webhook.api.objects import WAIT_FOR_HEAD_AMOUNTS, RayCluster, WorkerGroup
from webhook.groups.identity import MAX_HOSTS
from webhook.groups.naming import pod_prefix, replica_name

Object = dict[str, Any]

MOST_PODS: Final = 150_000
"""The maximum of pods that Kubernetes supports in one cluster.

https://kubernetes.io/docs/setup/best-practices/cluster-large/
"""


def expand(document: Object, cluster: RayCluster, *, indexed: bool = False) -> Iterator[Object]:
    """Yield the head pod, then the workers: groups in the order of the spec, replicas by index,
    hosts by index.

    `document` is the RayCluster as written, `cluster` its view with namespace and uid. `indexed`
    adds the identity labels, as KubeRay 1.6+ does by default (feature gate RayMultiHostIndexing).
    Probes, volumes, the start command and its defaults are omitted, because no mutation reads them.
    """
    spec = document.get("spec") or {}
    head = spec.get("headGroupSpec") or {}
    yield _pod(
        cluster, head, names.HEAD_GROUP, {names.LABEL_NODE_TYPE: names.NODE_TYPE_HEAD}, head=True
    )
    for raw, group in zip(spec.get("workerGroupSpecs") or [], cluster.groups, strict=True):
        for replica in range(group.desired):
            for host in range(min(group.num_of_hosts, MAX_HOSTS)):
                labels = {names.LABEL_NODE_TYPE: names.NODE_TYPE_WORKER}
                if indexed:
                    labels |= _identity_labels(cluster, group, replica, host)
                yield _pod(cluster, raw, group.group_name, labels)


def count_pods(cluster: RayCluster) -> int:
    """Return the number of pods that `expand` yields."""
    hosts = (group.desired * max(min(group.num_of_hosts, MAX_HOSTS), 0) for group in cluster.groups)
    return 1 + sum(hosts)


def cluster_for(document: Object) -> Object | None:
    """Return the RayCluster that KubeRay creates for a RayJob, RayService or RayCronJob; None if an
    existing RayCluster is used.

    The suffix of its name, which is random in KubeRay, is the same for the same object. Labels and
    annotations are those of the RayJob or RayService, but not those of a RayCronJob.
    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/rayjob_controller.go
    (`constructRayClusterForRayJob`)
    """
    kind, meta, spec = document["kind"], document.get("metadata") or {}, document.get("spec") or {}
    owner_kind = kind
    if kind == names.RAYCRONJOB_KIND:
        meta = {key: meta[key] for key in ("name", "namespace") if key in meta}
        meta["name"] = replica_name(str(meta.get("name") or ""), "job")
        owner_kind, spec = names.RAYJOB_KIND, spec.get("jobTemplate") or {}
    cluster = spec.get("rayClusterConfig" if kind == names.RAYSERVICE_KIND else "rayClusterSpec")
    # KubeRay reads no `rayClusterSpec` beside a `clusterSelector`.
    if cluster is None or (owner_kind == names.RAYJOB_KIND and spec.get("clusterSelector")):
        return None
    name = str(meta.get("name") or "")
    labels = {
        **(meta.get("labels") or {}),
        names.LABEL_ORIGIN_NAME: name,
        names.LABEL_ORIGIN_KIND: owner_kind,
    }
    metadata = {
        "name": replica_name(name, f"{meta.get('namespace') or 'default'}/{name}"),
        "labels": labels,
        "annotations": dict(meta.get("annotations") or {}),
    }
    if "namespace" in meta:
        metadata["namespace"] = meta["namespace"]
    return {
        "apiVersion": f"{names.RAY_GROUP}/{names.RAY_VERSIONS[0]}",
        "kind": names.RAYCLUSTER_KIND,
        "metadata": metadata,
        "spec": copy.deepcopy(cluster),
    }


def _identity_labels(
    cluster: RayCluster, group: WorkerGroup, replica: int, host: int
) -> dict[str, str]:
    labels = {names.LABEL_REPLICA_INDEX: str(replica)}
    if group.num_of_hosts > 1:
        labels[names.LABEL_REPLICA_NAME] = replica_name(
            group.group_name, f"{cluster.metadata.uid}/{replica}"
        )
        labels[names.LABEL_HOST_INDEX] = str(host)
    return labels


def _pod(
    cluster: RayCluster, group: Object, name: str, labels: dict[str, str], *, head: bool = False
) -> Object:
    """Return one pod.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    (`DefaultWorkerPodTemplate`, `BuildPod`)
    """
    owner = cluster.metadata.name or ""
    template = copy.deepcopy(group.get("template") or {})
    metadata = template.get("metadata") or {}
    spec = template.get("spec") or {}
    _complete(spec, owner, cluster.metadata.namespace or "", head=head)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": pod_prefix(owner, None if head else name),
            "namespace": cluster.metadata.namespace,
            "labels": {
                "app.kubernetes.io/name": "kuberay",
                "app.kubernetes.io/created-by": "kuberay-operator",
                "ray.io/is-ray-node": "yes",
                "ray.io/identifier": f"{owner}-{'head' if head else 'worker'}"[-63:],
                **(metadata.get("labels") or {}),
                **(group.get("labels") or {}),
                names.LABEL_CLUSTER: owner,
                names.LABEL_GROUP: name,
                **labels,
            },
            "annotations": dict(metadata.get("annotations") or {}),
            "ownerReferences": [
                {
                    "apiVersion": "ray.io/v1",
                    "kind": names.RAYCLUSTER_KIND,
                    "name": owner,
                    "uid": cluster.metadata.uid,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": spec,
    }


def _complete(spec: Object, cluster: str, namespace: str, *, head: bool) -> None:
    """Add KubeRay's variables, and to a worker the init container that waits for the head."""
    containers = spec.get("containers") or []
    if not containers:
        return
    ray = containers[0]
    written = list(ray.get("env") or [])
    service = f"{cluster}-head-svc"
    full = f"{service}.{namespace}.svc.cluster.local"
    address = {} if head else {"FQ_RAY_IP": full, "RAY_IP": service}
    if not head:
        inits = spec["initContainers"] = spec.get("initContainers") or []
        for init in inits:
            init["env"] = [*(init.get("env") or []), *_values(address)]
        waiting = {
            "name": names.WAIT_FOR_HEAD,
            "image": ray.get("image"),
            "command": ["/bin/bash", "-c", "--"],
            "env": [*copy.deepcopy(written), *_values(address)],
            "resources": {
                "limits": {**WAIT_FOR_HEAD_AMOUNTS},
                "requests": {**WAIT_FOR_HEAD_AMOUNTS},
            },
        }
        inits.append(waiting)
    present = {variable.get("name") for variable in written}
    defaults = {
        "RAY_PORT": "6379",
        "RAY_ADDRESS": f"{'127.0.0.1' if head else full}:6379",
        "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
    }
    missing = {name: value for name, value in defaults.items() if name not in present}
    fields = (
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
        for name, path in _FIELDS.items()
    )
    # Also where the template has them: of two entries with a name, the kubelet uses the last.
    ray["env"] = [*written, *_values(address), *fields, *_values(missing)]


_FIELDS: Final = {
    "RAY_CLUSTER_NAME": f"metadata.labels['{names.LABEL_CLUSTER}']",
    "RAY_CLUSTER_NAMESPACE": "metadata.namespace",
    "RAY_CLOUD_INSTANCE_ID": "metadata.name",
    "RAY_NODE_TYPE_NAME": f"metadata.labels['{names.LABEL_GROUP}']",
}
"""KubeRay's variables with fields of the pod as values."""


def _values(variables: dict[str, str]) -> list[Object]:
    return [{"name": name, "value": value} for name, value in variables.items()]
