"""The examination: all diagnoses over the assigned pods of a RayCluster, combined in a report."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, Final, TypeVar

from msgspec import Struct, structs

from webhook.api import names
from webhook.diagnostics import report
from webhook.diagnostics.assigned_pods import AssignedCluster, AssignedGroup, AssignedReplica
from webhook.diagnostics.container_faults import is_ready
from webhook.diagnostics.diagnosis import ERROR, Diagnosis, Problem, Symptom, deletion_of_pods
from webhook.diagnostics.expected import Expected
from webhook.diagnostics.installation_problems import INSTALLATION
from webhook.diagnostics.messages import describe
from webhook.diagnostics.owner_problems import OWNERS, WITHOUT_CLUSTER, find_problems_of_owners
from webhook.diagnostics.pod_problems import PODS, parties
from webhook.diagnostics.raycluster_problems import CLUSTER, DELETION, TERMINATING
from webhook.diagnostics.replica_problems import GROUP, REPLICA
from webhook.objects.live_objects import LivePod
from webhook.objects.object_cache import CORDONED, ObjectCache

T = TypeVar("T")

EXPLAINS: Final[Mapping[str, tuple[str, ...]]] = {
    "pod-refused": ("head-missing", "replica-missing", "host-missing"),
    "pod-without-group": ("host-missing",),
    "pod-without-identity": ("host-missing",),
    "deletion-blocked": ("being-deleted",),
    "identity-duplicate": ("host-missing", "worker-id-differs", "hostname-differs"),
    "container-not-running": ("host-restarted",),
    "service-not-serving": ("service-without-endpoints",),
    "gate-remains": ("pod-gated",),
    "resize-failed": ("resize-stuck",),
    "worker-id-differs": ("hostname-differs",),
}
"""The consequences of each cause: they end when the cause is fixed, not the other way round."""


def causes(problems: Sequence[Problem]) -> Iterator[Problem]:
    """Yield the problems of a RayCluster that no other problem of the same RayCluster explains.

    A cause about a group or a replica explains problems within that group or replica only. A cause
    about pods explains the problems of these pods, and as many missing hosts as it has surplus
    pods.
    """
    places: dict[_Place, list[_Cause]] = {}
    for number, problem in enumerate(problems):
        for explained in EXPLAINS.get(problem.id, ()):
            place = explained, problem.group, problem.replica
            cause = _Cause(number, frozenset(problem.pods), len(problem.pods) - len(problem.hosts))
            places.setdefault(place, []).append(cause)
    for problem in problems:
        candidates = [
            cause
            for group in {"", problem.group}
            for replica in {None, problem.replica}
            for cause in places.get((problem.id, group, replica), ())
        ]
        if not any(cause.explains(problem) for cause in sorted(candidates)):
            yield problem


_Place = tuple[str, str, int | None]
"""What a cause explains: a problem, in a group or in all, and in a replica or in all."""


class _Cause(Struct, order=True):
    """A problem that explains others: its number, its pods, and their surplus over the hosts that
    it has itself; -1 if it is not about pods.
    """

    number: int
    pods: frozenset[str]
    surplus: int

    def explains(self, problem: Problem) -> bool:
        # A missing host has no pod by which its problem could be matched.
        if problem.id != "host-missing" or not self.pods:
            return self.pods.issuperset(problem.pods)
        # A refused or unidentified pod can be one missing host, not more.
        if len(problem.hosts) > self.surplus:
            return False
        self.surplus -= len(problem.hosts)
        return True


DIAGNOSES: Final[tuple[Diagnosis[Any], ...]] = (
    *INSTALLATION,
    *OWNERS,
    *WITHOUT_CLUSTER,
    *CLUSTER,
    *TERMINATING,
    *DELETION,
    *GROUP,
    *REPLICA,
    *PODS,
)


ReplicaProblems = tuple[tuple[Diagnosis[Expected], Symptom], ...]


def find_again(replica: AssignedReplica) -> ReplicaProblems:
    """Return the symptoms of a replica from the diagnoses in REPLICA, reported yet or not. They
    depend only on its pods, their nodes, the configuration of its RayCluster, and the time of the
    last edit.
    """
    expected = Expected(replica)
    return tuple(
        (diagnosis, symptom) for diagnosis in REPLICA for symptom in diagnosis.check(expected)
    )


_ABSENT: Final = 20_000
"""Maximum number of hosts shown for missing replicas of a group, whose number is unbounded."""

_Found = tuple[Diagnosis[Any], Symptom, str, int | None]
"""A symptom of a diagnosis, with the group and the index of the replica."""


def _check(
    diagnoses: Iterable[Diagnosis[T]], subject: T, group: str = "", replica: int | None = None
) -> Iterator[_Found]:
    for diagnosis in diagnoses:
        for symptom in diagnosis.check(subject):
            yield diagnosis, symptom, group, replica


def installation_problems(objects: ObjectCache) -> tuple[Problem, ...]:
    """Return the problems that belong to no RayCluster."""
    symptoms = _check(INSTALLATION, objects.configurations.all)
    return tuple(_problem(diagnosis, symptom) for diagnosis, symptom, _, _ in symptoms)


def owner_problems(objects: ObjectCache, now: float) -> tuple[Problem, ...]:
    """Return the problems of RayJobs and RayServices that have no RayCluster."""
    return tuple(
        structs.replace(_problem(diagnosis, symptom, namespace=namespace), owner=owner)
        for diagnosis, symptom, namespace, owner in find_problems_of_owners(objects)
        if diagnosis.due(symptom) <= now
    )


def _problem(
    diagnosis: Diagnosis[Any],
    symptom: Symptom,
    group: str = "",
    replica: int | None = None,
    namespace: str = "",
    cluster: str = "",
) -> Problem:
    pods, change = symptom.pods, symptom.change
    command = (
        f"kubectl get pod -n {namespace} -o wide {' '.join(pods)}"
        if pods
        else describe("raycluster", namespace, cluster)
    )
    return Problem(
        diagnosis.id,
        diagnosis.level,
        message=symptom.message,
        remedy=symptom.remedy,
        command=symptom.command or command,
        page=diagnosis.page,
        since=symptom.begin.since,
        namespace=namespace,
        cluster=cluster,
        group=group,
        replica=replica if symptom.replica is None else symptom.replica,
        hosts=symptom.hosts,
        pods=pods,
        change=deletion_of_pods(namespace, pods) if symptom.deletes else change,
        cause=symptom.cause,
    )


def _symptoms(
    cluster: AssignedCluster, find: Callable[[AssignedReplica], ReplicaProblems]
) -> Iterator[_Found]:
    """Yield the symptoms of a RayCluster: of an ignored one only those of KubeRay, of one that is
    being deleted only those and symptoms of the deletion.
    """
    yield from _check(TERMINATING, cluster)
    if cluster.cluster_config.deleting:
        yield from _check(DELETION, cluster)
        return
    yield from _check((*OWNERS, *CLUSTER), cluster)
    if not cluster.ignored:
        for group in cluster.groups:
            yield from _check(GROUP, group, group.name)
            for replica in group.replicas:
                for replica_problem in find(replica):
                    yield *replica_problem, group.name, replica.index
    for pod_set in parties(cluster):
        place = (
            (pod_set.replica.group.name, pod_set.replica.index) if pod_set.replica else ("", None)
        )
        yield from _check(PODS, pod_set, *place)


def report_of(
    cluster: AssignedCluster, find: Callable[[AssignedReplica], ReplicaProblems]
) -> tuple[report.RayClusterReport, float]:
    """Return the report of a RayCluster, and the time at which it changes without an event. `find`
    may memoize.
    """
    occurrences = [
        (occurrence[0].due(occurrence[1]), occurrence) for occurrence in _symptoms(cluster, find)
    ]
    problems = sorted(
        (
            _problem(*occurrence, cluster.namespace, cluster.name)
            for due, occurrence in occurrences
            if due <= cluster.now
        ),
        key=lambda problem: problem.rank,
    )
    wrong: dict[str, set[int | None]] = {}
    for problem in problems:
        if problem.level == ERROR:
            wrong.setdefault(problem.group, set()).add(problem.replica)
    late = {problem.group for problem in problems if problem.id == "replica-missing"}
    refused = any(problem.id == "pod-refused" for problem in problems)
    for group in cluster.groups if refused else ():
        incomplete = (replica.index for replica in group.replicas if replica.missing)
        wrong.setdefault(group.name, set()).update(incomplete)
    meta = cluster.live.metadata
    owner = meta.controller
    cluster_report = report.RayClusterReport(
        cluster.namespace,
        cluster.name,
        head=_host(0, cluster.heads),
        groups=tuple(
            _group(group, wrong.get(group.name, set()), late=refused or group.name in late)
            for group in cluster.groups
        ),
        problems=tuple(causes(problems)),
        suspended=cluster.cluster_config.suspended,
        terminating=len(cluster.terminating),
        pod_groups=tuple(_pod_groups(cluster)),
        uid=cluster.cluster_config.uid,
        deleting=cluster.cluster_config.deleting,
        owner=f"{owner.kind}/{owner.name}" if owner else "",
        created=meta.created,
        ray_version=cluster.cluster_config.ray_version,
        queue=(meta.labels or {}).get(names.LABEL_KUEUE_QUEUE, ""),
    )
    ends = (symptom.until for _, (_, symptom, *_) in occurrences if symptom.until is not None)
    times = (*(due for due, _ in occurrences), *ends)
    return cluster_report, min((time for time in times if time > cluster.now), default=inf)


def _pod_groups(cluster: AssignedCluster) -> Iterator[report.PodGroupReport]:
    named: dict[str, list[LivePod]] = {}
    for pod in (*cluster.heads, *cluster.pods):
        if pod.pod_group:
            named.setdefault(pod.pod_group, []).append(pod)
    for name, pods in sorted(named.items()):
        pod_group = cluster.objects.pod_group(cluster.namespace, name)
        yield report.PodGroupReport(
            name,
            len(pods),
            needed=pod_group.min_count if pod_group else 0,
            missing=pod_group is None and cluster.objects.pod_groups.known,
            unscheduled=any(pod.unscheduled for pod in pods),
            reason=pod_group.reason if pod_group else "",
        )


def _group(group: AssignedGroup, wrong: set[int | None], *, late: bool) -> report.GroupReport:
    """Return a group; `wrong` are its replicas with an error, `late` is whether one is missing."""
    replicas = [_replica(replica, affected=replica.index in wrong) for replica in group.replicas]
    hosts = group.hosts
    lacking = (
        # A pod without an identity is one of the hosts that seem to be missing.
        group.desired - len(replicas) - (len(group.without_identity) // hosts if hosts > 0 else 0)
    )
    empty = tuple(report.HostReport(host, report.MISSING) for host in range(hosts))
    state: report.ReplicaState = "missing" if late else "creating"
    replicas += [
        report.ReplicaReport(None, "", state, empty)
        for _ in range(min(lacking, _ABSENT // max(1, hosts)))
    ]
    group_report = report.GroupReport(
        group.name,
        hosts,
        desired=group.desired,
        replicas=tuple(replicas),
        without_identity=tuple(
            unidentified_pod.pod.name for unidentified_pod in group.without_identity
        ),
        max_disrupted=group.cluster.cluster_config.max_disrupted,
    )
    if group_report.max_disrupted is None or group_report.disrupted < group_report.max_disrupted:
        return group_report
    return structs.replace(
        group_report, eviction_blocked=tuple(_on_cordoned_nodes(group.cluster, group_report))
    )


def _on_cordoned_nodes(cluster: AssignedCluster, group: report.GroupReport) -> Iterator[int]:
    """Yield the indices of complete replicas with a host on a node that takes no more pods."""
    node = cluster.objects.nodes.one
    for replica in group.replicas if cluster.objects.nodes.of(CORDONED) else ():
        nodes = (node(host.node) for host in replica.hosts)
        cordoned = any(
            live_node is not None and live_node.spec.unschedulable for live_node in nodes
        )
        if replica.index is not None and replica.state == report.COMPLETE and cordoned:
            yield replica.index


def _replica(replica: AssignedReplica, *, affected: bool) -> report.ReplicaReport:
    count = max(replica.group.hosts, *(host + 1 for host in replica.pods))
    hosts = tuple(
        _host(host, replica.pods.get(host, []))
        for host in range(count)
        if host in replica.pods or host < replica.group.hosts
    )
    complete = all(host.state == report.READY for host in hosts)
    state: report.ReplicaState = "degraded" if affected else "complete" if complete else "creating"
    if replica.group.cluster.cluster_config.deleting:
        state = report.DELETING
    return report.ReplicaReport(
        replica.index, replica.name, state=state, hosts=hosts, since=replica.newest
    )


def _host(index: int, pods: list[LivePod]) -> report.HostReport:
    if not pods:
        return report.HostReport(index, report.MISSING)
    pod_names = tuple(pod.name for pod in pods)
    state = report.TWICE if len(pods) > 1 else _state(pods[0])
    return report.HostReport(
        index, state, pods=pod_names, node=pods[0].spec.node_name or "", since=pods[0].created
    )


def _state(pod: LivePod) -> report.HostState:
    if pod.ended:
        return "failed"
    if is_ready(pod):
        return "ready"
    return "pending" if pod.unscheduled else "starting"
