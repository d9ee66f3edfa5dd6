"""Diagnoses of pods: heads and workers that exist, and do not run."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec
from msgspec import Struct

from webhook.api import names
from webhook.api.objects import ALWAYS
from webhook.api.times import seconds_of
from webhook.diagnostics import ids
from webhook.diagnostics.assigned_pods import Cluster, Replica, is_head
from webhook.diagnostics.diagnosis import (
    Begin,
    Event,
    Symptom,
    deletion_of_pods,
    earliest,
    error,
    latest,
    warning,
)
from webhook.diagnostics.live_objects import ContainerStatus, LivePod, LivePodGroup
from webhook.diagnostics.messages import describe, hosts, listed

_FINE: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Waiting reasons of a normal start."""

_CRASHES: Final = "CrashLoopBackOff"
_ON_FAILURE: Final = "OnFailure"
_STUCK: Final = frozenset({"Deferred", "Infeasible"})
_WORDS_MAX: Final = 300
_SUBMITTER: Final = "ray-job-submitter"
"""The container that KubeRay adds to the head for `SidecarMode` of a RayJob.

https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/constant.go
"""


class PodSet(Struct, frozen=True):
    """Pods that share a message: those of a replica, the head, or the unseated of a group."""

    cluster: Cluster
    called: str
    pods: tuple[LivePod, ...]
    replica: Replica | None = None


def parties(cluster: Cluster) -> Iterator[PodSet]:
    """Yield all live pods of a RayCluster, each in one set."""
    if cluster.heads:
        yield PodSet(cluster, "the head", tuple(cluster.heads))
    for group in cluster.groups:
        for replica in group.replicas:
            yield PodSet(cluster, f"replica {replica.index}", tuple(replica.everyone), replica)
        if group.unseated:
            pods = tuple(unseated.pod for unseated in group.unseated)
            yield PodSet(cluster, f"group {group.name}", pods)


def pod_pending(party: PodSet) -> Iterator[Symptom]:
    """Pods for which the scheduler finds no node.

    The message ends with the scheduler's own message. While a host of a replica has no node, all
    wait. Pods of a PodGroup, and pods with scheduling gates, have their own diagnoses.

    https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/
    """
    grouped = party.cluster.objects.pod_groups.known
    for words, pods in _sorted(
        party, lambda pod: "" if grouped and pod.pod_group else _scheduler(pod)
    ).items():
        since = earliest(_since(pod, "PodScheduled") for pod in pods)
        yield _symptom(
            party,
            pods,
            f"{_has(pods)} no node: {words}",
            "add nodes that fit, or free some; the pod's events have more",
            begin=Begin(since, None),
        )


def pod_gated(party: PodSet) -> Iterator[Symptom]:
    """Pods that the scheduler does not consider yet, because they have scheduling gates.

    The component that added a gate removes it: Kueue does so when it has admitted the workload of
    the pods and has chosen their nodes. Until then new nodes do not help.

    https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/
    """
    namespace = party.cluster.namespace
    for words, pods in _sorted(
        party, lambda pod: listed(pod.gates) if pod.unscheduled else ""
    ).items():
        gates = pods[0].gates
        kueue = all(gate.startswith(names.KUEUE_PREFIX) for gate in gates)
        yield _symptom(
            party,
            pods,
            f"{_has(pods, 'is', 'are')} held back by scheduling "
            f"gate{'s' if len(gates) > 1 else ''} {words}",
            "see what their queue waits for: Kueue says so in the conditions of their Workload"
            if kueue
            else "see that what put the gates there runs; it removes them",
            f"kubectl get workloads.kueue.x-k8s.io -n {namespace}" if kueue else "",
            begin=Begin(earliest(_since(pod, "PodScheduled") for pod in pods), None),
        )


