"""The picture: RayClusters, their groups, replicas and hosts, and what is wrong with them."""

from typing import Final, Literal

from msgspec import Struct

from webhook.diagnostics.diagnosis import ERROR, Trouble

HostState = Literal["ready", "starting", "pending", "failed", "missing", "twice", "unknown"]

READY: Final = "ready"
STARTING: Final = "starting"
PENDING: Final = "pending"
FAILED: Final = "failed"
MISSING: Final = "missing"
TWICE: Final = "twice"
UNKNOWN: Final = "unknown"
"""Of the head of a RayCluster that could not be examined."""

COMPLETE: Final = "complete"
COMING: Final = "coming"
WAITS: Final = "waits"
GONE: Final = "missing"
LEAVING: Final = "leaving"
ReplicaState = Literal["complete", "coming", "waits", "missing", "leaving"]


class Host(Struct, frozen=True, omit_defaults=True):
    """A host: its state, its pod (or all that hold its seat), its node, when the
    pod was created.
    """

    index: int
    state: HostState
    pods: tuple[str, ...] = ()
    node: str = ""
    since: float | None = None


class Replica(Struct, frozen=True, omit_defaults=True):
    """A replica. One that should be there and is not has no index.

    `complete`: all hosts are ready. `coming`: nothing is wrong yet. `waits`: something is.
    `leaving`: its RayCluster is being deleted.
    """

    index: int | None
    name: str
    state: ReplicaState
    hosts: tuple[Host, ...]
    since: float | None = None

    @property
    def ready(self) -> int:
        """How many hosts are ready."""
        return sum(host.state == READY for host in self.hosts)


class Group(Struct, frozen=True, omit_defaults=True):
    """A worker group. `unseated` are the pods without a seat. `unit`: its replicas are one job."""

    name: str
    hosts: int
    desired: int
    replicas: tuple[Replica, ...]
    unseated: tuple[str, ...] = ()
    unit: bool = False

    @property
    def every_host(self) -> tuple[Host, ...]:
        """The hosts of all its replicas."""
        return tuple(host for replica in self.replicas for host in replica.hosts)


class PodGroup(Struct, frozen=True, omit_defaults=True):
    """A PodGroup that pods of a RayCluster name: `pods` of them, of which `needed` have to be
    placed at once. `waits` says whether one of them has no node.
    """

    name: str
    pods: int
    needed: int = 0
    missing: bool = False
    waits: bool = False


class Cluster(Struct, rename="camel", frozen=True, omit_defaults=True):
    """A RayCluster. The head is a group of one replica of one host.

    `failure` says why it could not be examined: of what type a bug of ours is. Nothing else is
    known of it then. `owner` is the RayJob or RayService that created it, such as `RayJob/train`;
    `queue` the queue of Kueue that it is in.
    """

    namespace: str
    name: str
    head: Host
    groups: tuple[Group, ...]
    troubles: tuple[Trouble, ...] = ()
    suspended: bool = False
    leaving: int = 0
    pod_groups: tuple[PodGroup, ...] = ()
    uid: str = ""
    deleting: bool = False
    failure: str = ""
    owner: str = ""
    created: float | None = None
    ray_version: str = ""
    queue: str = ""

    def pod_at(self, group: str, replica: int, host: int) -> str:
        """Return the pod of a host, or nothing."""
        replicas = (each for found in self.groups if found.name == group for each in found.replicas)
        hosts = (each for found in replicas if found.index == replica for each in found.hosts)
        return next((each.pods[0] for each in hosts if each.index == host and each.pods), "")

    @property
    def waits(self) -> bool:
        """Return whether something is wrong with it, or may be: it could not be examined."""
        return (
            bool(self.failure)
            or any(trouble.level == ERROR for trouble in self.troubles)
            or any(
                replica.state in (WAITS, GONE)
                for group in self.groups
                for replica in group.replicas
            )
        )


class ClusterReport(Struct, frozen=True, omit_defaults=True):
    """All that was looked at, `now`.

    `troubles` are those that are no RayCluster's; `unread` says what could not be looked at.
    """

    now: float
    clusters: tuple[Cluster, ...]
    troubles: tuple[Trouble, ...] = ()
    unread: dict[str, str] = {}

    @property
    def every_trouble(self) -> list[Trouble]:
        """All troubles, the worst first."""
        found = [
            *self.troubles,
            *(trouble for cluster in self.clusters for trouble in cluster.troubles),
        ]
        return sorted(found, key=lambda trouble: trouble.rank)

    @property
    def waits(self) -> bool:
        """Return whether something is wrong."""
        return any(trouble.level == ERROR for trouble in self.troubles) or any(
            cluster.waits for cluster in self.clusters
        )
