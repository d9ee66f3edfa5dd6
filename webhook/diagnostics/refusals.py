"""Refusals: pods that the API server rejects, from the events and the condition of a RayCluster."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from webhook.diagnostics.assigned_pods import AssignedCluster
from webhook.diagnostics.container_faults import is_ready
from webhook.diagnostics.diagnosis import earliest, latest
from webhook.groups.naming import pod_prefix
from webhook.objects.live_objects import LiveEvent, LivePod, find
from webhook.objects.object_cache import REFUSALS, REPLICA_FAILURE

_HEAD, _SEVERAL = "FailedToCreateHeadPod", "(combined from similar events): "
_FRESH_SECONDS: Final = 1100.0
"""Maximum age of KubeRay's last rejection: KubeRay retries after 1,000 s at the latest."""
_SETTLED_SECONDS: Final = 120.0
"""Age of a pod that KubeRay does not delete again with an incomplete replica."""
_PREFIX: Final = re.compile(
    r"failed to create (?:head|worker) pod\s*(?:\S*/\S*,)?\s*", re.IGNORECASE
)


_NAME: Final = re.compile(r"[-.a-z0-9]+")
_WORKER: Final = "-worker-"
"""Between the name of a group and the random end of a pod name."""


class Refusal(Struct, frozen=True):
    """The last rejection of a pod: the API server's message, when rejections began, and when they
    end without a change of an object.
    """

    message: str
    since: float | None
    until: float | None = None


def last_refusal(cluster: AssignedCluster) -> Refusal | None:
    """Return the last rejection, unless all pods exist, or pods were created and remained since.

    KubeRay deletes an incomplete replica and creates it again, so that the creation of a pod alone
    says nothing: its replica is complete, or it has existed for two minutes.
    """
    condition = find(cluster.live.status.conditions, REPLICA_FAILURE)
    failed = condition if condition is not None and condition.is_true else None
    if _has_all_pods(cluster):
        return None
    events = sorted(_open(cluster), key=lambda each: each[0])
    since = earliest(event.first for _, event in events)
    if failed is not None:
        return Refusal(_strip_kuberay_prefix(failed.message), earliest((failed.since, since)))
    if not events:
        return None
    last, event = events[-1]
    subject = _find_subject(event, _list_prefixes(cluster))
    younger = (pod.created for pod in _list_pods(cluster, subject))
    settled = (time + _SETTLED_SECONDS for time in younger if time is not None and time > last)
    return Refusal(
        _strip_kuberay_prefix(event.message), since, earliest((last + _FRESH_SECONDS, *settled))
    )


def _open(cluster: AssignedCluster) -> Iterator[tuple[float, LiveEvent]]:
    """Yield the rejections since the last pod of the same group that remained, by their times."""
    since = cluster.now - _FRESH_SECONDS
    events = cluster.objects.events_about(cluster.live.metadata)
    fresh = [event for event in events if event.reason in REFUSALS and event.last >= since]
    if not fresh:
        return
    remaining, prefixes = _remaining(cluster), _list_prefixes(cluster)
    newest: dict[str | None, float] = {}
    for event in fresh:
        subject = _find_subject(event, prefixes)
        if subject not in newest:
            pods = _list_pods(cluster, subject)
            times = (pod.created for pod in pods if pod.metadata.uid in remaining)
            newest[subject] = latest(times) or 0.0
        if (last := event.last) >= newest[subject]:
            yield last, event


def _remaining(cluster: AssignedCluster) -> frozenset[str | None]:
    """Return the uids of the pods that KubeRay does not delete again."""
    settled = cluster.now - _SETTLED_SECONDS
    complete = (
        pod.metadata.uid
        for group in cluster.groups
        for replica in group.replicas
        if not replica.missing and all(is_ready(pod) for pod in replica.every_pod)
        for pod in replica.every_pod
    )
    old = (
        pod.metadata.uid
        for pod in (*cluster.heads, *cluster.pods)
        if (pod.created or settled) <= settled
    )
    return frozenset((*complete, *old))


def _list_prefixes(cluster: AssignedCluster) -> dict[str, str]:
    """Return the worker groups by the prefix of their pods' names; the first of several."""
    groups = (group.name for group in reversed(cluster.groups))
    return {pod_prefix(cluster.name, group): group for group in groups}


def _find_subject(event: LiveEvent, prefixes: Mapping[str, str]) -> str | None:
    """Return the group whose pod was rejected, None for the head, or an empty text if the message
    does not contain the group.
    """
    if event.reason == _HEAD:
        return None
    parts = (match[0].rpartition(_WORKER) for match in _NAME.finditer(event.message))
    return next((prefixes[key] for part in parts if (key := "".join(part[:2])) in prefixes), "")


def _list_pods(cluster: AssignedCluster, subject: str | None) -> list[LivePod]:
    """Return the pods of the subject of a rejection, those of all groups if it is empty."""
    if subject is None:
        return cluster.heads
    return [pod for group in cluster.groups if subject in ("", group.name) for pod in group.pods]


def _has_all_pods(cluster: AssignedCluster) -> bool:
    return bool(cluster.heads) and all(
        len(group.replicas) >= group.desired
        and not any(replica.missing for replica in group.replicas)
        for group in cluster.groups
    )


def _strip_kuberay_prefix(message: str) -> str:
    """Return the API server's message without the words that KubeRay adds."""
    return _PREFIX.sub("", message.removeprefix(_SEVERAL)).strip()
