"""Diagnoses of pods: heads and workers that exist, and do not run."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

import msgspec
from msgspec import Struct, structs

from webhook.api import names
from webhook.api.formats import in_line
from webhook.api.objects import ALWAYS
from webhook.api.times import seconds_of
from webhook.diagnostics.assigned_pods import AssignedCluster, AssignedReplica, is_head
from webhook.diagnostics.container_faults import (
    ContainerFault,
    fault_of,
    find_end_fault,
    find_start_fault,
    is_needed,
    is_ready,
    probe_fault,
    unready_fault,
)
from webhook.diagnostics.diagnosis import (
    ERROR,
    INFO,
    WARNING,
    Begin,
    Diagnosis,
    EventRule,
    Symptom,
    earliest,
    latest,
)
from webhook.diagnostics.messages import describe, format_names, hosts, pluralize
from webhook.diagnostics.scheduler_faults import scheduler_fault
from webhook.objects.live_objects import Condition, ContainerStatus, LivePod
from webhook.objects.object_cache import CORDONED, STARTS
from webhook.objects.readiness import STEADY_SECONDS, answer_of

T = TypeVar("T", str, tuple[str, ...])

_EVICTED: Final = (
    ("EmptyDir", "raise the sizeLimit of the volume in the pod template, or write less"),
    ("ephemeral", "raise the ephemeral-storage request and limit, or write less"),
    ("DiskPressure", "free the disk of the node, or write less"),
    ("low on resource: memory", "set memory requests that cover what its containers use"),
    ("MemoryPressure", "set memory requests that cover what its containers use"),
    ("Preempt", "raise the priority of the pod template, or add capacity"),
    ("devices unavailable", "check the device plugin of the node and the health of its devices"),
)
"""A part of kubelet's message or reason, and how another end is prevented."""
_SCHEDULER: Final = "default-scheduler"
_UNSTEADY: Final = "it becomes ready and unready again within a minute"
_STUCK: Final = frozenset({"Deferred", "Infeasible"})
_WAITING: Final = EventRule("PodGroupWaiting", shared=True)


class PodSet(Struct, frozen=True):
    """Pods that share a message: those of a replica, the head, or those without an identity."""

    cluster: AssignedCluster
    called: str
    pods: list[LivePod]
    replica: AssignedReplica | None = None

    def sorted_by(self, words: Callable[[LivePod], T]) -> Iterator[tuple[T, "PodSet"]]:
        """Yield the pods by the text or texts that `words` returns, without those without any."""
        pods_by_key: dict[T, list[LivePod]] = {}
        for pod in self.pods:
            if key := words(pod):
                pods_by_key.setdefault(key, []).append(pod)
        for key, pods in pods_by_key.items():
            yield key, structs.replace(self, pods=pods)

    def by_fault(
        self, fault_in: Callable[[LivePod], ContainerFault | None]
    ) -> Iterator[tuple[ContainerFault, "PodSet"]]:
        """Yield the pods by the cause of the fault that `fault_in` returns, with the first one."""
        faults: dict[str, tuple[ContainerFault, list[LivePod]]] = {}
        for pod in self.pods:
            if (fault := fault_in(pod)) is not None:
                faults.setdefault(fault.cause, (fault, []))[1].append(pod)
        for fault, pods in faults.values():
            yield fault, structs.replace(self, pods=pods)

    def agreed(self, one: str = "has", several: str = "have") -> str:
        """Return the word that agrees with the number of pods."""
        return pluralize(len(self.pods), one, several)

    def symptom(
        self,
        says: str,
        remedy: str,
        times: Iterable[float | None],
        command: str = "",
        not_before: float | None = None,
        *,
        deletes: bool = False,
    ) -> Symptom:
        """Return a symptom of the pods, which began at the earliest of the times; the default
        command describes the first pod. If `deletes`, the remedy is their deletion.
        """
        pod_names = tuple(pod.name for pod in self.pods)
        by_host = sorted(self.replica.pods.items()) if self.replica else ()
        uids = {pod.metadata.uid for pod in self.pods}
        affected = tuple(
            host
            for host, host_pods in by_host
            if any(pod.metadata.uid in uids for pod in host_pods)
        )
        several = self.replica is not None and self.replica.group.spec.num_of_hosts > 1
        who = (
            f"{hosts(affected)} of {self.called}"
            if several
            else f"{format_names(pod_names)} ({self.called})"
        )
        return Symptom(
            f"{who} {says}",
            remedy,
            command=command or describe("pod", self.cluster.namespace, pod_names[0]),
            begin=Begin(earliest(times), not_before),
            hosts=affected,
            pods=pod_names,
            deletes=deletes,
        )


