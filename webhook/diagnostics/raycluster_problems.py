"""Diagnoses of RayClusters: rejected pods, missing objects of KubeRay, ignored RayClusters."""

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from webhook.api import names
from webhook.api.formats import in_line
from webhook.api.objects import OBJECT_BYTES_MAX
from webhook.api.times import seconds_of
from webhook.diagnostics.assigned_pods import AssignedCluster, is_head, newest
from webhook.diagnostics.container_faults import end_fault, is_ready
from webhook.diagnostics.diagnosis import (
    ERROR,
    INFO,
    WARNING,
    Begin,
    ChangingCommand,
    Diagnosis,
    EventRule,
    Symptom,
    begun,
    earliest,
)
from webhook.diagnostics.expected import Expected
from webhook.diagnostics.messages import describe, format_count, format_names, pluralize, show
from webhook.diagnostics.owner_problems import service_of
from webhook.diagnostics.refusals import last_refusal
from webhook.groups.group_config import too_large
from webhook.groups.identity_labels import WORKER_POD_BYTES_MAX
from webhook.groups.naming import pod_prefix
from webhook.objects.live_objects import LivePod, find

_HEAD_READY: Final = "HeadPodReady"
_SUSPENDED: Final = "RayClusterSuspended"
_FOREGROUND: Final = "foregroundDeletion"
_REFUSAL_MAX: Final = 600
_QUOTA: Final = (
    "raise the quota, or free some of it",
    "kubectl describe resourcequota -n {namespace}",
)
_UNSET: Final = (
    "write these amounts in the pod template",
    "kubectl describe resourcequota -n {namespace}",
)
_LIMITS: Final = (
    "change the LimitRange, or the amounts in the pod template",
    "kubectl describe limitrange -n {namespace}",
)
_REFUSED: Final = (
    (
        rf"failed calling webhook \W*[a-z-]+\.{re.escape(names.PREFIX.rstrip('/'))}\b",
        "make the webhook answer",
        "ray-webhook check",
    ),
    (
        r"failed calling webhook .*https://(?P<service>[\w-]+)\.(?P<place>[\w-]+)\.svc\b",
        "make that webhook answer: check that its Service has endpoints",
        "kubectl get endpointslices -n {place} -l kubernetes.io/service-name={service}",
    ),
    (r"failed quota|ResourceQuota \S+ requires", *_UNSET),
    ("usage per |limit to request ratio per |LimitRange", *_LIMITS),
    ("exceeded quota|ResourceQuota", *_QUOTA),
    (
        "violates PodSecurity",
        "change the securityContext in the pod template, or the level of the namespace",
        "kubectl describe namespace {namespace}",
    ),
    (
        "error looking up service account",
        "create the ServiceAccount, or change its name in the pod template",
        "kubectl get serviceaccounts -n {namespace}",
    ),
    (
        "no PriorityClass with name",
        "create the PriorityClass, or change its name in the pod template",
        "kubectl get priorityclasses",
    ),
)
"""The pattern of a part of the API server's message or of a forecast, the remedy, and a command
that shows what it names. KubeRay may escape quotes.
"""
_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"


def pod_refused(cluster: AssignedCluster) -> Iterator[Symptom]:
    """A RayCluster with a pod that the API server rejects.

    The message is that of the rejection, by this webhook, another one, or a quota. Before that,
    `status` without `--watch` computes whether missing pods fit into the ResourceQuotas and
    LimitRanges that you may read. KubeRay creates no further pod of the RayCluster before this one,
    and retries with increasing delays. It deletes a replica that it cannot complete and creates it
    again, so a rejection counts until pods created since have existed for two minutes or their
    replica is complete. While this webhook is unavailable, workers that cannot run without it are
    rejected.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/raycluster_controller.go
    """
    refusal = last_refusal(cluster)
    if refusal is None or not refusal.message:
        message = cluster.objects.forecasts.get(f"{cluster.namespace}/{cluster.name}", "")
        prefix, begin, until = "pods are missing", Begin(), None
    else:
        message, prefix = refusal.message, "KubeRay cannot create a pod"
        begin, until = Begin(refusal.since), refusal.until
    if not message:
        return
    remedies = (
        (remedy, command.format(namespace=cluster.namespace, **match.groupdict()))
        for part, remedy, command in _REFUSED
        if (match := re.search(part, message)) is not None
    )
    remedy, command = next(remedies, ("", ""))
    yield Symptom(
        f"{prefix}: {in_line(message, _REFUSAL_MAX)}",
        f"{remedy or 'fix what the message names'}; KubeRay then creates the pod by itself",
        command or show("raycluster", cluster.namespace, cluster.name),
        begin,
        until=until,
    )


