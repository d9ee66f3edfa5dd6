"""The incremental report: only RayClusters whose report may have changed are examined again, and of
these only the replicas that have changed.
"""

from collections.abc import Callable, Iterator, Mapping
from math import inf
from typing import Final, NamedTuple

from webhook.diagnostics import report
from webhook.diagnostics.assigned_pods import AssignedCluster, AssignedReplica, assign
from webhook.diagnostics.diagnosis import Problem
from webhook.diagnostics.examination import (
    ReplicaProblems,
    find_again,
    installation_problems,
    owner_problems,
    report_of,
)
from webhook.groups.group_config import RayClusterConfig
from webhook.objects.live_objects import LivePod
from webhook.objects.object_cache import ObjectCache

RESTLESS_SECONDS: Final = 5.0
"""Interval for RayClusters whose report may change with time alone."""
QUIET_SECONDS: Final = 900.0
"""Interval for all others, in addition to changes of their objects and pending symptoms."""

INSTALLATION: Final = ""
"""Stands in for the uid of a RayCluster in what is due, and in failures."""

_NOTHING: Final[Mapping[str, str]] = {}

_Memory = dict[tuple[str, int, str], tuple[tuple[object, ...], ReplicaProblems]]
"""The problems of replicas, and the immutable objects that they were computed from, by group, index
and name.
"""


class Failure(NamedTuple):
    """An exception of an examination, which is a bug because examinations do no I/O. `new`: it did
    not occur in the previous examination of the same RayCluster.
    """

    name: str
    """The RayCluster, for the log."""
    error: Exception
    new: bool


def examine(
    objects: ObjectCache, now: float, unread: Mapping[str, str] = _NOTHING
) -> report.ClusterReport:
    """Return the report of all RayClusters as of `now`, in seconds since the epoch. `unread` has
    the resources that could not be read, with the reason.
    """
    examiner = Examiner(objects)
    examiner.catch_up(now)
    return examiner.cluster_report(now, unread)