def parties(cluster: AssignedCluster) -> Iterator[PodSet]:
    """Yield all live pods of a RayCluster that are read whole, each in one set."""
    for pod_set in _all_parties(cluster):
        pods = [pod for pod in pod_set.pods if not pod.unread_bytes]
        if pods:
            yield pod_set if len(pods) == len(pod_set.pods) else structs.replace(pod_set, pods=pods)


def _all_parties(cluster: AssignedCluster) -> Iterator[PodSet]:
    yield PodSet(cluster, "the head", cluster.heads)
    for group in cluster.groups:
        for replica in group.replicas:
            yield PodSet(cluster, f"replica {replica.index}", replica.every_pod, replica)
        pods = [unidentified_pod.pod for unidentified_pod in group.without_identity]
        yield PodSet(cluster, f"group {group.name}", pods)


def pod_pending(pod_set: PodSet) -> Iterator[Symptom]:
    """Pods for which the scheduler finds no node.

    The message ends with the scheduler's own message. While a host of a replica has no node, all
    wait. The remedy is that for the innermost part of the message: claims come before nodes. Pods
    of a PodGroup, and pods with scheduling gates, have their own diagnoses.

    https://kubernetes.io/docs/concepts/scheduling-eviction/kube-scheduler/
    """
    grouped = pod_set.cluster.objects.pod_groups.known
    for message, subset in pod_set.sorted_by(
        lambda pod: "" if grouped and pod.pod_group else _scheduler(pod)
    ):
        fault = scheduler_fault(subset.pods[0], message)
        symptom = subset.symptom(
            f"{subset.agreed()} no node: {message}",
            fault.remedy,
            _times(subset, "PodScheduled"),
            fault.command,
        )
        yield structs.replace(symptom, cause=fault.cause)


def pod_gated(pod_set: PodSet) -> Iterator[Symptom]:
    """Pods that the scheduler does not consider yet, because they have scheduling gates.

    The component that added a gate removes it: Kueue does so when it has admitted the workload of
    the pods and has chosen their nodes. Until then new nodes do not help.

    https://kubernetes.io/docs/concepts/scheduling-eviction/pod-scheduling-readiness/
    """
    for gates, subset in pod_set.sorted_by(lambda pod: pod.gates if pod.unscheduled else ()):
        kueue = all(gate.startswith(names.KUEUE_PREFIX) for gate in gates)
        yield subset.symptom(
            f"{subset.agreed('is', 'are')} held back by scheduling "
            f"{pluralize(len(gates), 'gate', 'gates')} {format_names(gates)}",
            "check the conditions of their Workload, in which Kueue writes why it is not admitted"
            if kueue
            else "check that the controller that added the gates runs; it removes them",
            _times(subset, "PodScheduled"),
            f"kubectl describe workloads.kueue.x-k8s.io -n {pod_set.cluster.namespace}"
            if kueue
            else "",
        )


def gate_remains(pod_set: PodSet) -> Iterator[Symptom]:
    """Pods with a scheduling gate that no component removes.

    Kueue removes the gate of a topology seconds after it has admitted the workload. Only its other
    gates may stay for long, while the workload waits in a queue.

    https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
    """
    for gates, subset in pod_set.sorted_by(
        lambda pod: pod.gates if pod.unscheduled and not _is_queued(pod) else ()
    ):
        yield subset.symptom(
            f"{subset.agreed('has', 'have')} no node: no component removes scheduling "
            f"{pluralize(len(gates), 'gate', 'gates')} {format_names(gates)}",
            "check that the controller that added the gates runs",
            _times(subset, "PodScheduled"),
        )


def _is_queued(pod: LivePod) -> bool:
    """Return whether a pod waits for the admission of its workload by Kueue."""
    return any(
        gate.startswith(names.KUEUE_PREFIX) and gate != names.KUEUE_GATE_TOPOLOGY
        for gate in pod.gates
    )


