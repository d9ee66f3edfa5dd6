"""Faults of containers: why one does not run, with its innermost cause first.

The last termination comes before the reason for which kubelet waits, because that reason is only a
back-off.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct, structs

from webhook.api import names
from webhook.api.formats import in_line
from webhook.api.objects import ALWAYS
from webhook.api.times import seconds_of
from webhook.diagnostics.messages import describe, format_count
from webhook.objects.live_objects import (
    MESSAGE_MAX,
    ContainerStatus,
    LiveEvent,
    LivePod,
    Terminated,
    Waiting,
)

_FINE: Final = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Waiting reasons of a normal start."""
_CRASHES: Final = "CrashLoopBackOff"
_OUT_OF_MEMORY: Final = "OOMKilled"
_ON_FAILURE: Final = "OnFailure"
_SUBMITTER: Final = "ray-job-submitter"
"""The container that KubeRay adds to the head for `SidecarMode` of a RayJob.

https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/constant.go
"""
_RESTARTS: Final = 2
"""Restarts from which on a container may be ending repeatedly."""
_SHORT_SECONDS, _LONG_SECONDS = 60.0, 600.0
"""kubelet resets the back-off of a container that has run for ten minutes.

https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy
"""
_ABSENT: Final = re.compile(r'(secret|configmap) "([^"]+)" not found')
_NO_KEY: Final = re.compile(r"couldn't find key \S+ in (Secret|ConfigMap) [^/\s]+/([^\s,]+)")
_NOT_STARTED: Final = frozenset({"StartError", "ContainerCannotRun"})
_IMAGE: Final = "check the name of the image in the pod template, and that its registry answers"
_IMAGES: Final = (
    (
        r"toomanyrequests|too many requests|rate limit",
        (
            "wait, refer to an image pull Secret in imagePullSecrets of the pod template, or use a "
            "mirror of the registry: it limits pulls"
        ),
    ),
    (
        (
            r"unauthorized|authorization failed|access denied|forbidden|no basic auth credentials|"
            r"authentication required"
        ),
        "create the image pull Secret, and refer to it in imagePullSecrets of the pod template",
    ),
    (r"pull policy of never", "load the image onto the node, or change its imagePullPolicy"),
    (r"couldn't parse image|invalid reference", "fix the name of the image in the pod template"),
    (
        r"no match for platform|exec format error",
        "build the image for the architecture of the node, or select other nodes",
    ),
    (r"no space left", "free the disk of the node, or use nodes with a larger one"),
)
"""A part of kubelet's message, and the remedy."""
_EVENT_SECONDS: Final = 360.0
"""kubelet repeats a failure every two minutes, and its event at least every five."""
_TIMED_OUT: Final = "Unable to attach or mount volumes"
"""kubelet's message after it has waited for volumes, whose cause another event has."""
_ATTACH: Final = "FailedAttachVolume"
_MOUNT: Final = "fix what the event of the pod names"
_MOUNTS: Final = (
    (
        "Multi-Attach",
        "delete the pod that uses the volume on another node, or use a claim with ReadWriteMany",
    ),
    ("sandbox", "check the network plugin and the container runtime of the node"),
)
"""A part of an event, and the remedy."""
_TEMPLATE: Final = "fix this error in the pod template, or the image or volume that it names"
_WAITING_NEEDS_MEMORY: Final = (
    "KubeRay adds this container: set startup.raiseWaitGcsReady to true and request more memory "
    "for Ray's container (at most 1Gi counts), or run the operator with "
    "ENABLE_INIT_CONTAINER_INJECTION=false, and write the container into the pod template"
)
_WAITING_FAILS: Final = (
    "KubeRay adds this container, which runs `ray health-check` with the image of Ray's container: "
    "check that the image has bash and ray"
)


class ContainerFault(Struct, frozen=True):
    """Why a container does not run, the remedy, and a command that shows it. Faults with the same
    `cause`, of a container, reason and exit code, are alike. `repeats`: the container ends again
    and again. `until`: when its current run will have lasted long enough.
    """

    cause: str
    words: str
    remedy: str
    command: str
    repeats: bool = False
    until: float | None = None


def fault_of(pod: LivePod, now: float) -> ContainerFault | None:
    """Return the fault of the first container that does not run; None during a normal start."""
    if pod.ended:
        return None
    for status in pod.status.every_container:
        if (fault := _find_crash_loop(pod, status, now)) is not None:
            return fault
        waiting = status.state.waiting
        if waiting is not None and waiting.reason not in _FINE and not is_ready(pod):
            return _waiting(pod, status, waiting)
    if is_ready(pod):
        return None
    return find_end_fault(
        pod,
        (
            status
            for status in pod.status.container_statuses or ()
            if not is_done(pod, status) and not _restarts(pod, status)
        ),
    )