def head_missing(cluster: AssignedCluster) -> Iterator[Symptom]:
    """A RayCluster without a head.

    Its workers wait for the head before they start. The problem begins with the deletion or the end
    of the head, if known; otherwise with the last change of the RayCluster, or when KubeRay first
    reported that the head is not ready, because the head may have existed until then; the beginning
    is not shown in these cases.

    https://docs.ray.io/en/master/cluster/key-concepts.html#head-node
    """
    if (
        not cluster.heads
        and not cluster.cluster_config.suspended
        and not cluster.cluster_config.unread_bytes
    ):
        yield Symptom(
            "the head is missing, and the workers wait for it",
            "check the events of the RayCluster",
            begin=_find_head_loss(cluster),
        )


def _find_head_loss(cluster: AssignedCluster) -> Begin:
    """Return when the head of a RayCluster was lost."""
    prefix, meta = pod_prefix(cluster.name, None), cluster.live.metadata
    # The head may have a name without a suffix.
    names_ = (prefix, prefix.removesuffix("-"))
    ends = [time for name in names_ for time in cluster.ends(name)]
    deletions = [pod.metadata.deleted for pod in cluster.terminating if is_head(pod)]
    conditions = cluster.live.status.conditions
    ready, suspended = find(conditions, _HEAD_READY), find(conditions, _SUSPENDED)
    unready = ready.since if ready is not None and ready.status == "False" else None
    resumed = suspended.since if suspended is not None else None
    return begun((*ends, *deletions), (meta.created, meta.edited, resumed, unready))


def several_heads(cluster: AssignedCluster) -> Iterator[Symptom]:
    """A RayCluster with more than one head.

    Somebody created or relabelled a pod: KubeRay creates one head only, and neither creates nor
    deletes pods of the RayCluster until one head is left. Workers may join either GCS.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/raycluster_controller.go
    """
    if len(cluster.heads) > 1:
        head_names = tuple(sorted(head.name for head in cluster.heads))
        yield Symptom(
            f"the RayCluster has {len(head_names)} heads: {format_names(head_names)}",
            "delete all heads but the one that the workers use",
            begin=Begin(newest(cluster.heads)),
            pods=head_names,
        )


def head_restarted(cluster: AssignedCluster) -> Iterator[Symptom]:
    """A RayCluster whose head restarted while its workers ran, without fault tolerance of the GCS.

    The GCS had the actors, jobs and placement groups in the memory of the head: they are lost, and
    the processes of the workers still belong to the previous GCS, which they leave after a minute
    without it. A head that restarts before its workers start has no such effect.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/kuberay-gcs-ft.html
    """
    if cluster.cluster_config.gcs_fault_tolerant:
        return
    for head in cluster.heads:
        restarted = any(
            container_status.restart_count
            for container_status in head.status.container_statuses or ()
        )
        status = head.ray_status if restarted else None
        end = status.last_end if status is not None and status.restart_count else None
        run = status.state.running if status is not None else None
        began = seconds_of(run.started_at) if end is not None and run is not None else head.created
        if began is None or not is_ready(head):
            continue
        ready_pods = [
            pod for pod in cluster.pods if (pod.created or began) < began and is_ready(pod)
        ]
        older = [pod for pod in ready_pods if (_ray_began(pod) or began) < began]
        if not older:
            continue
        fault = (
            end_fault(head, status, end, repeats=True)
            if status is not None and end is not None
            else None
        )
        yield Symptom(
            f"the head restarted{f' ({fault.words})' if fault else ''}, so the RayCluster lost its "
            "actors, jobs and placement groups; "
            f"{format_count(len(older), 'worker')} started before it",
            "delete these workers and submit the jobs again; to prevent the loss, enable the fault "
            f"tolerance of the GCS{f', and {fault.remedy}' if fault else ''}",
            fault.command if fault else "",
            Begin(began),
            pods=tuple(pod.name for pod in older),
            deletes=True,
        )