def node_lost(pod_set: PodSet) -> Iterator[Symptom]:
    """Pods on a node that is not ready.

    kubelet does not report any more, as after a crash or a network failure, or reports that it
    cannot run pods. The state of these pods is unknown, and the other hosts wait for them. After
    five minutes the pods are deleted, and remain Terminating until the node is back or deleted. A
    node that becomes ready and unready again within a minute is lost too, but not for a single
    `status`.

    https://kubernetes.io/docs/concepts/architecture/nodes/#node-status
    """
    for node, subset in pod_set.sorted_by(lambda pod: lost_node(pod_set.cluster, pod)):
        objects, now = pod_set.cluster.objects, pod_set.cluster.now
        live = objects.nodes.one(node)
        condition = live.readiness if live is not None else None
        unsteady = objects.unsteady_node_since(live, now) if live is not None else None
        reason = condition.words or "not ready" if condition else "it does not exist any more"
        symptom = subset.symptom(
            f"{subset.agreed('runs', 'run')} on node {node}, which is lost: "
            f"{reason if unsteady is None else _UNSTEADY}",
            "repair the node, or delete it, so that its pods are replaced",
            times=[condition.since if unsteady is None else unsteady]
            if condition
            else [_unready_since(pod) for pod in subset.pods if not pod.ready],
            command=f"kubectl describe node {node}" if condition else "kubectl get nodes",
            not_before=latest(pod.created for pod in subset.pods),
        )
        yield structs.replace(symptom, cause=node, until=_steady_at(condition))


def node_drained(pod_set: PodSet) -> Iterator[Symptom]:
    """Pods on a node that is cordoned.

    Somebody drains the node, or is about to: it gets no further pods, and those on it are evicted
    in a while. A replica loses all its hosts with one of them.

    https://kubernetes.io/docs/tasks/administer-cluster/safely-drain-node/
    """
    objects = pod_set.cluster.objects
    drained: dict[str, list[LivePod]] = {}
    for pod in pod_set.pods if objects.nodes.of(CORDONED) else ():
        node = objects.nodes.one(pod.spec.node_name or "")
        if node is not None and node.spec.unschedulable:
            drained.setdefault(node.metadata.name or "", []).append(pod)
    if drained:
        node_names, pods = (
            sorted(drained),
            [pod for node_pods in drained.values() for pod in node_pods],
        )
        subset = structs.replace(pod_set, pods=pods)
        yield subset.symptom(
            f"{subset.agreed('runs', 'run')} on {pluralize(len(node_names), 'node', 'nodes')} "
            f"{format_names(node_names)}, which {pluralize(len(node_names), 'is', 'are')} cordoned",
            "expect the eviction of these pods, or uncordon the node",
            (),
            f"kubectl get nodes {' '.join(node_names)}",
        )


def lost_node(cluster: AssignedCluster, pod: LivePod) -> str:
    """Return the node of a pod if it is not ready for a minute, or was deleted; otherwise an empty
    text.
    """
    objects, name = cluster.objects, pod.spec.node_name or ""
    if pod.ended or not objects.nodes.known:
        return ""
    node = objects.nodes.one(name)
    if node is None or node.unready is not None:
        return name
    return "" if objects.unsteady_node_since(node, cluster.now) is None else name


def container_not_running(pod_set: PodSet) -> Iterator[Symptom]:
    """Pods on a node with a container that does not start, or has ended.

    The image cannot be pulled, a Secret does not exist, a volume cannot be attached or mounted, the
    container ends repeatedly, or it has ended and the pod's `restartPolicy` does not restart it.
    Containers other than Ray's may end with exit code 0, and the one that submits a RayJob with
    any. A container ends repeatedly until it has run for longer than the last time, and at least a
    minute; the delay then begins with the scheduling of its pod.

    https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-states
    """

    def fault_in(pod: LivePod) -> ContainerFault | None:
        fault = _find_fault(pod_set.cluster, pod)
        if fault is None or lost_node(pod_set.cluster, pod):
            return None
        container, probe = pod_set.cluster.objects.failed_probe(pod)
        ended = probe and fault.cause.startswith(f"{container}: Error")
        return probe_fault(pod, fault, probe) if ended else fault

    for fault, subset in pod_set.by_fault(fault_in):
        symptom = subset.symptom(
            f"{subset.agreed('does', 'do')} not run: {fault.words}",
            fault.remedy,
            times=() if fault.repeats else map(_unready_since, subset.pods),
            command=fault.command,
            not_before=earliest(_times(subset, "PodScheduled")),
        )
        yield structs.replace(symptom, cause=fault.cause, until=fault.until)