class Examiner:
    """Maintains `clusters`, reports by RayCluster uid, `problems` of the installation, and
    `owner_problems` of RayJobs and RayServices without a RayCluster.

    `failed` has the types of exceptions, by uid of the RayCluster that cannot be examined.
    """

    def __init__(self, object_cache: ObjectCache) -> None:
        self.object_cache = object_cache
        object_cache.begin()
        self.clusters: dict[str, report.RayClusterReport] = {}
        self.problems: tuple[Problem, ...] = ()
        self.owner_problems: tuple[Problem, ...] = ()
        self.failed: dict[str, str] = {}
        self._failures: list[Failure] = []
        self._next: dict[str, float] = {}
        self._memories: dict[str, tuple[tuple[RayClusterConfig, float | None], _Memory]] = {}
        """By uid, with the configuration of the RayCluster and the time of its last edit."""

    def due(self, now: float) -> list[str]:
        """Return the uids of the RayClusters to examine, including deleted ones."""
        late = [uid for uid, due in self._next.items() if now >= due]
        return list(dict.fromkeys((*self.object_cache.take_changed(), *late)))

    def examine_installation(self, now: float) -> None:
        """Examine the installation, if it may have changed, and what belongs to no RayCluster."""
        self.owner_problems = ()
        self.owner_problems = owner_problems(self.object_cache, now)
        if self.object_cache.installation:
            self.problems = ()
            self.problems = installation_problems(self.object_cache)
            self.object_cache.installation = False

    def examine(self, uid: str, now: float) -> bool:
        """Examine a RayCluster, and return whether its report changed or it was deleted."""
        cluster = self.assigned(uid, now)
        last, old = self._memories.pop(uid, (None, {}))
        if cluster is None:
            self._next.pop(uid, None)
            return self.clusters.pop(uid, None) is not None
        configuration = cluster.cluster_config, cluster.live.metadata.edited
        memory, new = old if last == configuration else {}, {}

        def find(replica: AssignedReplica) -> ReplicaProblems:
            """Memoize `find_again`, most of an examination."""
            key, node = (replica.group.name, replica.index, replica.name), cluster.objects.nodes.one
            pods = replica.every_pod
            reasons: tuple[object, ...] = (*pods, *(node(pod.spec.node_name or "") for pod in pods))
            old_reasons, problems = memory.get(key, ((), None))
            if problems is None or not _identical(old_reasons, reasons):
                problems = find_again(replica)
            new[key] = reasons, problems
            return problems

        cluster_report, due = report_of(cluster, find)
        self._memories[uid] = configuration, new
        return self._show(uid, cluster_report, due, now)

    def catch_up(self, now: float) -> None:
        """Examine all RayClusters that are due."""
        self.examine_installation(now)
        for uid in self.due(now):
            self.examine(uid, now)

    def steps(self, now: float, changed: Callable[[str], None]) -> Iterator[None]:
        """Examine in each step a RayCluster that is due, and at last the installation. `changed`
        receives the uid of each changed report. A failure affects only one RayCluster.
        """
        for uid in (*self.due(now), INSTALLATION):
            try:
                if uid == INSTALLATION:
                    self.examine_installation(now)
                elif self.examine(uid, now):
                    changed(uid)
                self.failed.pop(uid, None)
            except Exception as error:  # noqa: BLE001 - every exception is a bug
                kind, old_kind = type(error).__name__, self.failed.get(uid)
                self.failed[uid] = kind
                self._failures.append(Failure(self._describe_subject(uid), error, kind != old_kind))
                if uid != INSTALLATION and self.fail(uid, kind, now):
                    changed(uid)
            yield

    def fail(self, uid: str, why: str, now: float) -> bool:
        """Replace the report of a RayCluster with the reason why it could not be examined, and
        return whether that changed the report. Previous problems may be outdated.
        """
        live = self.object_cache.clusters.get(uid)
        if live is None:
            return self.examine(uid, now)
        self._memories.pop(uid, None)
        place = live.metadata.namespace or "", live.metadata.name or ""
        head = report.HostReport(0, report.UNKNOWN)
        return self._show(
            uid, report.RayClusterReport(*place, head, (), uid=uid, failure=why), inf, now
        )

    def take_failures(self) -> list[Failure]:
        """Return the failures since the last call."""
        failures, self._failures = self._failures, []
        return failures

    def cluster_report(
        self, now: float, unread: Mapping[str, str], namespace: str = ""
    ) -> report.ClusterReport:
        """Return the report of a namespace, or of all if empty, by namespace and name.

        Problems of the installation are included only in the report of all namespaces.
        """
        clusters = [
            cluster for cluster in self.clusters.values() if namespace in ("", cluster.namespace)
        ]
        clusters.sort(key=lambda cluster: (cluster.namespace, cluster.name))
        problems = self.problems_in(namespace)
        return report.ClusterReport(now, tuple(clusters), problems, dict(unread))

    def problems_in(self, namespace: str) -> tuple[Problem, ...]:
        """Return the problems that belong to no RayCluster, in a namespace or in all."""
        if not namespace:
            return (*self.problems, *self.owner_problems)
        return tuple(problem for problem in self.owner_problems if problem.namespace == namespace)

    def assigned(self, uid: str, now: float) -> AssignedCluster | None:
        """Return a RayCluster with its assigned pods; None if it does not exist."""
        live = self.object_cache.clusters.get(uid)
        return assign(live, self.object_cache, now) if live is not None else None

    def named(self, namespace: str, name: str) -> str:
        """Return the uid of a RayCluster by its name; empty if it does not exist."""
        clusters = self.object_cache.clusters.of(namespace)
        return next(
            (cluster.metadata.uid or "" for cluster in clusters if cluster.metadata.name == name),
            "",
        )

    def owner(self, pod: LivePod) -> str:
        """Return the uid of the RayCluster that controls a pod; empty if it does not exist."""
        cluster = self.object_cache.cluster_of(pod)
        return (cluster.metadata.uid or "") if cluster is not None else ""

    def pod(self, namespace: str, name: str) -> LivePod | None:
        """Return a Ray pod; None if it does not exist."""
        for pod in self.object_cache.pods.all:
            if (pod.metadata.namespace, pod.metadata.name) == (namespace, name):
                return pod
        return None

    def _describe_subject(self, uid: str) -> str:
        live = self.object_cache.clusters.get(uid)
        if live is not None:
            return f"RayCluster {live.metadata.namespace}/{live.metadata.name}"
        return f"RayCluster {uid}" if uid else "the installation"

    def _show(
        self, uid: str, cluster_report: report.RayClusterReport, due: float, now: float
    ) -> bool:
        seconds = RESTLESS_SECONDS if _restless(cluster_report) else QUIET_SECONDS
        self._next[uid] = min(due, now + seconds)
        if self.clusters.get(uid) == cluster_report:
            return False
        self.clusters[uid] = cluster_report
        return True


def _identical(old: tuple[object, ...], new: tuple[object, ...]) -> bool:
    return len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True))


def _restless(cluster: report.RayClusterReport) -> bool:
    """Return whether the report of a RayCluster changes with time other than by pending symptoms:
    it could not be examined, or a pod is terminating.
    """
    return bool(cluster.failure or cluster.terminating)