def _ray_began(pod: LivePod) -> float | None:
    """Return when the Ray container of a pod was last started; without a state, when its pod was
    created.
    """
    run = pod.ray_status.state.running if pod.ray_status is not None else None
    started = seconds_of(run.started_at) if run is not None else None
    return pod.created if started is None else started


def headless_service_missing(cluster: AssignedCluster) -> Iterator[Symptom]:
    """A RayCluster without the Service that resolves the names of its hosts.

    KubeRay 1.4 and later create `<cluster>-headless` if a group has several hosts; earlier releases
    use another name, and none creates it for single hosts, whose names are needed by a job over
    several slices. Without it hosts cannot find their peers.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/service.go
    """
    services = cluster.objects.services
    needed = {Expected(group.replicas[0]).service for group in cluster.groups if group.replicas}
    for service in sorted(needed - {""}):
        if services.known and not services.of(f"{cluster.namespace}/{service}"):
            yield Symptom(
                f"the service {service} does not exist, so hosts cannot resolve each other's names",
                "create it, if KubeRay does not",
                f"kubectl get services -n {cluster.namespace}",
                Begin(None, newest(cluster.pods)),
                change=ChangingCommand(_create(cluster, service), f"creates the service {service}"),
            )


def _create(cluster: AssignedCluster, name: str) -> str:
    """Return the command that creates the Service as KubeRay would."""
    selector = {names.LABEL_CLUSTER: cluster.name, names.LABEL_NODE_TYPE: names.NODE_TYPE_WORKER}
    change = {"spec": {"publishNotReadyAddresses": True, "selector": {"app": None, **selector}}}
    where = f"{name} -n {cluster.namespace}"
    patch = msgspec.json.encode(change).decode()
    return (
        f"kubectl create service clusterip {where} --clusterip=None && kubectl patch service "
        f"{where} -p '{patch}'"
    )


def pod_without_group(cluster: AssignedCluster) -> Iterator[Symptom]:
    """Worker pods whose group was removed from the RayCluster or renamed.

    KubeRay no longer manages them: they keep running, occupy their devices, and are not replaced.
    Ray's autoscaler crashes on them. The same holds for pods whose label `ray.io/group` was
    removed.

    https://github.com/ray-project/kuberay/issues/1739
    """
    if cluster.cluster_config.unread_bytes:
        return
    group_of = {pod.name: pod.labels.get(names.LABEL_GROUP, "") for pod in cluster.without_group}
    pods = tuple(sorted(name for name, group in group_of.items() if group))
    unlabelled = tuple(sorted(name for name, group in group_of.items() if not group))
    groups = sorted(set(group_of.values()) - {""})
    if pods:
        none = pluralize(len(groups), "is no worker group", "are no worker groups")
        yield Symptom(
            f"{format_count(len(pods), 'pod')} of {format_names(groups)}, which {none} of the "
            f"RayCluster any more: KubeRay does not manage {pluralize(len(pods), 'it', 'them')}",
            f"bring the {pluralize(len(groups), 'group', 'groups')} back, or delete the pods",
            pods=pods,
        )
    if unlabelled:
        it = pluralize(len(unlabelled), "it", "them")
        yield Symptom(
            f"{format_count(len(unlabelled), 'pod')} without the label {names.LABEL_GROUP}: "
            f"KubeRay does not manage {it}",
            f"delete {it}",
            pods=unlabelled,
        )


