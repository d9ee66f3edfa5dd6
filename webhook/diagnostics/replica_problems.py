"""Diagnoses of replicas: missing or duplicate hosts, split replicas, wrong values in pods."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import Final

from webhook.api import names
from webhook.api.formats import shorten
from webhook.api.times import seconds_of
from webhook.diagnostics.assigned_pods import (
    AssignedCluster,
    AssignedGroup,
    AssignedReplica,
    asks_for_tpu,
    newest,
)
from webhook.diagnostics.container_faults import end_fault
from webhook.diagnostics.diagnosis import (
    ERROR,
    INFO,
    WARNING,
    Begin,
    Diagnosis,
    EventRule,
    Symptom,
    begun,
    deletion_of_pods,
    earliest,
    latest,
)
from webhook.diagnostics.expected import Difference, Expected
from webhook.diagnostics.messages import format_count, format_names, hosts, pluralize, show
from webhook.groups.naming import pod_prefix
from webhook.objects.live_objects import ContainerStatus, LivePod

_PREEMPTION: Final = "PreemptionByScheduler"
"""https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions"""


def host_missing(group: AssignedGroup) -> Iterator[Symptom]:
    """A replica with missing hosts.

    All hosts of a replica work together: while a host is missing, the others wait for it. The
    problem begins with the deletion of the host's pod, or with the ends of pods of its group after
    the newest host was created, if events show them; otherwise with the creation of the newest
    host. The beginning is shown only if as many pods ended as hosts are missing.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/tpu.html
    """
    preempted = _find_preemption_reasons(group)
    for replica in group.replicas:
        if missing := replica.missing:
            host_count, count = group.hosts - len(missing), group.spec.num_of_hosts
            reasons = (preempted.get((replica.index, replica.name, host), "") for host in missing)
            reason = next(filter(None, reasons), "")
            yield Symptom(
                f"replica {replica.called} has {host_count} of {count} hosts: {hosts(missing)} "
                f"{pluralize(len(missing), 'is', 'are')} missing"
                f"{f', preempted: {reason}' if reason else ''}",
                _remedy_of_loss(replica, missing, reason),
                begin=_lost(replica, missing),
                hosts=tuple(missing),
                replica=replica.index,
            )


def _remedy_of_loss(replica: AssignedReplica, missing: list[int], preempted: str) -> str:
    if preempted:
        return "raise the priority of the pod template, or add capacity"
    deletions = replica.group.deleted.get((replica.index, replica.name), {})
    if deletions.keys() >= set(missing):
        pods = pluralize(len(missing), "the deletion of its pod", "the deletions of their pods")
        return f"KubeRay creates the missing pods, or the whole replica, after {pods}"
    return (
        "KubeRay creates the missing pods, or the whole replica; if not, check the events of the "
        "RayCluster"
    )


def _find_preemption_reasons(group: AssignedGroup) -> dict[tuple[int, str, int], str]:
    """Return why the scheduler preempts pods that are being deleted, by identity."""
    reasons = {}
    for identity, pod in group.terminating:
        target = pod.condition("DisruptionTarget")
        if target is not None and target.reason == _PREEMPTION and target.is_true:
            reasons[identity.replica, identity.name, identity.host] = target.words
    return reasons


def _lost(replica: AssignedReplica, missing: list[int]) -> Begin:
    """Return when the first of the missing hosts was lost.

    Events do not contain the host of a pod. If the number of ended pods of the group differs from
    the number of missing hosts, any of these pods may have been a missing host.
    """
    cluster = replica.group.cluster
    deleted = replica.group.deleted.get((replica.index, replica.name), {})
    deletions = {host: deleted[host] for host in missing if host in deleted}
    times = [time for time in deletions.values() if time is not None]
    if len(deletions) < len(missing):
        ends = cluster.ends(pod_prefix(cluster.name, replica.group.name))
        first = bisect_left(ends, replica.newest or 0.0)
        if len(ends) - first != len(missing) - len(deletions):
            end = ends[first] if first < len(ends) else replica.newest
            return Begin(None, earliest((*times, end)))
        times += ends[first:]
    return Begin(min(times, default=None), replica.newest)


def replica_missing(group: AssignedGroup) -> Iterator[Symptom]:
    """A group with fewer replicas than desired.

    KubeRay has not created their pods, or the API server has rejected them.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/config.html
    """
    cluster, size = group.cluster, group.spec.num_of_hosts
    if size < 1:
        return
    # Rounded up: pods without an identity may be those of replicas that seem to be missing.
    lost = -(-len(group.without_identity) // size)
    lacking = group.desired - len({replica.index for replica in group.replicas}) - lost
    if lacking <= 0:
        return
    meta = cluster.live.metadata
    ends = cluster.ends(pod_prefix(cluster.name, group.name))
    deletions = (pod.metadata.deleted for _, pod in group.terminating)
    yield Symptom(
        f"{format_count(lacking, 'replica')} of {group.desired} "
        f"{pluralize(lacking, 'is', 'are')} missing",
        "check the events of the RayCluster",
        begin=begun(
            (*ends, *deletions),
            (meta.created, meta.edited, newest(cluster.heads), newest(group.pods)),
        ),
    )


def replica_beyond_desired(group: AssignedGroup) -> Iterator[Symptom]:
    """A group with more replicas than desired.

    They occupy devices that are not requested. With autoscaling, KubeRay deletes only the pods that
    the autoscaler selects. Pods created before KubeRay's indexing are not part of a replica for
    KubeRay 1.6 and later, which creates all replicas again.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/raycluster_controller.go
    """
    surplus = len(group.replicas) - group.desired
    if surplus <= 0:
        return
    slices = _numbers_of_slices(group.replicas[0]) is not None
    order = sorted(
        group.replicas, key=lambda each: (each.index if slices else 0, each.newest or 0.0)
    )
    which = "those with the highest ids, as slices count from 0" if slices else "the newest"
    yield Symptom(
        f"{format_count(len(group.replicas), 'replica')} "
        f"{pluralize(len(group.replicas), 'exists', 'exist')}, but {group.desired} "
        f"{pluralize(group.desired, 'is', 'are')} desired",
        f"if the autoscaler does not delete replicas, delete {which}",
        begin=Begin(None, latest((newest(group.pods), group.cluster.live.metadata.edited))),
        pods=tuple(pod.name for replica in order[-surplus:] for pod in replica.every_pod),
    )


def autoscaler_at_maximum(group: AssignedGroup) -> Iterator[Symptom]:
    """A worker group that has reached `maxReplicas`.

    The autoscaler adds no more replicas, and tasks and actors that need more workers wait.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/configuring-autoscaling.html
    """
    cluster, spec = group.cluster, group.spec
    most = spec.max_replicas
    # With equal bounds, the maximum is intended.
    if not cluster.cluster_config.autoscaling or most is None or (spec.min_replicas or 0) >= most:
        return
    if 0 < most <= group.desired:
        yield Symptom(
            f"group {group.name} has {format_count(group.desired, 'replica')}, its maxReplicas: "
            "the autoscaler adds no more",
            "raise maxReplicas if tasks or actors wait for resources",
            show("raycluster", cluster.namespace, cluster.name),
        )


def identity_duplicate(group: AssignedGroup) -> Iterator[Symptom]:
    """Two pods with one identity.

    Both act as the same host under the same name: peers of one reach the other, and the job hangs
    or fails.

    https://github.com/GoogleCloudPlatform/ai-on-gke/issues/858
    """
    by_index: dict[int, list[AssignedReplica]] = {}
    for replica in group.replicas:
        by_index.setdefault(replica.index, []).append(replica)
    for index, replicas in by_index.items():
        pods = [
            (host, pod)
            for replica in replicas
            for host, host_pods in replica.pods.items()
            for pod in host_pods
        ]
        double = {host for host, number in Counter(host for host, _ in pods).items() if number > 1}
        if not double and len(replicas) == 1:
            continue
        duplicate_pods = [pod for host, pod in pods if host in double or not double]
        duplicate_pods.sort(key=lambda pod: (pod.created or 0.0, pod.name))
        pod_names = tuple(pod.name for pod in duplicate_pods)
        description = (
            f"replica {index} has more than one pod for {hosts(double)}"
            if double
            else f"two replicas have index {index}"
        )
        yield Symptom(
            f"{description}: {format_names(pod_names)}",
            "delete all of them, so that KubeRay recreates each",
            begin=Begin(duplicate_pods[-1].created),
            hosts=tuple(sorted(double)),
            pods=pod_names,
            replica=index,
            deletes=True,
        )


def replica_split(expected: Expected) -> Iterator[Symptom]:
    """A replica whose hosts run in several topology domains.

    The domain is the node pool of a TPU slice, the value of the node label in the annotation
    `admission.ray.io/topology-key`, or the level of Kueue's annotations. Links between the hosts of
    a slice or an NVLink domain end at its border, so the job hangs when it starts. Kueue cannot
    say which pods of a group are one replica, so hosts of two replicas may be interchanged.

    https://cloud.google.com/kubernetes-engine/docs/concepts/tpus
    """
    replica = expected.replica
    cluster = replica.group.cluster
    if not cluster.objects.nodes.known or replica.group.spec.num_of_hosts < 2:  # noqa: PLR2004
        return
    placed = [pod for pod in replica.every_pod if pod.spec.node_name]
    key = expected.topology_key if len(placed) > 1 else ""
    domains: dict[str, list[LivePod]] = {}
    for pod in placed if key else ():
        node = cluster.objects.nodes.one(pod.spec.node_name or "")
        if node is None:
            continue
        value = node.label(key)
        domains.setdefault(f"no {key}" if value is None else value, []).append(pod)
    if len(domains) > 1:
        mixed = expected.placed and replica.group.desired > 1
        yield Symptom(
            f"the hosts of replica {replica.called} run in {len(domains)} domains of {key}: "
            f"{format_names(sorted(domains))}",
            "give each replica a group of its own, as Kueue mixes the replicas of a group"
            if mixed
            else "delete the pods, so that they are scheduled to one domain",
            show("raycluster", cluster.namespace, cluster.name) if mixed else "",
            Begin(newest(placed)),
            pods=tuple(pod.name for pod in replica.every_pod),
            deletes=not mixed,
        )


def hosts_changed(expected: Expected) -> Iterator[Symptom]:
    """A replica created when its group had another number of hosts.

    KubeRay keeps replicas with too many hosts, and running pods keep outdated host names and
    counts: the job in them waits for the previous number of hosts.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/raycluster_controller.go
    """
    replica = expected.replica
    cluster, count = replica.group.cluster, replica.group.spec.num_of_hosts
    extra = [host for host in replica.pods if host >= count]
    size = expected.other_size() if count > 1 and not extra else None
    if not extra and size is None:
        return
    says, command = f"was created with another numOfHosts than {count}", ""
    remedy = f"delete it, so that it is recreated with {format_count(count, 'host')}"
    if size is None:
        description = f"it also has {hosts(extra)}"
    else:
        description = f"{size.pod.name} has {size.name}={shorten(size.shown)}"
        if _is_newer_than_spec(replica):
            says = f"has another number of hosts than {count} in its template"
            remedy = (
                f"remove {size.name} from the template, or set it to {shorten(size.expected)}: "
                "recreated pods have the same value"
            )
            command = show("raycluster", cluster.namespace, cluster.name)
    yield Symptom(
        f"replica {replica.called} {says}: {description}",
        remedy,
        command,
        Begin(None, latest((cluster.live.metadata.edited, replica.newest))),
        pods=tuple(pod.name for pod in replica.every_pod),
        deletes=not command,
    )


def _is_newer_than_spec(replica: AssignedReplica) -> bool:
    """Return whether all pods of a replica are newer than the last change of the RayCluster's spec,
    so that recreated pods would get the same values.
    """
    edited = replica.group.cluster.live.metadata.edited
    created = [pod.created for pod in replica.every_pod]
    return edited is not None and all(time is not None and time > edited for time in created)


def slice_left_out(group: AssignedGroup) -> Iterator[Symptom]:
    """A slice of a multi-slice job with an id, or a number of slices, that does not fit the job.

    The id of a slice is the index of its replica. After a scale-down KubeRay may leave replicas
    such as 0 and 2, and the variables of running pods cannot change. The job waits for the ids 0 to
    n-1, n being the number of slices set in its pods. A recreated replica gets the lowest free
    index.

    https://github.com/ray-project/ray/blob/master/python/ray/util/tpu.py
    """
    number = group.desired
    if not number or len(group.replicas) > number or not _in_slice_job(group):
        return
    total = _slices(group.cluster)
    name, job = names.MEGASCALE_NUM_SLICES, group.cluster.cluster_config.slices.get(group.name)
    first_id = job.first if job else 0
    for replica in group.replicas:
        numbers = _numbers_of_slices(replica)
        wrong = [value for value in numbers or () if value not in {str(number), str(total)}]
        if wrong:
            replicas = format_count(number, "replica")
            description = f"has {name}={shorten(wrong[0])}, and its group has {replicas}"
            first = f"set {name} to {number} in the template, then "
        elif numbers is not None and replica.index >= number:
            description = (
                f"has slice id {first_id + replica.index}, which is not below {first_id + number}"
            )
            first = ""
        else:
            continue
        yield Symptom(
            f"replica {replica.called} {description}: the other slices wait for it forever",
            f"{first}delete this replica, so that it is recreated with the lowest free id",
            show("pod", group.cluster.namespace, replica.every_pod[0].name) if wrong else "",
            pods=tuple(pod.name for pod in replica.every_pod),
            replica=replica.index,
            deletes=True,
        )


def _slices(cluster: AssignedCluster) -> int:
    """Return the number of slices of a job over several TPU slices, counted once for all groups."""
    if cluster.slices is None:
        cluster.slices = sum(group.desired for group in cluster.groups if _in_slice_job(group))
    return cluster.slices


def _in_slice_job(group: AssignedGroup) -> bool:
    return bool(group.replicas) and _numbers_of_slices(group.replicas[0]) is not None


def _numbers_of_slices(replica: AssignedReplica) -> list[str] | None:
    """Return the numbers of slices set in the pods of a replica; None if it is not part of a job
    over several TPU slices.
    """
    variables = [
        variable
        for pod in replica.every_pod
        for container in (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
        for variable in container.env or ()
        if variable.name == names.MEGASCALE_NUM_SLICES
        and (variable.value or variable.value_from is not None)
    ]
    if not variables or not asks_for_tpu(replica.every_pod[0]):
        return None
    return [variable.value for variable in variables if variable.value]


def worker_id_differs(expected: Expected) -> Iterator[Symptom]:
    """A host whose index in its variables differs from its identity, or is not set.

    `TPU_WORKER_ID` or `NODE_RANK` differs from the labels, because the pod was created while the
    webhook was unavailable, because the template sets it, or because a second webhook sets it. Two
    hosts with the same index never finish their rendezvous.

    https://github.com/ray-project/ray/blob/master/python/ray/_private/accelerators/tpu.py
    """
    yield from _differing(
        expected.replica, expected.places(), "it is the index of the host in its replica"
    )


def hostname_differs(expected: Expected) -> Iterator[Symptom]:
    """A host whose name differs from the name that its peers use.

    The pod was created while the webhook was unavailable, or its template sets `hostname`. Its
    peers wait for a name that does not resolve.

    https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-hostname-and-subdomain-field
    """
    yield from _differing(
        expected.replica, expected.host_names(), "its peers connect to it by that name"
    )


def _differing(replica: AssignedReplica, found: list[Difference], why: str) -> Iterator[Symptom]:
    if not found:
        return
    first = found[0]
    suffix = f", and {len(found) - 1} more like it" if len(found) > 1 else ""
    yield Symptom(
        f"{first.name} of host {first.host} of replica {replica.called} ({first.pod.name}) "
        f"should be {first.expected} and is {first.shown}{suffix}: {why}",
        f"remove {first.name} from the template if it is set there, run `ray-webhook check`, and "
        f"delete the {pluralize(len(found), 'pod', 'pods')}",
        command=show("pod", replica.group.cluster.namespace, first.pod.name),
        begin=Begin(newest(difference.pod for difference in found)),
        hosts=tuple(difference.host for difference in found),
        pods=tuple(difference.pod.name for difference in found),
        deletes=True,
    )


def pod_without_identity(group: AssignedGroup) -> Iterator[Symptom]:
    """A worker pod without an identity.

    The pod was created while the webhook was unavailable or not called for it, and has no labels
    from elsewhere: it has no replica index, no host index and no peers. The label of the previous
    webhook, `replicaIndex`, is an identity only together with a literal `TPU_WORKER_ID`. A
    single-host worker without TPUs needs none.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    """
    lost = group.lost
    if not lost:
        return
    pods = tuple(unidentified_pod.pod.name for unidentified_pod in lost)
    why = next(
        (f": {unidentified_pod.why}" for unidentified_pod in lost if unidentified_pod.why), ""
    )
    yield Symptom(
        f"{format_names(pods)} {pluralize(len(pods), 'has', 'have')} no identity{why}",
        "run `ray-webhook check`; if it finds no problem, delete the pods, so that KubeRay "
        "recreates them",
        begin=Begin(newest(unidentified_pod.pod for unidentified_pod in lost)),
        pods=pods,
        deletes=True,
    )


def host_restarted(expected: Expected) -> Iterator[Symptom]:
    """A replica, or a worker group that is one job, in which some hosts have restarted and others
    have not.

    Ray's container ended on these hosts and kubelet started it again, so every pod is ready. The
    other hosts still wait for the ranks that ended, often without an error in the logs. A replica
    whose hosts have all restarted equally often starts together. Restarts before the creation of
    the newest pod of the replica do not count. The controller repairs such a replica if it has the
    annotation `admission.ray.io/restart`.

    https://docs.jax.dev/en/latest/multi_process.html
    """
    replica = expected.replica
    pods = replica.every_pod
    if any(pod.unread_bytes for pod in pods):
        return
    statuses = {pod.name: pod.ray_status or ContainerStatus() for pod in pods}
    least = min(status.restart_count for status in statuses.values())
    newest_ = newest(pods) or 0.0
    restarted_statuses = {
        pod.name: status
        for pod in replica.every_pod
        if (status := statuses[pod.name]).restart_count > least
        and (_last_end(status) or newest_) >= newest_
    }
    if not restarted_statuses:
        return
    which = [
        host
        for host, host_pods in replica.pods.items()
        if any(pod.name in restarted_statuses for pod in host_pods)
    ]
    first = next(pod for pod in pods if pod.name in restarted_statuses)
    status = restarted_statuses[first.name]
    cluster = replica.group.cluster
    restart = "if the job does not continue, restart all hosts of the replica: delete its pods"
    fault = end_fault(first, status, status.last_end, repeats=True) if status.last_end else None
    yield Symptom(
        f"{hosts(which)} of replica {replica.called} restarted"
        f"{f' ({fault.words})' if fault else ''}, and the other hosts did not",
        f"{fault.remedy}; {restart}" if fault else restart,
        fault.command if fault else "",
        Begin(earliest(map(_last_end, restarted_statuses.values())), newest(pods)),
        hosts=tuple(sorted(which)),
        pods=tuple(restarted_statuses),
        change=deletion_of_pods(cluster.namespace, [pod.name for pod in pods]),
    )


def _last_end(status: ContainerStatus) -> float | None:
    """Return when a container ended before it was started again."""
    return seconds_of(status.last_end.finished_at) if status.last_end else None


GROUP: Final = (
    Diagnosis(replica_missing, ERROR, 60),
    Diagnosis(replica_beyond_desired, WARNING, 120),
    Diagnosis(autoscaler_at_maximum, INFO),
    Diagnosis(identity_duplicate, ERROR, 10, EventRule("IdentityDuplicate")),
    Diagnosis(pod_without_identity, ERROR, event=EventRule("PodWithoutIdentity")),
    Diagnosis(slice_left_out, ERROR),
    Diagnosis(host_missing, ERROR, 30, EventRule("HostMissing", 120.0)),
)
REPLICA: Final = (
    Diagnosis(replica_split, ERROR, event=EventRule("ReplicaSplit")),
    Diagnosis(hosts_changed, ERROR),
    Diagnosis(worker_id_differs, ERROR, event=EventRule("WorkerIdDiffers")),
    Diagnosis(hostname_differs, ERROR, event=EventRule("HostnameDiffers")),
    Diagnosis(host_restarted, ERROR, event=EventRule("HostRestarted")),
)