def _find_fault(cluster: AssignedCluster, pod: LivePod) -> ContainerFault | None:
    """Return why the containers of a pod do not run, by their states, otherwise by its events."""
    fault = fault_of(pod, cluster.now)
    if fault is not None or pod.ready:
        return fault
    events = cluster.objects.events_about(pod.metadata)
    starts = [event for event in events if event.reason in STARTS]
    return find_start_fault(pod, starts, cluster.now)


def pod_ended(pod_set: PodSet) -> Iterator[Symptom]:
    """Pods that have ended, and still exist.

    A node evicted the pod, its containers were killed for exceeding their memory, or Ray ended.
    Such a pod never starts again, and its identity is reserved while it exists. KubeRay deletes and
    replaces it when it next reconciles the RayCluster, within seconds, so the problem is shown
    after a minute.

    https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-phase
    """
    for fault, subset in pod_set.by_fault(_end):
        it = subset.agreed("it", "them")
        symptom = subset.symptom(
            f"{subset.agreed()} ended: {fault.words}",
            f"check that KubeRay runs, which replaces such pods, or delete {it}"
            f"{f'; {fault.remedy}' if fault.remedy else ''}",
            map(_find_end_time, subset.pods),
            fault.command,
            deletes=True,
        )
        yield structs.replace(symptom, cause=fault.cause)


def pod_not_ready(pod_set: PodSet) -> Iterator[Symptom]:
    """Pods on a node that do not become ready.

    An init container does not end, a probe does not succeed, or kubelet does not get as far.
    Pulling a large image and loading a model take minutes, and KubeRay's liveness probe ends a
    hanging Ray after ten, so the problem is shown after 15 minutes; for workers, after 15 minutes
    with a ready head. Workers whose `wait-gcs-ready` waits for a head that is not ready are not
    shown, because the head is. Workers of a RayService whose readiness probe fails, as it does
    without Serve replicas, and pods whose containers beside Ray are done, count as ready. A pod
    that becomes ready and unready again within a minute is not ready.

    https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-conditions
    """
    for fault, subset in pod_set.by_fault(lambda pod: _unready(pod_set, pod)):
        symptom = subset.symptom(
            f"{subset.agreed('is', 'are')} not ready: {fault.words}",
            fault.remedy,
            (_late_since(pod_set.cluster, pod) for pod in subset.pods),
            fault.command,
        )
        yield structs.replace(symptom, until=fault.until)


def podgroup_missing(pod_set: PodSet) -> Iterator[Symptom]:
    """Pods that refer to a PodGroup which does not exist.

    They stay pending until the PodGroup is created; the reference of an existing pod cannot change.

    https://kubernetes.io/docs/concepts/scheduling-eviction/workload-aware-scheduling/
    """
    objects, namespace = pod_set.cluster.objects, pod_set.cluster.namespace
    if not objects.pod_groups.known:
        return
    for name, subset in pod_set.sorted_by(_pod_group):
        if objects.pod_group(namespace, name) is None:
            yield subset.symptom(
                f"{subset.agreed('waits', 'wait')} for PodGroup {name}, which does not exist",
                "check that the controller runs and may create PodGroups "
                "(docs/scheduling.md#gang-scheduling), or create it",
                (pod.created for pod in subset.pods),
                f"kubectl get podgroups -n {namespace}",
            )


def podgroup_not_scheduled(pod_set: PodSet) -> Iterator[Symptom]:
    """Pods whose PodGroup is not scheduled.

    Either fewer pods exist than the PodGroup needs, or the nodes have no room for all of them.

    https://kubernetes.io/docs/concepts/scheduling-eviction/workload-aware-scheduling/
    """
    cluster = pod_set.cluster
    for name, subset in pod_set.sorted_by(lambda pod: "" if pod.gates else _pod_group(pod)):
        group = cluster.objects.pod_group(cluster.namespace, name)
        if group is None:
            continue
        count = sum(pod.pod_group == name for pod in (*cluster.heads, *cluster.pods))
        if count < group.min_count:
            why = (
                f"{count} of {group.min_count} required pods {pluralize(count, 'exists', 'exist')}"
            )
            remedy = "KubeRay creates the other pods; all of them are scheduled at once"
        else:
            why = group.reason or _scheduler(subset.pods[0])
            remedy = "add capacity until all pods fit at once, or request less"
        yield subset.symptom(
            f"{subset.agreed('waits', 'wait')} for PodGroup {name}: {why}",
            remedy,
            [latest(pod.created for pod in subset.pods)],
            describe("podgroup", cluster.namespace, name),
        )