def pod_stuck_terminating(cluster: AssignedCluster) -> Iterator[Symptom]:
    """Pods that are still Terminating after their grace period.

    kubelet has not reported the end of their containers, as on a lost node, or a finalizer blocks
    the deletion. For KubeRay such a pod still exists, so it is not replaced; repair does not delete
    it either, because its containers may still run. The deletion of a RayCluster may also wait for
    it.

    https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/#non-graceful-node-shutdown
    """
    for (node, finalizers), pods in sorted(_stuck(cluster).items()):
        pod_names = tuple(pod.name for pod in pods)
        where = f" on node {node}" if node else ""
        waiting = "the deletion" if cluster.cluster_config.deleting else "KubeRay"
        yield Symptom(
            f"{format_names(pod_names)} {pluralize(len(pods), 'is', 'are')} still Terminating"
            f"{where}, and {waiting} waits for {pluralize(len(pods), 'it', 'them')}"
            f"{f': {format_names(finalizers)} is not removed' if finalizers else ''}",
            "check that the controller that added the finalizer runs"
            if finalizers
            else f"check the node; if it is shut down for good, add the taint {_OUT_OF_SERVICE}, "
            "or delete the Node",
            show("pod", cluster.namespace, pod_names[0])
            if finalizers
            else f"kubectl describe node {node}",
            Begin(earliest(pod.due for pod in pods)),
            pods=pod_names,
        )


def _stuck(cluster: AssignedCluster) -> dict[tuple[str, tuple[str, ...]], list[LivePod]]:
    """Return the pods whose grace period is over, by node and finalizers."""
    stuck_pods: dict[tuple[str, tuple[str, ...]], list[LivePod]] = {}
    for pod in cluster.terminating:
        node, finalizers = pod.spec.node_name or "", tuple(pod.metadata.finalizers or ())
        if pod.due is not None and pod.due <= cluster.now and (node or finalizers):
            stuck_pods.setdefault((node, finalizers), []).append(pod)
    return stuck_pods


def being_deleted(cluster: AssignedCluster) -> Iterator[Symptom]:
    """A RayCluster that is being deleted.

    KubeRay only removes its own finalizer. The pods are deleted after the RayCluster, or before it
    if the deletion waits for them; only problems that block the deletion are shown.

    https://kubernetes.io/docs/concepts/architecture/garbage-collection/#cascading-deletion
    """
    yield Symptom(
        "the RayCluster is being deleted",
        "wait until it is deleted",
        begin=Begin(cluster.live.metadata.deleted),
    )


def deletion_blocked(cluster: AssignedCluster) -> Iterator[Symptom]:
    """A RayCluster whose deletion is blocked by a finalizer.

    The RayCluster exists until each finalizer is removed by the component that added it: KubeRay
    removes `ray.io/gcs-ft-redis-cleanup-finalizer` after five minutes at the latest, and
    `foregroundDeletion` waits for the pods. Until then its name is in use, and pods may keep
    running.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/
    """
    meta = cluster.live.metadata
    finalizers = meta.finalizers or []
    if finalizers:
        pods = finalizers == [_FOREGROUND]
        who = pluralize(len(finalizers), "a finalizer blocks", "finalizers block")
        yield Symptom(
            f"the RayCluster is being deleted, and {who} the deletion: {format_names(finalizers)}",
            "it ends when all dependents are deleted; check which pods still exist"
            if pods
            else "check that the controller that added it runs; remove it only if its cleanup is "
            "done",
            f"kubectl get pods -n {cluster.namespace} -l {names.LABEL_CLUSTER}={cluster.name}"
            if pods
            else show("raycluster", cluster.namespace, cluster.name),
            Begin(meta.deleted),
        )


