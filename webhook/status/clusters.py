"""Diagnoses of RayClusters: what KubeRay is refused or does not create, and who is left alone."""

from collections.abc import Iterator
from typing import Final

import msgspec

from webhook.kube import names
from webhook.status.diagnosis import Symptom, error, info
from webhook.status.expected import Expected
from webhook.status.objects import find
from webhook.status.standing import Cluster, Group, newest
from webhook.status.words import describe, edit

_REFUSALS: Final = ("FailedToCreateWorkerPod", "FailedToCreateHeadPod")
"""
https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/constant.go
"""

_REPLICA_FAILURE: Final = "ReplicaFailure"
_FRESH_SECONDS: Final = 1100.0
"""How old the last of KubeRay's refusals may be: it tries again after 1,000 s at the latest."""

_WORDS_MAX: Final = 600


def pod_refused(cluster: Cluster) -> Iterator[Symptom]:
    """A RayCluster of which the API server refuses a pod.

    The message has the words of who refused it: this webhook, another one, or a quota. KubeRay
    creates no further pod of the RayCluster before this one, and tries again ever more seldom.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/raycluster_controller.go
    """
    failure = find(cluster.live.status.conditions, _REPLICA_FAILURE)
    if failure is not None and failure.status == "True":
        words, since = failure.message, failure.since
    else:
        words, since = _last_refusal(cluster)
    if words:
        yield Symptom(
            f"KubeRay is refused a pod: {' '.join(words.split())[:_WORDS_MAX]}",
            "do what the message says; then KubeRay goes on by itself",
            edit("raycluster", cluster.namespace, cluster.name),
            since,
        )


def _last_refusal(cluster: Cluster) -> tuple[str, float | None]:
    """Return the last refusal, unless a pod was created since or nothing is missing."""
    if _complete(cluster):
        return "", None
    lookups = cluster.lookups
    created = newest((*cluster.heads, *cluster.pods)) or 0.0
    events = [
        event for event in lookups.events_about(cluster.facts.uid) if event.reason in _REFUSALS
    ]
    events = [
        event
        for event in events
        if max(created, lookups.now - _FRESH_SECONDS) <= (event.last or 0.0)
    ]
    if not events:
        return "", None
    last = max(events, key=lambda event: event.last or 0.0)
    return last.message, last.first


def _complete(cluster: Cluster) -> bool:
    """Tell whether all pods are there that should be."""
    return bool(cluster.heads) and all(
        len(group.replicas) >= group.desired
        and not any(replica.missing for replica in group.replicas)
        for group in cluster.groups
    )


def head_missing(cluster: Cluster) -> Iterator[Symptom]:
    """A RayCluster without a head.

    Its workers wait for the head before they start.

    https://docs.ray.io/en/master/cluster/key-concepts.html#head-node
    """
    if not cluster.heads and not cluster.facts.suspended and not cluster.facts.deleting:
        yield Symptom(
            "the head is missing, and the workers wait for it",
            "see what KubeRay says",
            describe("raycluster", cluster.namespace, cluster.name),
            cluster.live.metadata.created,
        )


def headless_service_missing(cluster: Cluster) -> Iterator[Symptom]:
    """A RayCluster without the service that resolves the names of its hosts.

    KubeRay 1.4 and later create `<cluster>-headless` where a group has several hosts; earlier
    releases name it otherwise, and none creates it for a job over several slices of one host.
    Without it no host finds its peers.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/service.go
    """
    for service in sorted({service for group in cluster.groups if (service := _service(group))}):
        if cluster.lookups.has_service(cluster.namespace, service) is False:
            yield Symptom(
                f"the service {service} does not exist, so no host finds another",
                "create it, if KubeRay does not",
                _create(cluster, service),
                newest(cluster.pods),
            )


def _create(cluster: Cluster, name: str) -> str:
    """Return the command that creates the service as KubeRay would."""
    selector = {names.LABEL_CLUSTER: cluster.name, names.LABEL_NODE_TYPE: names.NODE_TYPE_WORKER}
    change = {"spec": {"publishNotReadyAddresses": True, "selector": {"app": None, **selector}}}
    where = f"{name} -n {cluster.namespace}"
    patch = msgspec.json.encode(change).decode()
    return (
        f"kubectl create service clusterip {where} --clusterip=None && kubectl patch service "
        f"{where} -p '{patch}'"
    )


def _service(group: Group) -> str:
    return Expected(group.replicas[0]).service if group.replicas else ""


def ignored(cluster: Cluster) -> Iterator[Symptom]:
    """A RayCluster that the webhook leaves alone.

    It or its namespace is labelled `admission.ray.io/ignore: "true"`, so its pods get no seat and
    nothing else, and nothing else is looked for here. The label of a RayCluster has no effect where
    the setting `ignore.rayclusters` is off. The controller and the dashboard of an installation
    know that setting; the commands of a person do not, and take `--no-ignore.rayclusters`.

    https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
    """
    if cluster.ignored:
        where = (
            f"raycluster -n {cluster.namespace} {cluster.name}"
            if cluster.facts.ignored
            else f"namespace {cluster.namespace}"
        )
        yield Symptom(
            f"label {names.LABEL_IGNORE} of the "
            f"{'RayCluster' if cluster.facts.ignored else 'namespace'} "
            "asks the webhook to leave it alone",
            "if it should not, remove the label, and have the pods created again",
            f"kubectl label {where} {names.LABEL_IGNORE}-",
        )


CLUSTER: Final = (
    error(pod_refused),
    error(head_missing, seconds=60),
    error(headless_service_missing, seconds=30),
    info(ignored),
)
