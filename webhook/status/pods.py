"""Diagnoses of pods: heads and workers that are created, and do not run."""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from webhook.kube import names
from webhook.status.diagnosis import Symptom, error, warning
from webhook.status.objects import Condition, LivePod, LivePodGroup
from webhook.status.standing import Cluster, Replica
from webhook.status.words import describe, hosts, listed

_FINE: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of waiting that a start has."""

_STUCK: Final = frozenset({"Deferred", "Infeasible"})
_WORDS_MAX: Final = 300


class Party(Struct, frozen=True):
    """Pods that are told of together: a replica's, the head, or a group's without a seat."""

    cluster: Cluster
    called: str
    pods: tuple[LivePod, ...]
    replica: Replica | None = None


def parties(cluster: Cluster) -> Iterator[Party]:
    """Yield all live pods of a RayCluster, each in one party."""
    if cluster.heads:
        yield Party(cluster, "the head", tuple(cluster.heads))
    for group in cluster.groups:
        for replica in group.replicas:
            yield Party(cluster, f"replica {replica.index}", tuple(replica.everyone), replica)
        if group.unseated:
            pods = tuple(unseated.pod for unseated in group.unseated)
            yield Party(cluster, f"group {group.name}", pods)


def pod_pending(party: Party) -> Iterator[Symptom]:
    """Pods for which the scheduler finds no node.

    The message ends with the scheduler's own words. While one host of a replica has no node, all
    wait. Pods that wait for their PodGroup have a diagnosis of their own.

    https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/
    """
    grouped = party.cluster.lookups.pod_groups_known
    for words, pods in _sorted(
        party, lambda pod: "" if grouped and pod.pod_group else _scheduler(pod)
    ).items():
        since = min(
            (time for pod in pods if (time := _since(pod, "PodScheduled")) is not None),
            default=None,
        )
        yield Symptom(
            f"{_who(party, pods)} {_has(pods)} no node: {words}",
            "add nodes that fit, or free some; the pod's events have more",
            describe("pod", party.cluster.namespace, pods[0].name),
            since,
            _hosts(party, pods),
            tuple(pod.name for pod in pods),
        )


def container_waits(party: Party) -> Iterator[Symptom]:
    """Pods on a node, a container of which does not start.

    The image cannot be pulled, a Secret is not there, or the container ends again and again.

    https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-states
    """
    for words, pods in _sorted(party, _container).items():
        yield Symptom(
            f"{_who(party, pods)} {_has(pods, 'does', 'do')} not start: {words}",
            "mend what it says, in the RayCluster or beside it; the pod's events have more",
            describe("pod", party.cluster.namespace, pods[0].name),
            min((pod.created for pod in pods if pod.created is not None), default=None),
            _hosts(party, pods),
            tuple(pod.name for pod in pods),
        )


def podgroup_missing(party: Party) -> Iterator[Symptom]:
    """Pods that name a PodGroup which does not exist.

    They stay pending until somebody creates it; only the creation of a pod can name another one.

    https://kubernetes.io/docs/concepts/scheduling-eviction/workload-aware-scheduling/
    """
    lookups, namespace = party.cluster.lookups, party.cluster.namespace
    if not lookups.pod_groups_known:
        return
    for name, pods in _sorted(party, _pod_group).items():
        if lookups.pod_group(namespace, name) is None:
            yield Symptom(
                f"{_who(party, pods)} {_has(pods, 'waits', 'wait')} for PodGroup {name}, which "
                "does not exist",
                "see that the controller runs with the right to create it "
                "(docs/scheduling-groups.md), or create it yourself",
                f"kubectl get podgroups -n {namespace}",
                min((pod.created for pod in pods if pod.created is not None), default=None),
                _hosts(party, pods),
                tuple(pod.name for pod in pods),
            )


def podgroup_waits(party: Party) -> Iterator[Symptom]:
    """Pods whose PodGroup is not scheduled.

    Either there are fewer pods than it needs, or no placement has room for all of them.

    https://kubernetes.io/docs/concepts/scheduling-eviction/workload-aware-scheduling/
    """
    cluster = party.cluster
    for name, pods in _sorted(party, _pod_group).items():
        group = cluster.lookups.pod_group(cluster.namespace, name)
        if group is None:
            continue
        there = sum(pod.pod_group == name for pod in (*cluster.heads, *cluster.pods))
        yield Symptom(
            f"{_who(party, pods)} {_has(pods, 'waits', 'wait')} for PodGroup {name}: "
            f"{_waiting(group, there, pods[0])}",
            "add nodes until all fit, or ask for less",
            describe("podgroup", cluster.namespace, name),
            max((pod.created for pod in pods if pod.created is not None), default=None),
            _hosts(party, pods),
            tuple(pod.name for pod in pods),
        )


def resize_stuck(party: Party) -> Iterator[Symptom]:
    """Pods that Ray's autoscaler resizes in place, and that stay as they are.

    The node has no room (Deferred), or never will (Infeasible): Ray goes on with less than it asked
    for.

    https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/
    """
    for words, pods in _sorted(party, _resize).items():
        yield Symptom(
            f"{_who(party, pods)} {_has(pods)} not been resized: {words}",
            f"free the node, or lower the maximum in {names.ANNOTATION_IPPR}",
            describe("pod", party.cluster.namespace, pods[0].name),
            min(
                (time for pod in pods if (time := _since(pod, "PodResizePending")) is not None),
                default=None,
            ),
            _hosts(party, pods),
            tuple(pod.name for pod in pods),
        )


def _scheduler(pod: LivePod) -> str:
    """Return why a pod has no node, in the scheduler's words."""
    if not pod.unscheduled:
        return ""
    condition = pod.condition("PodScheduled")
    if condition is None or condition.status == "True":
        return "the scheduler has not said why"
    return _words(condition) or "the scheduler has not said why"