def ignored(cluster: AssignedCluster) -> Iterator[Symptom]:
    """A RayCluster that the webhook ignores.

    The RayCluster or its namespace has the label `admission.ray.io/ignore: "true"`, or the
    namespace lacks the label by which an installation selects namespaces. Its pods get no identity
    and no variables, and its groups and replicas are not diagnosed. The label of a RayCluster has
    no effect if the setting `ignore.rayclusters` is false. The controller reads that setting;
    commands do not, and take `--ignore.rayclusters=false`.

    https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
    """
    kind, name = cluster.ignored_by
    if kind == "mutatingwebhookconfiguration":
        yield Symptom(
            f"the API server does not call the webhook for namespace {cluster.namespace}, which "
            f"{kind} {name} does not select",
            "to change that, add the labels of its `namespaceSelector` to the namespace, and "
            "recreate the pods",
            f"kubectl describe {kind} {name}",
        )
    elif kind:
        within = f" -n {cluster.namespace}" if kind == "RayCluster" else ""
        yield Symptom(
            f"the webhook ignores the RayCluster, because the label {names.LABEL_IGNORE} of the "
            f'{kind} is "true"',
            "to change that, remove the label, and recreate the pods",
            f"kubectl get {kind.lower()}{within} {name} --show-labels",
        )


def not_read(cluster: AssignedCluster) -> Iterator[Symptom]:
    """A RayCluster that is too large for the webhook to read.

    A RayCluster of more than 384 KiB would delay all other reviews, so only its name, its exemption
    and its shard index are read. Its new workers are refused, its groups are not diagnosed, and its
    pod groups and replicas are left as they are.

    https://etcd.io/docs/v3.5/dev-guide/limit/
    """
    if cluster.cluster_config.unread_bytes and not cluster.ignored:
        problem, _, remedy = too_large(cluster.cluster_config.unread_bytes).partition(": ")
        yield Symptom(
            f"the RayCluster {problem}, so its new workers are refused",
            remedy,
            show("raycluster", cluster.namespace, cluster.name),
        )


def partly_read(cluster: AssignedCluster) -> Iterator[Symptom]:
    """Pods, or the RayService of a RayCluster, that are too large to be read whole.

    Of a pod of more than 128 KiB only its identity, node, PodGroup, phase and readiness are read,
    of a RayService of more than 256 KiB only its RayClusters: their other problems are not shown.

    https://etcd.io/docs/v3.5/dev-guide/limit/
    """
    pods = [pod for pod in (*cluster.heads, *cluster.pods) if pod.unread_bytes]
    if pods:
        pod_names = tuple(sorted(pod.name for pod in pods))
        largest = max(pod.unread_bytes for pod in pods)
        yield Symptom(
            f"{format_names(pod_names)} {pluralize(len(pods), 'has', 'have')} up to "
            f"{largest >> 10} KiB, above the maximum of {WORKER_POD_BYTES_MAX >> 10} KiB, so "
            "problems of containers are not shown",
            "use fewer or shorter variables, labels and annotations in the pod template",
            pods=pod_names,
        )
    service = service_of(cluster)
    if service is not None and service.unread_bytes:
        name = service.metadata.name or ""
        yield Symptom(
            f"RayService {name} has {service.unread_bytes >> 10} KiB, above the maximum of "
            f"{OBJECT_BYTES_MAX >> 10} KiB, so problems of its applications are not shown",
            "make serveConfigV2 or the pod templates smaller",
            describe("rayservice", cluster.namespace, name),
        )


CLUSTER: Final = (
    Diagnosis(not_read, ERROR),
    Diagnosis(partly_read, WARNING),
    Diagnosis(pod_refused, ERROR),
    Diagnosis(head_missing, ERROR, 60),
    Diagnosis(several_heads, ERROR, 60),
    Diagnosis(head_restarted, ERROR),
    Diagnosis(headless_service_missing, ERROR, 30, EventRule("HeadlessServiceMissing", 120.0)),
    Diagnosis(pod_without_group, WARNING),
    Diagnosis(ignored, INFO),
)
TERMINATING: Final = (
    Diagnosis(pod_stuck_terminating, ERROR, 60, EventRule("PodStuckTerminating")),
)
DELETION: Final = (
    Diagnosis(being_deleted, INFO),
    Diagnosis(deletion_blocked, ERROR, 600),
)
