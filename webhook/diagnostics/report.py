"""The report: RayClusters with their groups, replicas and hosts, and the problems found."""

from collections import Counter
from collections.abc import Iterable
from typing import Final, Literal

from msgspec import Struct

from webhook.diagnostics.diagnosis import ERROR, Problem
from webhook.diagnostics.messages import format_count, format_names, pluralize

HostState = Literal["ready", "starting", "pending", "failed", "missing", "twice", "unknown"]

READY: Final = "ready"
STARTING: Final = "starting"
PENDING: Final = "pending"
FAILED: Final = "failed"
MISSING: Final = "missing"
TWICE: Final = "twice"
UNKNOWN: Final = "unknown"
"""State of the head of a RayCluster that could not be examined."""

COMPLETE: Final = "complete"
CREATING: Final = "creating"
DEGRADED: Final = "degraded"
GONE: Final = "missing"
DELETING: Final = "deleting"
ReplicaState = Literal["complete", "creating", "degraded", "missing", "deleting"]


class HostReport(Struct, frozen=True, omit_defaults=True, gc=False):
    """A host: its state, pods (several if they share its identity), node, and creation time."""

    index: int
    state: HostState
    pods: tuple[str, ...] = ()
    node: str = ""
    since: float | None = None


class ReplicaReport(Struct, frozen=True, omit_defaults=True, gc=False):
    """A replica. A missing replica has no index.

    `complete`: all hosts are ready. `creating`: starting, without problems. `degraded`: has
    problems. `deleting`: its RayCluster is being deleted.
    """

    index: int | None
    name: str
    state: ReplicaState
    hosts: tuple[HostReport, ...]
    since: float | None = None

    @property
    def ready(self) -> int:
        return sum(host.state == READY for host in self.hosts)


class GroupReport(Struct, rename="camel", frozen=True, omit_defaults=True, gc=False):
    """A worker group. `withoutIdentity`: pods without one. `maxDisrupted`: how many replicas
    evictions may disrupt at once. `evictionBlocked`: the complete replicas on cordoned nodes, if
    no more may be disrupted.
    """

    name: str
    hosts: int
    desired: int
    replicas: tuple[ReplicaReport, ...]
    without_identity: tuple[str, ...] = ()
    max_disrupted: int | None = None
    eviction_blocked: tuple[int, ...] = ()

    @property
    def disrupted(self) -> int:
        """Return the number of disrupted replicas."""
        return max(0, self.desired - sum(replica.state == COMPLETE for replica in self.replicas))

    @property
    def disruption(self) -> str:
        """Return how many replicas are disrupted and may be, and which ones on cordoned nodes
        cannot be evicted; an empty text without a budget.
        """
        if self.max_disrupted is None:
            return ""
        summary = f"disruption: {self.disrupted} of {self.max_disrupted}"
        if not self.eviction_blocked:
            return summary
        number = len(self.eviction_blocked)
        indices = format_names([*map(str, self.eviction_blocked)])
        blocked_replicas = pluralize(number, "replica", "replicas")
        return f"{summary}; {blocked_replicas} {indices} on cordoned nodes cannot be evicted yet"

    @property
    def every_host(self) -> tuple[HostReport, ...]:
        return tuple(host for replica in self.replicas for host in replica.hosts)


class PodGroupReport(Struct, frozen=True, omit_defaults=True, gc=False):
    """A PodGroup that pods of a RayCluster refer to: `pods` of them, of which `needed` have to be
    scheduled at once. `unscheduled`: a pod has no node. `reason`: why, by its conditions.
    """

    name: str
    pods: int
    needed: int = 0
    missing: bool = False
    unscheduled: bool = False
    reason: str = ""

    @property
    def summary(self) -> str:
        """Its state in one line."""
        needs = f", needs {self.needed} at once" if self.needed else ""
        if self.missing:
            return f"{self.name}: does not exist, needed by {format_count(self.pods, 'pod')}"
        state = "not scheduled" if self.unscheduled else "scheduled"
        why = f"; {self.reason}" if self.reason else ""
        return f"{self.name}: {state}, {format_count(self.pods, 'pod')}{needs}{why}"


class RayClusterReport(Struct, rename="camel", frozen=True, omit_defaults=True, gc=False):
    """A RayCluster. The head is a group of one replica with one host.

    `failure`: the type of the internal error for which it could not be examined; other fields are
    empty then. `owner`: the RayJob or RayService that created it, such as `RayJob/train`. `queue`:
    its Kueue queue.
    """

    namespace: str
    name: str
    head: HostReport
    groups: tuple[GroupReport, ...]
    problems: tuple[Problem, ...] = ()
    suspended: bool = False
    terminating: int = 0
    pod_groups: tuple[PodGroupReport, ...] = ()
    uid: str = ""
    deleting: bool = False
    failure: str = ""
    owner: str = ""
    created: float | None = None
    ray_version: str = ""
    queue: str = ""

    def pod_at(self, group: str, replica: int, host: int) -> str:
        """Return the name of the pod of a host; empty if there is none."""
        replicas = (
            group_replica
            for worker_group in self.groups
            if worker_group.name == group
            for group_replica in worker_group.replicas
        )
        hosts = (
            replica_host
            for group_replica in replicas
            if group_replica.index == replica
            for replica_host in group_replica.hosts
        )
        return next(
            (
                replica_host.pods[0]
                for replica_host in hosts
                if replica_host.index == host and replica_host.pods
            ),
            "",
        )

    @property
    def is_degraded(self) -> bool:
        """Return whether the RayCluster has a problem or could not be examined."""
        return (
            bool(self.failure)
            or any(problem.level == ERROR for problem in self.problems)
            or any(
                replica.state in (DEGRADED, GONE)
                for group in self.groups
                for replica in group.replicas
            )
        )


def summarize_problems(problems: Iterable[Problem]) -> str:
    """Return the numbers of errors that belong to no RayCluster, as the end of a sentence."""
    places = Counter(bool(problem.namespace) for problem in problems if problem.level == ERROR)
    kinds = ((False, "the installation"), (True, "RayJobs and RayServices"))
    return "".join(
        f"; {format_count(places[owned], 'problem')} of {kind}"
        for owned, kind in kinds
        if places[owned]
    )


class ClusterReport(Struct, frozen=True, omit_defaults=True, gc=False):
    """The report as of `now`, in seconds since the epoch.

    `problems`: problems that belong to no RayCluster, those of the installation without a
    namespace. `unread`: resources that could not be read,
    with the reason.
    """

    now: float
    clusters: tuple[RayClusterReport, ...]
    problems: tuple[Problem, ...] = ()
    unread: dict[str, str] = {}

    @property
    def every_problem(self) -> list[Problem]:
        """All problems, the most severe first."""
        problems = [
            *self.problems,
            *(problem for cluster in self.clusters for problem in cluster.problems),
        ]
        return sorted(problems, key=lambda problem: problem.rank)

    @property
    def is_degraded(self) -> bool:
        """Return whether a problem was found."""
        return any(problem.level == ERROR for problem in self.problems) or any(
            cluster.is_degraded for cluster in self.clusters
        )