def container_waits(party: PodSet) -> Iterator[Symptom]:
    """Pods on a node with a container that does not start, or has ended.

    The image cannot be pulled, a Secret does not exist, the container ends repeatedly, or it has
    ended and the pod's `restartPolicy` does not restart it. Containers other than Ray's may end
    with exit code 0, and the one that submits a RayJob with any. For a container that ends
    repeatedly the delay begins with the scheduling of its pod, which may have been ready in
    between; the beginning is not shown.

    https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-states
    """
    for words, pods in _sorted(party, _container).items():
        crashes = any(_crashes(pod) for pod in pods)
        yield _symptom(
            party,
            pods,
            f"{_has(pods, 'does', 'do')} not run: {words}",
            "fix what it says, in the RayCluster or beside it; the pod's events have more",
            begin=Begin(
                None if crashes else earliest(_unready_since(pod) for pod in pods),
                earliest(_since(pod, "PodScheduled") for pod in pods),
            ),
        )


def pod_ended(party: PodSet) -> Iterator[Symptom]:
    """Pods that have ended, and still exist.

    A node evicted the pod, its containers were killed for exceeding their memory, or Ray ended.
    Such a pod never starts again, and its seat is reserved while it exists. KubeRay deletes and
    replaces it when it next reconciles the RayCluster, within seconds, so the problem is shown
    after a minute.

    https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-phase
    """
    for words, pods in _sorted(party, _end).items():
        yield _symptom(
            party,
            pods,
            f"{_has(pods)} ended: {words}",
            "see that KubeRay runs, as it should have replaced "
            f"{_has(pods, 'it', 'them')}; this has {_has(pods, 'it', 'them')} created again",
            begin=Begin(earliest(_ended_at(pod) for pod in pods), None),
            deletes=True,
        )


def pod_not_ready(party: PodSet) -> Iterator[Symptom]:
    """Pods on a node that do not become ready.

    An init container does not end, a probe does not succeed, or kubelet does not get as far.
    Pulling a large image and loading a model take minutes, and KubeRay's liveness probe ends a
    hanging Ray after ten, so the problem is shown after 15 minutes; for workers, after 15 minutes
    with a ready head. Workers whose `wait-gcs-ready` waits for a head that is not ready are not
    shown, because the head is; nor are workers of a RayService whose readiness probe fails, as it
    does without Serve replicas.

    https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-conditions
    """
    for words, pods in _sorted(party, lambda pod: _unready(party, pod)).items():
        yield _symptom(
            party,
            pods,
            f"{_has(pods, 'is', 'are')} not ready: {words}",
            "see what it waits for; the pod's events and logs have more",
            begin=Begin(earliest(_late_since(party.cluster, pod) for pod in pods), None),
        )


def podgroup_missing(party: PodSet) -> Iterator[Symptom]:
    """Pods that refer to a PodGroup which does not exist.

    They stay pending until the PodGroup is created; the reference of an existing pod cannot change.

    https://kubernetes.io/docs/concepts/scheduling-eviction/workload-aware-scheduling/
    """
    objects, namespace = party.cluster.objects, party.cluster.namespace
    if not objects.pod_groups.known:
        return
    for name, pods in _sorted(party, _pod_group).items():
        if objects.pod_group(namespace, name) is None:
            yield _symptom(
                party,
                pods,
                f"{_has(pods, 'waits', 'wait')} for PodGroup {name}, which does not exist",
                "see that the controller runs with the right to create it "
                "(docs/scheduling.md#gang-scheduling), or create it yourself",
                f"kubectl get podgroups -n {namespace}",
                begin=Begin(earliest(pod.created for pod in pods), None),
            )