def resize_stuck(pod_set: PodSet) -> Iterator[Symptom]:
    """Pods whose in-place resize by Ray's autoscaler is pending.

    The node has no room (Deferred), or never will (Infeasible): Ray continues with less than it
    requested.

    https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/
    """
    for message, subset in pod_set.sorted_by(_resize):
        yield subset.symptom(
            f"{subset.agreed()} not been resized: {message}",
            f"free the node, or lower the maximum in {names.ANNOTATION_IPPR}",
            _times(subset, "PodResizePending"),
        )


def resize_failed(pod_set: PodSet) -> Iterator[Symptom]:
    """Pods for which Ray's autoscaler has given up in-place resizing.

    The autoscaler writes the reason into the annotation `ray.io/ippr-status`, and does not resize
    this pod again: tasks and actors that need more than the pod has wait, or run on other pods.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-ippr.html
    """
    for reason, subset in pod_set.sorted_by(
        lambda pod: in_line(_resize_status(pod).last_failed_reason or "")
    ):
        yield subset.symptom(
            f"{subset.agreed()} not been resized by Ray, which does not try again: {reason}",
            f"lower the maximum in {names.ANNOTATION_IPPR} or use larger nodes; a recreated "
            "pod is resized again",
            (_resize_status(pod).last_failed_at for pod in subset.pods),
        )


class _ResizeStatus(Struct, rename="kebab", frozen=True):
    """The resize status that Ray's autoscaler writes: its `IPPRStatus`."""

    last_failed_at: float | None = None
    last_failed_reason: str | None = None


def _resize_status(pod: LivePod) -> _ResizeStatus:
    """Return the resize status of a pod; empty if it cannot be decoded."""
    annotation = pod.annotations.get(names.ANNOTATION_IPPR_STATUS, "")
    try:
        return msgspec.json.decode(annotation or "{}", type=_ResizeStatus)
    except (msgspec.DecodeError, UnicodeError):
        return _ResizeStatus()


def _scheduler(pod: LivePod) -> str:
    """Return the scheduler's message for a pod without a node."""
    if not pod.unscheduled or pod.gates:
        return ""
    condition = pod.condition("PodScheduled")
    if condition is None:
        return f"scheduler {pod.spec.scheduler_name or _SCHEDULER} has not considered it"
    message = "" if condition.is_true else condition.words
    return message or "the scheduler gives no reason"


def _end(pod: LivePod) -> ContainerFault | None:
    """Return why a pod has ended; None if it has not."""
    if not pod.ended:
        return None
    status, command = pod.status, describe("pod", pod.metadata.namespace or "", pod.name)
    # The kubelet writes a reason only if it ended the pod itself, as in an eviction.
    if status.reason:
        message = in_line(
            f"{status.reason}, {status.message}" if status.message.strip() else status.reason
        )
        remedy = next((advice for part, advice in _EVICTED if part in message), "")
        return ContainerFault(status.reason, message, remedy, command)
    every = [*(status.container_statuses or ()), *(status.init_container_statuses or ())]
    return find_end_fault(pod, every) or ContainerFault(status.phase, status.phase, "", command)


def _find_end_time(pod: LivePod) -> float | None:
    """Return when the last container of a pod ended, otherwise since when the pod is not ready."""
    ends = (status.state.terminated for status in pod.status.container_statuses or ())
    last = latest(seconds_of(end.finished_at) for end in ends if end is not None)
    return _unready_since(pod) if last is None else last


def _unready(pod_set: PodSet, pod: LivePod) -> ContainerFault | None:
    """Return why a pod on a node is not ready; None if it is or another diagnosis reports it."""
    if pod.ended or pod.unscheduled or lost_node(pod_set.cluster, pod):
        return None
    cluster = pod_set.cluster
    unsteady = _unsteady_since(cluster, pod)
    if (is_ready(pod) and unsteady is None) or _find_fault(cluster, pod) is not None:
        return None
    if unsteady is None:
        return _start_fault(cluster, pod)
    answer = answer_of(cluster.objects.events_about(pod.metadata))
    fault = unready_fault(pod, _UNSTEADY, answer=answer)
    return structs.replace(fault, until=_steady_at(pod.condition("Ready")))