def find_end_fault(pod: LivePod, statuses: Iterable[ContainerStatus]) -> ContainerFault | None:
    """Return the fault of a container that has ended, preferring one that failed."""
    ends = [(status, end) for status in statuses if (end := status.state.terminated) is not None]
    if not ends:
        return None
    status, end = min(ends, key=lambda pair: pair[1].exit_code == 0)
    return end_fault(pod, status, end)


def probe_fault(pod: LivePod, fault: ContainerFault, probe: str) -> ContainerFault:
    """Return the fault of a container that kubelet stopped because a probe failed."""
    return structs.replace(
        fault,
        cause=f"{fault.cause}, {probe} probe",
        words=f"{fault.words}; kubelet stopped it, because its {probe} probe failed",
        remedy=f"check why the container does not answer its {probe} probe, or raise its "
        "failureThreshold in the pod template",
        command=describe("pod", pod.metadata.namespace or "", pod.name),
    )


def find_start_fault(
    pod: LivePod, events: Sequence[LiveEvent], now: float
) -> ContainerFault | None:
    """Return why kubelet does not start the containers of a pod, by its `events` about that, which
    repeat; None if it has started one, or prepared the pod for them.
    """
    prepared = pod.condition("PodReadyToStartContainers")
    statuses = pod.status.every_container
    started = any(status.state.running or status.state.terminated for status in statuses)
    if not events or started or pod.ended:
        return None
    last = max(event.last for event in events)
    first = min(event.first or 0.0 for event in events)
    until = last + _EVENT_SECONDS
    if until <= now or last - first < _SHORT_SECONDS:
        return None
    if prepared is not None and prepared.is_true:
        return None
    event = max(events, key=lambda event: (_TIMED_OUT not in event.message, event.last))
    message = in_line(f"{event.reason}, {event.message}")
    fault = _absent(pod, event.reason, message)
    if fault is None:
        remedy = next((remedy for part, remedy in _MOUNTS if part in message), _MOUNT)
        claims, namespace = " ".join(pod.volume_claims), pod.metadata.namespace or ""
        by_claim = bool(claims) and event.reason == _ATTACH
        subject = ("pvc", namespace, claims) if by_claim else ("pod", namespace, pod.name)
        fault = ContainerFault(event.reason, message, remedy, describe(*subject))
    return structs.replace(fault, until=until)


def unready_fault(
    pod: LivePod, words: str, container: str = "", answer: str = ""
) -> ContainerFault:
    """Return the fault of a pod that starts for too long, because of a container that runs, or for
    a reason in its events. `answer` is that of its readiness probe.
    """
    namespace = pod.metadata.namespace or ""
    if not container:
        probed = "probe" in words or bool(answer)
        events = "have the answers of probes" if probed else "show how far kubelet has come"
        remedy = f"check the events of the pod, which {events}"
        message = f"{words}: {in_line(answer, MESSAGE_MAX)}" if answer else words
        return ContainerFault(words, message, remedy, describe("pod", namespace, pod.name))
    command = f"kubectl logs -n {namespace} {pod.name} -c {container}"
    return ContainerFault(words, words, f"check the end of the log of {container}", command)


def is_ready(pod: LivePod) -> bool:
    """Return whether Ray runs in a pod, and every other container is ready or done.

    Of kubelet's condition `Ready` two cases are left out: a container beside Ray's that is done
    ends the readiness of its pod, and a worker of a RayService without Serve replicas never becomes
    ready.
    """
    if pod.ready:
        return True
    unready = [status for status in pod.status.every_container if not status.ready]
    if not unready or pod.ended or pod.ray_status is None:
        return False
    return not any(is_needed(pod, status) for status in unready)


def is_needed(pod: LivePod, status: ContainerStatus) -> bool:
    """Return whether a pod with an unready container does not work until it is ready."""
    return not is_done(pod, status) and not _serves_nothing(pod, status)


def _serves_nothing(pod: LivePod, status: ContainerStatus) -> bool:
    """Return whether a container is Ray's in a worker of a RayService, and only its readiness probe
    fails.
    """
    started = status.state.running is not None and status.started is not False
    serves = pod.labels.get(names.LABEL_SERVE) == "true"
    worker = pod.labels.get(names.LABEL_NODE_TYPE) != names.NODE_TYPE_HEAD
    return started and serves and worker and status == pod.ray_status


def is_done(pod: LivePod, status: ContainerStatus) -> bool:
    """Return whether a container other than Ray's has ended normally: its pod is not ready from
    then on. The submitter of a RayJob may end with any exit code.
    """
    end, ray = status.state.terminated, pod.spec.ray
    if end is None or _restarts(pod, status) or (ray is not None and status.name == ray.name):
        return False
    return end.exit_code == 0 or status.name == _SUBMITTER


