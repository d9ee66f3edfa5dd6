"""Faults of the scheduler: what the parts of its message mean, and the remedy for each.

https://github.com/kubernetes/kubernetes/tree/master/pkg/scheduler/framework/plugins
"""

import re
from collections.abc import Iterator
from typing import Final

from webhook.diagnostics.container_faults import ContainerFault
from webhook.diagnostics.messages import format_names, show
from webhook.objects.live_objects import LivePod

_VOLUMES: Final = re.compile(
    r"persistentvolumeclaim|persistent volume|volume node affinity", re.IGNORECASE
)
_CLAIM: Final = re.compile(r'persistentvolumeclaim "([^"]+)"', re.IGNORECASE)
_DEVICES: Final = re.compile(r"resourceclaim|resource claim|allocate all claims", re.IGNORECASE)
_TAINT: Final = re.compile(r"untolerated taint(?:\(s\))? \{([^:}]+)(?::\s*([^}]*))?\}")
_AMOUNT: Final = re.compile(r"Insufficient ([\w./-]*\w)")
_NO_NODES: Final = ("0/0 nodes", "no nodes available")
_UNBOUND: Final = (
    "check that the PersistentVolumeClaim exists, and is bound to a volume that free nodes "
    "can reach:"
)
_LABELS: Final = (
    "add nodes with the labels that nodeSelector and nodeAffinity of the pod template require, or "
    "change these"
)
_AFFINITY: Final = (
    "add nodes in the domain in which the other hosts run, or remove the pods that violate "
    "podAffinity or podAntiAffinity"
)
_USUAL_TAINTS: Final = "node-role.kubernetes.io/"
"""Prefix of the taints of nodes that are not for such pods."""
_NODES: Final = "kubectl get nodes"
_COLUMNS: Final = f"{_NODES} -o custom-columns=NAME:.metadata.name"


def scheduler_fault(pod: LivePod, words: str) -> ContainerFault:
    """Return the fault in the scheduler's message for a pod. The first part with a remedy counts:
    claims come before nodes, and what keeps a pod from the nodes for it before the other nodes.
    """
    for kind, remedy, command in _faults(pod, words):
        return ContainerFault(kind, words, remedy, command)
    return ContainerFault(
        "", words, "add nodes that fit, or free some; the pod's events have more", ""
    )


def _faults(pod: LivePod, words: str) -> Iterator[tuple[str, str, str]]:
    """Yield the kinds of faults in a message, the innermost first, with remedy and command."""
    namespace = pod.metadata.namespace or ""
    if pod.condition("PodScheduled") is None:
        yield (
            "scheduler",
            "check that this scheduler runs, or change schedulerName in the pod template",
            show("pod", namespace, pod.name),
        )
    if _VOLUMES.search(words):
        claims = list(dict.fromkeys((*_CLAIM.findall(words), *pod.volume_claims)))
        yield (
            f"volumes {format_names(claims)}",
            f"{_UNBOUND} {format_names(claims)}",
            f"kubectl describe pvc -n {namespace} {' '.join(claims)}".rstrip(),
        )
    if _DEVICES.search(words):
        yield (
            "claims",
            "check the ResourceClaims of the pod, and that the driver of their devices runs",
            f"kubectl describe resourceclaims -n {namespace}",
        )
    if any(part in words for part in _NO_NODES):
        yield "no nodes", "add nodes: the cluster has none", _NODES
    amounts = list(dict.fromkeys(_AMOUNT.findall(words)))
    taints = [pair for pair in _TAINT.findall(words) if not pair[0].startswith(_USUAL_TAINTS)]
    resource_taints = [pair for pair in taints if pair[0] in amounts]
    yield from _find_taint_faults(resource_taints)
    if amounts:
        columns = ",".join(
            f"{amount}:.status.allocatable.{_escape_dots(amount)}" for amount in amounts
        )
        yield (
            f"amounts {format_names(amounts)}",
            f"add nodes with {format_names(amounts)}, free some, or request less",
            f"{_COLUMNS},{columns}",
        )
    yield from _find_placement_faults(pod, words)
    yield from _find_taint_faults(taints)
    if "node affinity" in words or "node selector" in words:
        keys = sorted(pod.spec.node_selector or ())
        yield (
            "labels",
            _LABELS,
            f"{_NODES} -L {','.join(keys)}" if keys else f"{_NODES} --show-labels",
        )


def _find_placement_faults(pod: LivePod, words: str) -> Iterator[tuple[str, str, str]]:
    """Yield the faults that depend on other pods and on the state of nodes."""
    namespace = pod.metadata.namespace or ""
    everywhere = f"kubectl get pods -n {namespace} -o wide"
    if "Too many pods" in words:
        pods = f"{_COLUMNS},PODS:.status.allocatable.pods"
        yield "pods", "add nodes, or raise the maximum number of pods of a node", pods
    if "free ports" in words:
        yield (
            "ports",
            "remove hostPort from the pod template, or add nodes: each has the port once",
            f"kubectl get pod -n {namespace} {pod.name} -o yaml",
        )
    if "topology spread" in words:
        yield (
            "spread",
            "add nodes in the other domains, or change topologySpreadConstraints",
            f"kubectl get pod -n {namespace} {pod.name} -o yaml",
        )
    if "pod affinity" in words or "anti-affinity" in words:
        yield (
            "affinity",
            _AFFINITY,
            everywhere,
        )
    if "were unschedulable" in words:
        yield "cordoned", "uncordon the nodes, or add others", _NODES


def _find_taint_faults(taints: list[tuple[str, str]]) -> Iterator[tuple[str, str, str]]:
    if taints:
        taint_list = format_names([f"{key}={value}" if value else key for key, value in taints])
        yield (
            f"taints {taint_list}",
            f"add a toleration for {taint_list} to the pod template",
            f"{_COLUMNS},TAINTS:.spec.taints",
        )


def _escape_dots(resource: str) -> str:
    return resource.replace(".", r"\.")