def _start_fault(cluster: AssignedCluster, pod: LivePod) -> ContainerFault | None:
    """Return why a pod on a node has not become ready; None if it waits for the head."""
    sidecars = {
        container.name
        for container in pod.spec.init_containers or ()
        if container.restart_policy == ALWAYS
    }
    inits = [
        status
        for status in pod.status.init_container_statuses or ()
        if status.state.running and not status.ready
    ]
    for init in inits:
        if init.name not in sidecars:
            waits = init.name == names.WAIT_FOR_HEAD and not any(
                is_ready(head) for head in cluster.heads
            )
            message = f"init container {init.name} has not ended"
            return None if waits else unready_fault(pod, message, init.name)
        if not init.started:
            return unready_fault(pod, f"sidecar {init.name} has not started", init.name)
    # The remaining init containers are sidecars, which the pod's readiness includes.
    for status in (*(pod.status.container_statuses or ()), *inits):
        if not status.ready and is_needed(pod, status):
            answer = answer_of(cluster.objects.events_about(pod.metadata))
            return unready_fault(pod, _words_of(status), answer=answer)
    condition = pod.condition("Ready")
    message = (condition.words if condition else "") or "kubelet gives no reason"
    return unready_fault(pod, message)


def _words_of(status: ContainerStatus) -> str:
    """Return why a container is not ready."""
    if status.state.running is None:
        waiting = status.state.waiting
        return f"{status.name}: {waiting.reason if waiting and waiting.reason else 'not started'}"
    if status.started is False:
        return f"the startup probe of {status.name} has not succeeded"
    return f"the readiness probe of {status.name} does not succeed"


def _unready_since(pod: LivePod) -> float | None:
    """Return since when a pod on a node is not ready."""
    conditions = [pod.condition(kind) for kind in ("Ready", "PodScheduled")]
    last = latest(condition.since for condition in conditions if condition is not None)
    return pod.created if last is None else last


def _unsteady_since(cluster: AssignedCluster, pod: LivePod) -> float | None:
    """Return since when a pod that Ray needs to be ready has not been ready for a minute."""
    if is_ready(pod) and not pod.ready:
        return None
    return cluster.objects.unsteady_pod_since(pod, cluster.now)


def _steady_at(ready: Condition | None) -> float | None:
    """Return when an object that is ready has been ready for a minute."""
    since = ready.since if ready is not None and ready.is_true else None
    return None if since is None else since + STEADY_SECONDS


def _late_since(cluster: AssignedCluster, pod: LivePod) -> float | None:
    """Return since when a pod on a node could have become ready: workers wait for the head."""
    unsteady = _unsteady_since(cluster, pod)
    begun = _unready_since(pod) if unsteady is None else unsteady
    if is_head(pod):
        return begun
    ready = [head.condition("Ready") for head in cluster.heads if head.ready]
    return latest((begun, *(condition.since for condition in ready if condition is not None)))


def _pod_group(pod: LivePod) -> str:
    return pod.pod_group if pod.unscheduled else ""


def _resize(pod: LivePod) -> str:
    condition = pod.condition("PodResizePending")
    if condition is None or not condition.is_true or condition.reason not in _STUCK:
        return ""
    return f"{condition.reason}, {condition.words}"


def _times(found: PodSet, kind: str) -> Iterator[float | None]:
    """Yield since when a condition of pods holds, or else when they were created."""
    for pod in found.pods:
        condition = pod.condition(kind)
        since = condition.since if condition is not None else None
        yield pod.created if since is None else since


PODS: Final = (
    Diagnosis(pod_pending, ERROR, 60, EventRule("PodPending", 600.0, shared=True)),
    Diagnosis(pod_gated, WARNING, 60),
    Diagnosis(gate_remains, ERROR, 900),
    Diagnosis(node_lost, ERROR, 60, EventRule("NodeLost", shared=True)),
    Diagnosis(node_drained, INFO),
    Diagnosis(container_not_running, ERROR, 60),
    Diagnosis(pod_ended, ERROR, 60),
    Diagnosis(pod_not_ready, ERROR, 900),
    Diagnosis(podgroup_missing, ERROR, 30, _WAITING),
    Diagnosis(podgroup_not_scheduled, ERROR, 120, _WAITING),
    Diagnosis(resize_stuck, WARNING, 120, EventRule("PodResizeStuck", 600.0, shared=True)),
    Diagnosis(resize_failed, WARNING, event=EventRule("PodResizeFailed", shared=True)),
)