def podgroup_waits(party: PodSet) -> Iterator[Symptom]:
    """Pods whose PodGroup is not scheduled.

    Either fewer pods exist than the PodGroup needs, or the nodes have no room for all of them.

    https://kubernetes.io/docs/concepts/scheduling-eviction/workload-aware-scheduling/
    """
    cluster = party.cluster
    for name, pods in _sorted(party, lambda pod: "" if pod.gates else _pod_group(pod)).items():
        group = cluster.objects.pod_group(cluster.namespace, name)
        if group is None:
            continue
        there = sum(pod.pod_group == name for pod in (*cluster.heads, *cluster.pods))
        yield _symptom(
            party,
            pods,
            f"{_has(pods, 'waits', 'wait')} for PodGroup {name}: {_waiting(group, there, pods[0])}",
            "add nodes until all fit, or ask for less",
            describe("podgroup", cluster.namespace, name),
            begin=Begin(latest(pod.created for pod in pods), None),
        )


def resize_stuck(party: PodSet) -> Iterator[Symptom]:
    """Pods whose in-place resize by Ray's autoscaler is pending.

    The node has no room (Deferred), or never will (Infeasible): Ray continues with less than it
    requested.

    https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/
    """
    for words, pods in _sorted(party, _resize).items():
        yield _symptom(
            party,
            pods,
            f"{_has(pods)} not been resized: {words}",
            f"free the node, or lower the maximum in {names.ANNOTATION_IPPR}",
            begin=Begin(earliest(_since(pod, "PodResizePending") for pod in pods), None),
        )


def resize_failed(party: PodSet) -> Iterator[Symptom]:
    """Pods for which Ray's autoscaler has given up in-place resizing.

    The autoscaler writes the reason into the annotation `ray.io/ippr-status`, and does not resize
    this pod again: tasks and actors that need more than the pod has wait, or run on other pods.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
    """
    failures = {pod.name: _resize_failure(pod) for pod in party.pods}
    for words, pods in _sorted(party, lambda pod: _cut(failures[pod.name].reason)).items():
        yield _symptom(
            party,
            pods,
            f"{_has(pods)} not been resized by Ray, which does not try again: {words}",
            f"lower the maximum in {names.ANNOTATION_IPPR} or use larger nodes; a pod that is "
            "created again is resized again",
            begin=Begin(earliest(failures[pod.name].at for pod in pods), None),
        )


class _ResizeStatus(Struct, rename="kebab", frozen=True):
    """The resize status that Ray's autoscaler writes: its `IPPRStatus`."""

    last_failed_at: float | None = None
    last_failed_reason: str | None = None


class _Failure(Struct, frozen=True):
    """The reason and the time of a failed resize, in seconds since the epoch."""

    reason: str = ""
    at: float | None = None


def _resize_failure(pod: LivePod) -> _Failure:
    """Return the failure of the resize of a pod, with an empty reason if it has not failed."""
    text = pod.annotations.get(names.ANNOTATION_IPPR_STATUS)
    if not text:
        return _Failure()
    try:
        status = msgspec.json.decode(text, type=_ResizeStatus)
    except (msgspec.DecodeError, UnicodeError):
        return _Failure()
    return _Failure(status.last_failed_reason or "", status.last_failed_at)


def _cut(text: str) -> str:
    return " ".join(text.split())[:_WORDS_MAX]


def _symptom(  # noqa: PLR0913 - the fields of a symptom
    party: PodSet,
    pods: list[LivePod],
    says: str,
    remedy: str,
    command: str = "",
    *,
    begin: Begin,
    deletes: bool = False,
) -> Symptom:
    """Return a symptom of pods; the default command describes the first. If `deletes`, the remedy
    is the deletion of the pods.
    """
    called = tuple(pod.name for pod in pods)
    namespace = party.cluster.namespace
    return Symptom(
        f"{_who(party, pods)} {says}",
        remedy,
        command or describe("pod", namespace, called[0]),
        begin.since,
        _hosts(party, pods),
        called,
        not_before=begin.not_before,
        change=deletion_of_pods(namespace, called) if deletes else None,
    )


def _scheduler(pod: LivePod) -> str:
    """Return the scheduler's message for a pod without a node."""
    if not pod.unscheduled or pod.gates:
        return ""
    condition = pod.condition("PodScheduled")
    if condition is None or condition.status == "True":
        return "the scheduler has not said why"
    return condition.words or "the scheduler has not said why"


