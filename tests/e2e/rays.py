"""RayClusters that the tests apply, and functions that read their pods."""

from collections.abc import Sequence

import yaml

from tests import ROOT
from tests.e2e.api import EVENTS, PODS, RAY_CLUSTERS, Api, Json, Objects, Resource
from tests.e2e.waiting import until, until_equal
from tests.harness.identities import identity_of, violations
from webhook.api import names
from webhook.manifest.kuberay_pods import expand
from webhook.manifest.reader import Manifest
from webhook.manifest.views import as_cluster

EXAMPLES = ROOT / "examples"
HOSTS = 4
"""Hosts of each replica of `slices`."""

IDENTITY = (*names.IDENTITY_LABELS, names.LABEL_LEGACY_REPLICA_INDEX)

Identities = list[tuple[int, int]]


def example(stem: str) -> Json:
    found: Json = yaml.safe_load((EXAMPLES / f"{stem}.yaml").read_text())
    return found


def slices(name: str, replicas: int, most: int = 50) -> Json:
    cluster = example("tpu-three-replicas")
    cluster["metadata"]["name"] = name
    cluster["spec"]["workerGroupSpecs"][0] |= {
        "replicas": replicas,
        "minReplicas": 0,
        "maxReplicas": most,
    }
    return cluster


def scale(api: Api, name: str, namespace: str, replicas: int, leaving: Sequence[Json] = ()) -> None:
    """Set the replicas of the first group; `leaving` are the pods that an autoscaler names."""
    groups = api.get(RAY_CLUSTERS, name, namespace)["spec"]["workerGroupSpecs"]
    groups[0]["replicas"] = replicas
    groups[0]["scaleStrategy"] = {"workersToDelete": [pod["metadata"]["name"] for pod in leaving]}
    api.patch(RAY_CLUSTERS, name, {"spec": {"workerGroupSpecs": groups}}, namespace)


def wait_for_cache(api: Api, resource: Resource, stored: Json) -> None:
    """Return once the watch cache has an object as stored: a patch of an older one begins again."""
    metadata = stored["metadata"]
    path = resource.path(metadata["namespace"], metadata["name"])
    until_equal(
        lambda: api.request("GET", path, query={"resourceVersion": "0"}).body["metadata"][
            "resourceVersion"
        ],
        metadata["resourceVersion"],
        f"the watch cache has {path} as stored",
    )


def worker_of(cluster: Json) -> Json:
    manifest = Manifest("stored", cluster)
    return list(expand(cluster, as_cluster(manifest)))[1]


def workers(api: Api, namespace: str, cluster: str = "") -> Objects:
    selector = "ray.io/node-type=worker" + (f",ray.io/cluster={cluster}" if cluster else "")
    return [
        pod
        for pod in api.list(PODS, namespace, selector)
        if "deletionTimestamp" not in pod["metadata"]
    ]


def stored(api: Api, namespace: str) -> int:
    page = api.request("GET", PODS.path(namespace), query={"limit": "1"}).body
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount", 0))


def names_of(pods: Objects) -> set[str]:
    return {pod["metadata"]["name"] for pod in pods}


def uids(pods: Objects) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods}


def wait_for_pods(api: Api, namespace: str, count: int) -> Objects:
    until_equal(lambda: len(api.list(PODS, namespace)), count, f"pods of {namespace}")
    return api.list(PODS, namespace)


def wait_for_workers(
    api: Api, namespace: str, count: int, cluster: str = "", seconds: float = 900
) -> Objects:
    return until(
        lambda: _exactly(count, workers(api, namespace, cluster)),
        f"{count} workers of {namespace} {cluster}",
        seconds,
    )


def _exactly(count: int, pods: Objects) -> Objects:
    return pods if len(pods) == count else []


def identities(pods: Objects) -> Identities:
    return sorted(
        (held.replica, held.host) for pod in pods if (held := identity_of(pod)) is not None
    )


def whole(*replicas: int) -> Identities:
    return [(replica, host) for replica in replicas for host in range(HOSTS)]


def with_identity(pods: Objects, replica: int, host: int) -> Json:
    (found,) = (
        pod
        for pod in pods
        if (held := identity_of(pod)) and (held.replica, held.host) == (replica, host)
    )
    return found


def of_replica(pods: Objects, replica: int) -> Objects:
    return [
        with_identity(pods, *identity) for identity in identities(pods) if identity[0] == replica
    ]


def replica_names(pods: Objects) -> set[str]:
    return {held.name for pod in pods if (held := identity_of(pod)) is not None}


def wrong_identities(pods: Objects, *clusters: Json) -> list[str]:
    hosts = {
        (cluster["metadata"]["name"], group["groupName"]): group["numOfHosts"]
        for cluster in clusters
        for group in cluster["spec"]["workerGroupSpecs"]
    }
    return violations(pods, hosts)


def events_of(api: Api, namespace: str, reason: str) -> Objects:
    return [each for each in api.list(EVENTS, namespace) if each["reason"] == reason]