def _container(pod: LivePod) -> str:
    """Return why a container of a pod waits, nothing while that is part of a start."""
    for status in (
        *(pod.status.init_container_statuses or ()),
        *(pod.status.container_statuses or ()),
    ):
        waiting = status.state.waiting
        if waiting is not None and waiting.reason not in _FINE:
            words = " ".join(waiting.message.split())
            return f"{status.name}: {waiting.reason}{f', {words}' if words else ''}"[:_WORDS_MAX]
    return ""


def _pod_group(pod: LivePod) -> str:
    return pod.pod_group if pod.unscheduled else ""


def _resize(pod: LivePod) -> str:
    condition = pod.condition("PodResizePending")
    if condition is None or condition.status != "True" or condition.reason not in _STUCK:
        return ""
    return f"{condition.reason}, {_words(condition)}"


def _waiting(group: LivePodGroup, there: int, pod: LivePod) -> str:
    if there < group.min_count:
        return f"{there} of its {group.min_count} pods are there"
    for condition in group.status.conditions or ():
        if condition.status == "False" and _words(condition):
            return _words(condition)
    return _scheduler(pod)


def _words(condition: Condition) -> str:
    return " ".join(condition.message.split())[:_WORDS_MAX] or condition.reason


def _sorted(party: Party, words: Callable[[LivePod], str]) -> dict[str, list[LivePod]]:
    """Return the pods by what is said of them, without those of which nothing is said."""
    found: dict[str, list[LivePod]] = {}
    for pod in party.pods:
        if text := words(pod):
            found.setdefault(text, []).append(pod)
    return found


def _since(pod: LivePod, kind: str) -> float | None:
    condition = pod.condition(kind)
    return condition.since if condition is not None and condition.since is not None else pod.created


def _hosts(party: Party, pods: list[LivePod]) -> tuple[int, ...]:
    if party.replica is None:
        return ()
    return tuple(
        host
        for host, found in sorted(party.replica.pods.items())
        if any(pod in pods for pod in found)
    )


def _who(party: Party, pods: list[LivePod]) -> str:
    if party.replica is not None and party.replica.group.spec.num_of_hosts > 1:
        return f"{hosts(_hosts(party, pods))} of {party.called}"
    return f"{listed([pod.name for pod in pods])} ({party.called})"


def _has(pods: list[LivePod], one: str = "has", several: str = "have") -> str:
    return one if len(pods) == 1 else several


PODS: Final = (
    error(pod_pending, seconds=60),
    error(container_waits, seconds=60),
    error(podgroup_missing, seconds=30),
    error(podgroup_waits, seconds=120),
    warning(resize_stuck, seconds=120),
)
