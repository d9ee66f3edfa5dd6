"""Assigned pods: the pods of each RayCluster, by group, replica and host."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final

from msgspec import DecodeError, Struct

from webhook.accelerators.devices import count_chips
from webhook.api import names
from webhook.api.objects import WorkerGroup
from webhook.api.review import Denied
from webhook.diagnostics.diagnosis import latest
from webhook.groups.group_config import RayClusterConfig, read_cluster_config
from webhook.groups.identity import MAX_HOSTS, HostIdentity
from webhook.groups.identity_labels import identity_of
from webhook.objects.live_objects import LiveCluster, LivePod
from webhook.objects.object_cache import ObjectCache

_REMOVED: Final = (
    "its labels were removed; its replica index stays reserved while it exists: add them again"
)
"""Shown for a pod without identity labels that was admitted with an identity."""


class AssignedReplica(Struct):
    """The live pods of one replica, by host. `name` is empty if their labels have none."""

    group: "AssignedGroup"
    index: int
    name: str
    pods: dict[int, list[LivePod]]

    @property
    def every_pod(self) -> list[LivePod]:
        """All pods, ordered by host."""
        return [pod for host in sorted(self.pods) for pod in self.pods[host]]

    @property
    def missing(self) -> list[int]:
        """The hosts without a pod."""
        return [host for host in range(self.group.hosts) if host not in self.pods]

    @property
    def newest(self) -> float | None:
        """Creation time of the newest pod."""
        return newest(self.every_pod)

    @property
    def called(self) -> str:
        """Its index and name, for a message."""
        return f"{self.index} ({self.name})" if self.name else f"{self.index}"


class WithoutIdentity(Struct, frozen=True):
    """A live pod without an identity, and what is wrong with its identity labels, if it has any."""

    pod: LivePod
    why: str


class AssignedGroup(Struct, dict=True):
    """One worker group. `replicas` does not contain missing replicas. `terminating` has the pods
    that are being deleted, with their identities.
    """

    cluster: "AssignedCluster"
    spec: WorkerGroup
    replicas: list[AssignedReplica] = []
    without_identity: list[WithoutIdentity] = []
    terminating: list[tuple[HostIdentity, LivePod]] = []

    @cached_property
    def deleted(self) -> dict[tuple[int, str], dict[int, float | None]]:
        """The times of the deletion requests of the pods that are being deleted, by replica and
        host.
        """
        times_by_replica: dict[tuple[int, str], dict[int, float | None]] = {}
        for identity, pod in self.terminating:
            hosts = times_by_replica.setdefault((identity.replica, identity.name), {})
            hosts[identity.host] = pod.metadata.deleted
        return times_by_replica

    @property
    def name(self) -> str:
        return self.spec.group_name

    @property
    def hosts(self) -> int:
        """Number of hosts of a replica, at most MAX_HOSTS."""
        return min(self.spec.num_of_hosts, MAX_HOSTS)

    @property
    def desired(self) -> int:
        cluster_config = self.cluster.cluster_config
        # The pods of both are deleted, so none is missing.
        return 0 if cluster_config.suspended or cluster_config.deleting else self.spec.desired

    @property
    def lost(self) -> list[WithoutIdentity]:
        """The pods without an identity that need one: those of multi-host replicas and of TPU
        slices.
        """
        return [
            unidentified_pod
            for unidentified_pod in self.without_identity
            if self.spec.num_of_hosts > 1 or asks_for_tpu(unidentified_pod.pod)
        ]

    @property
    def pods(self) -> Iterator[LivePod]:
        """All live pods of the group."""
        for replica in self.replicas:
            yield from replica.every_pod
        yield from (unidentified_pod.pod for unidentified_pod in self.without_identity)


class AssignedCluster(Struct):
    """One RayCluster as of `now`, in seconds since the epoch, with its live pods; `terminating` has
    those that are being deleted.
    """

    live: LiveCluster
    cluster_config: RayClusterConfig
    objects: ObjectCache
    now: float
    heads: list[LivePod] = []
    groups: list[AssignedGroup] = []
    without_group: list[LivePod] = []
    terminating: list[LivePod] = []
    slices: int | None = None
    """The number of slices of its job over several TPU slices, once counted."""
    _ends: dict[str, list[float]] = {}

    def ends(self, name: str) -> list[float]:
        """Return the result of `ObjectCache.ends` in its namespace, cached for all replicas."""
        if name not in self._ends:
            self._ends[name] = self.objects.ends(self.namespace, name)
        return self._ends[name]

    @property
    def namespace(self) -> str:
        return self.cluster_config.namespace

    @property
    def name(self) -> str:
        return self.cluster_config.name

    @property
    def ignored_by(self) -> tuple[str, str]:
        """Kind and name of the object for which the webhook ignores the RayCluster: itself or its
        namespace, by a label, or the configuration that does not select the namespace; or empty.
        """
        namespace = self.objects.namespaces.one(self.namespace)
        if self.cluster_config.ignored:
            return "RayCluster", self.name
        if namespace is not None and namespace.label(names.LABEL_IGNORE) == "true":
            return "namespace", self.namespace
        passed = self.objects.passed_by(self.namespace)
        return ("mutatingwebhookconfiguration" if passed else "", passed)

    @property
    def ignored(self) -> bool:
        """Return whether the webhook ignores the RayCluster."""
        return self.ignored_by != ("", "")

    @property
    def pods(self) -> Iterator[LivePod]:
        """All live workers."""
        for group in self.groups:
            yield from group.pods


def assign(live: LiveCluster, objects: ObjectCache, now: float) -> AssignedCluster:
    """Return a RayCluster with its assigned pods."""
    cluster = AssignedCluster(
        live, read_cluster_config(live, ignoring=objects.ignoring), objects, now
    )
    groups = {
        name: AssignedGroup(cluster, spec) for name, spec in cluster.cluster_config.groups.items()
    }
    cluster.groups = list(groups.values())
    replicas: dict[tuple[str, int, str], AssignedReplica] = {}
    for pod in objects.pods_of(live):
        group = groups.get(pod.labels.get(names.LABEL_GROUP, ""))
        identity, why = _identity(pod, group) if group is not None else (None, "")
        # A terminating pod frees its identity, and its successor may exist already.
        if pod.is_terminating:
            cluster.terminating.append(pod)
            if group is not None and identity is not None:
                group.terminating.append((identity, pod))
        elif is_head(pod):
            cluster.heads.append(pod)
        elif group is None:
            cluster.without_group.append(pod)
        elif identity is None:
            group.without_identity.append(WithoutIdentity(pod, why))
        else:
            replica = replicas.get((group.name, identity.replica, identity.name))
            if replica is None:
                replica = AssignedReplica(group, identity.replica, identity.name, {})
                replicas[group.name, identity.replica, identity.name] = replica
                group.replicas.append(replica)
            replica.pods.setdefault(identity.host, []).append(pod)
    for group in cluster.groups:
        # KubeRay reuses an index while pods of the old replica are terminating: two may have it.
        group.replicas.sort(key=lambda each: (each.index, each.newest or 0.0, each.name))
    return cluster


def is_head(pod: LivePod) -> bool:
    """Return whether a pod is the head of its RayCluster."""
    return pod.labels.get(names.LABEL_NODE_TYPE) == names.NODE_TYPE_HEAD


def newest(pods: Iterable[LivePod]) -> float | None:
    """Return the creation time of the newest pod."""
    return latest(pod.created for pod in pods)


def _identity(pod: LivePod, group: AssignedGroup) -> tuple[HostIdentity | None, str]:
    """Return the identity of a pod, or what is wrong with its identity labels, if it has any."""
    try:
        identity = identity_of(group.name, pod.labels, lambda: pod.spec, group.spec.num_of_hosts)
    except (Denied, DecodeError, UnicodeDecodeError) as denied:
        return None, str(denied)
    # Anyone who may patch the pod can remove its labels; the annotation shows that it had some.
    removed = identity is None and names.ANNOTATION_HOLDER in pod.annotations
    return identity, _REMOVED if removed else ""


def asks_for_tpu(pod: LivePod) -> bool:
    """Return whether a pod requests TPUs."""
    containers = (*(pod.spec.containers or ()), *(pod.spec.init_containers or ()))
    return any(count_chips(container) for container in containers)