def _container(pod: LivePod) -> str:
    """Return why a container of a pod does not run; empty during a normal start."""
    if pod.ready or pod.ended:
        return ""
    for status in (
        *(pod.status.init_container_statuses or ()),
        *(pod.status.container_statuses or ()),
    ):
        waiting = status.state.waiting
        if waiting is not None and waiting.reason not in _FINE:
            words = " ".join(waiting.message.split())
            return f"{status.name}: {waiting.reason}{f', {words}' if words else ''}"[:_WORDS_MAX]
    return _terminated(
        each
        for each in pod.status.container_statuses or ()
        if not _done(pod, each) and not _restarts(pod, each)
    )


def _crashes(pod: LivePod) -> bool:
    """Return whether a container of a pod is in CrashLoopBackOff."""
    every = (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ()))
    return any(each.state.waiting and each.state.waiting.reason == _CRASHES for each in every)


def _restarts(pod: LivePod, status: ContainerStatus) -> bool:
    """Return whether kubelet will restart an ended container."""
    end, policy = status.state.terminated, pod.spec.restart_policy
    return policy == ALWAYS or (policy == _ON_FAILURE and bool(end and end.exit_code))


def _done(pod: LivePod, status: ContainerStatus) -> bool:
    """Return whether a container other than Ray's has ended normally: its pod is not ready from
    then on. The submitter of a RayJob may end with any exit code.
    """
    end, ray = status.state.terminated, pod.spec.ray
    if end is None or (ray is not None and status.name == ray.name):
        return False
    return end.exit_code == 0 or status.name == _SUBMITTER


def _terminated(statuses: Iterable[ContainerStatus]) -> str:
    """Return how a container ended, preferring one that failed."""
    found = [
        (end.exit_code == 0, f"{status.name}: {end.reason or 'ended'}, exit code {end.exit_code}")
        for status in statuses
        if (end := status.state.terminated) is not None
    ]
    return min(found, key=lambda each: each[0], default=(True, ""))[1]


def _end(pod: LivePod) -> str:
    if not pod.ended:
        return ""
    status = pod.status
    if status.reason:
        words = " ".join(status.message.split())
        return f"{status.reason}{f', {words}' if words else ''}"[:_WORDS_MAX]
    every = [*(status.container_statuses or ()), *(status.init_container_statuses or ())]
    return _terminated(every) or status.phase


def _ended_at(pod: LivePod) -> float | None:
    """Return when the last container of a pod ended, otherwise since when the pod is not ready."""
    ends = [status.state.terminated for status in pod.status.container_statuses or ()]
    times = [seconds_of(end.finished_at) for end in ends if end is not None]
    last = max((time for time in times if time is not None), default=None)
    return _unready_since(pod) if last is None else last


def _unready(party: PodSet, pod: LivePod) -> str:
    """Return why a pod on a node is not ready; empty if another diagnosis reports it."""
    if pod.ready or pod.ended or pod.unscheduled or _container(pod):
        return ""
    sidecars = {
        each.name for each in pod.spec.init_containers or () if each.restart_policy == ALWAYS
    }
    inits = [
        each
        for each in pod.status.init_container_statuses or ()
        if each.state.running and not each.ready
    ]
    for init in inits:
        if init.name not in sidecars:
            waits = init.name == names.WAIT_FOR_HEAD and not party.cluster.head_ready
            return "" if waits else f"init container {init.name} has not ended"
        if not init.started:
            return f"sidecar {init.name} has not started"
    # The remaining init containers are sidecars, which the pod's readiness includes.
    unready = [each for each in (*(pod.status.container_statuses or ()), *inits) if not each.ready]
    if unready:
        status = next((each for each in unready if not _done(pod, each)), None)
        return "" if status is None else _unready_container(pod, status)
    condition = pod.condition("Ready")
    return (condition.words if condition else "") or "kubelet has not said why"