def _restarts(pod: LivePod, status: ContainerStatus) -> bool:
    """Return whether kubelet starts a container again: sidecars always, and init containers only
    after a failure.
    """
    end, policy = status.state.terminated, pod.spec.restart_policy
    for init in pod.spec.init_containers or ():
        if init.name == status.name:
            usual = _ON_FAILURE if policy == ALWAYS else policy
            policy = ALWAYS if init.restart_policy == ALWAYS else usual
    failed = bool(end and end.exit_code)
    return policy == ALWAYS or (policy == _ON_FAILURE and failed)


def _find_crash_loop(pod: LivePod, status: ContainerStatus, now: float) -> ContainerFault | None:
    """Return the fault of a container that ends again and again, at every moment of its back-off:
    until it has run for longer than the last time, and at least a minute.
    """
    state, last = status.state, status.last_end
    if state.waiting is not None:
        backs_off = state.waiting.reason == _CRASHES
        return end_fault(pod, status, last, repeats=True) if backs_off and last else None
    if status.restart_count < _RESTARTS:
        return None
    if state.terminated is not None:
        again = _restarts(pod, status)
        return end_fault(pod, status, state.terminated, repeats=True) if again else None
    started = seconds_of(state.running.started_at) if state.running else None
    if last is None or started is None or last.lasted >= _LONG_SECONDS:
        return None
    until = started + max(_SHORT_SECONDS, last.lasted)
    return end_fault(pod, status, last, repeats=True, until=until) if until > now else None


def end_fault(
    pod: LivePod,
    status: ContainerStatus,
    end: Terminated,
    *,
    repeats: bool = False,
    until: float | None = None,
) -> ContainerFault:
    """Return the fault of a container that has ended in some way, perhaps repeatedly."""
    name, killed = status.name, end.reason == _OUT_OF_MEMORY
    cause = f"{name}: {end.reason or 'ended'}, exit code {end.exit_code}"
    limit = _memory_limit(pod, name) if killed else ""
    message = f"{cause}{f', at its memory limit of {limit}' if limit else ''}"
    if repeats:
        message += f", after {format_count(status.restart_count, 'restart')}"
    if end.last_line:
        message += f": {end.last_line}"
    namespace, pod_name = pod.metadata.namespace or "", pod.name
    log = f"kubectl logs -n {namespace} {pod_name} -c {name}{' -p' if repeats else ''}"
    if name == names.WAIT_FOR_HEAD:
        remedy = _WAITING_NEEDS_MEMORY if killed else _WAITING_FAILS
    elif killed:
        remedy = (
            f"raise the memory limit of {name} in the pod template, or lower what it uses"
            if limit
            else f"set a memory request and limit for {name}: the memory of its node was full"
        )
    elif end.reason in _NOT_STARTED:
        remedy = f"fix the command of {name} in the pod template, or its image"
    else:
        remedy = f"fix the error at the end of the log of {name}"
    is_described = killed or end.reason in _NOT_STARTED
    command = describe("pod", namespace, pod_name) if is_described else log
    return ContainerFault(
        cause, message, remedy=remedy, command=command, repeats=repeats, until=until
    )


def _waiting(pod: LivePod, status: ContainerStatus, waiting: Waiting) -> ContainerFault:
    """Return the fault of a container that waits for a reason."""
    namespace, cause = pod.metadata.namespace or "", f"{status.name}: {waiting.reason}"
    message = in_line(f"{cause}, {waiting.message}" if waiting.message.strip() else cause)
    command = describe("pod", namespace, pod.name)
    if "Image" in waiting.reason:
        remedies = (remedy for part, remedy in _IMAGES if re.search(part, message, re.IGNORECASE))
        return ContainerFault(cause, message, next(remedies, _IMAGE), command)
    if (fault := _absent(pod, cause, message)) is not None:
        return fault
    if (match := _NO_KEY.search(waiting.message)) is not None:
        remedy = f"add the key to {match[1]} {match[2]}, or change the reference in the template"
        command = describe(match[1].lower(), namespace, match[2])
        return ContainerFault(f"{cause} {match[2]}", message, remedy, command)
    repeats = waiting.reason == _CRASHES
    return ContainerFault(cause, message, remedy=_TEMPLATE, command=command, repeats=repeats)


def _absent(pod: LivePod, cause: str, message: str) -> ContainerFault | None:
    """Return the fault of a pod that refers to a Secret or ConfigMap which does not exist."""
    if (match := _ABSENT.search(message)) is None:
        return None
    remedy = f"create {match[1]} {match[2]}, or change the reference in the pod template"
    command = f"kubectl get {match[1]}s -n {pod.metadata.namespace or ''}"
    return ContainerFault(f"{cause} {match[2]}", message, remedy, command)


def _memory_limit(pod: LivePod, container: str) -> str:
    for declared in (*(pod.spec.init_containers or ()), *(pod.spec.containers or ())):
        if declared.name == container and declared.resources is not None:
            return str((declared.resources.limits or {}).get("memory", ""))
    return ""