def _unready_container(pod: LivePod, status: ContainerStatus) -> str:
    """Return why a container is not ready; empty if it need not be."""
    if status.state.running is None:
        waiting = status.state.waiting
        return f"{status.name}: {waiting.reason if waiting and waiting.reason else 'not started'}"
    if status.started is False:
        return f"the startup probe of {status.name} has not succeeded"
    if pod.labels.get(names.LABEL_SERVE) == "true" and not is_head(pod):
        return ""
    return f"the readiness probe of {status.name} does not succeed"


def _unready_since(pod: LivePod) -> float | None:
    """Return since when a pod on a node is not ready."""
    found = [pod.condition(kind) for kind in ("Ready", "PodScheduled")]
    times = [each.since for each in found if each is not None]
    return max((time for time in times if time is not None), default=pod.created)


def _late_since(cluster: Cluster, pod: LivePod) -> float | None:
    """Return since when a pod on a node could have become ready: workers wait for the head."""
    if is_head(pod):
        return _unready_since(pod)
    ready = [head.condition("Ready") for head in cluster.heads if head.ready]
    return latest((_unready_since(pod), *(each.since for each in ready if each is not None)))


def _pod_group(pod: LivePod) -> str:
    return pod.pod_group if pod.unscheduled else ""


def _resize(pod: LivePod) -> str:
    condition = pod.condition("PodResizePending")
    if condition is None or condition.status != "True" or condition.reason not in _STUCK:
        return ""
    return f"{condition.reason}, {condition.words}"


def _waiting(group: LivePodGroup, there: int, pod: LivePod) -> str:
    if there < group.min_count:
        return f"{there} of its {group.min_count} pods are there"
    return group.reason or _scheduler(pod)


def _sorted(party: PodSet, words: Callable[[LivePod], str]) -> dict[str, list[LivePod]]:
    """Return the pods by the text that `words` returns, without those for which it is empty."""
    found: dict[str, list[LivePod]] = {}
    for pod in party.pods:
        if text := words(pod):
            found.setdefault(text, []).append(pod)
    return found


def _since(pod: LivePod, kind: str) -> float | None:
    condition = pod.condition(kind)
    return condition.since if condition is not None and condition.since is not None else pod.created


def _hosts(party: PodSet, pods: list[LivePod]) -> tuple[int, ...]:
    if party.replica is None:
        return ()
    return tuple(
        host
        for host, found in sorted(party.replica.pods.items())
        if any(pod in pods for pod in found)
    )


def _who(party: PodSet, pods: list[LivePod]) -> str:
    if party.replica is not None and party.replica.group.spec.num_of_hosts > 1:
        return f"{hosts(_hosts(party, pods))} of {party.called}"
    return f"{listed([pod.name for pod in pods])} ({party.called})"


def _has(pods: list[LivePod], one: str = "has", several: str = "have") -> str:
    return one if len(pods) == 1 else several


PODS: Final = (
    error(ids.POD_PENDING, pod_pending, seconds=60, event=Event("PodPending", 600.0, "group")),
    warning(ids.POD_GATED, pod_gated, seconds=60),
    error(ids.CONTAINER_WAITS, container_waits, seconds=60),
    error(ids.POD_ENDED, pod_ended, seconds=60),
    error(ids.POD_NOT_READY, pod_not_ready, seconds=900),
    error(
        ids.PODGROUP_MISSING,
        podgroup_missing,
        seconds=30,
        event=Event("PodGroupWaiting", series="group"),
    ),
    error(
        ids.PODGROUP_WAITS,
        podgroup_waits,
        seconds=120,
        event=Event("PodGroupWaiting", series="group"),
    ),
    warning(
        ids.RESIZE_STUCK, resize_stuck, seconds=120, event=Event("PodResizeStuck", 600.0, "group")
    ),
    warning(ids.RESIZE_FAILED, resize_failed, event=Event("PodResizeFailed", series="group")),
)
