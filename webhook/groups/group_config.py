"""The configuration of each RayCluster: its worker groups and the opt-ins that pods do not
carry.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct, structs

from webhook.accelerators.devices import TPU, may_request
from webhook.api import names
from webhook.api.objects import (
    GROUPS_MAX,
    RAYCLUSTER_BYTES_MAX,
    EnvVar,
    HeadGroup,
    RayCluster,
    Strings,
    Template,
    WorkerGroup,
)
from webhook.groups.annotations import (
    DRAIN_SECONDS,
    KEEP_NODES,
    MAX_DISRUPTED,
    NODE_LABELS,
    PROFILES,
    REPAIR,
    REPLICA_LABEL,
    RESTART,
    SHARD_COUNT,
    SHARD_GROUP,
    SHARD_INDEX,
    TOPOLOGY_KEY,
    NodeLabel,
    read_budget,
    read_pairs,
)
from webhook.groups.compute_domains import NO_DOMAINS, Domains, read_domains
from webhook.groups.identity import GroupKey, ShardKey
from webhook.groups.ippr import Maxima, read_ippr
from webhook.groups.kueue import NO_KUEUE, Kueue, read_kueue
from webhook.groups.scheduling_groups import NO_GANG, Gang, read_gang
from webhook.groups.slice_jobs import (
    UNKNOWN_ID,
    SliceGroup,
    SliceJob,
    slice_group,
    slice_jobs,
)

_HEAD: HeadGroup = HeadGroup()


class RayClusterConfig(Struct, frozen=True, weakref=True, dict=True):
    """The fields of a RayCluster that identity assignment and mutation need."""

    namespace: str
    name: str
    uid: str
    groups: dict[str, WorkerGroup]
    ignored: bool = False
    deleting: bool = False
    topology_key: str = ""
    profiles: tuple[str, ...] = ()
    """The names in the annotation."""
    head: HeadGroup = _HEAD
    suspended: bool = False
    gang: Gang = NO_GANG
    domains: Domains = NO_DOMAINS
    node_labels: tuple[NodeLabel, ...] = ()
    resizable: dict[str, Maxima] = {}
    shard_group: str = ""
    shard_index: str = ""
    shard_count: str = ""
    kueue: Kueue = NO_KUEUE
    drain_seconds: str = ""
    max_disrupted: int | None = None
    """The disruption budget; None without a valid annotation."""
    ray_version: str = ""
    replica_label: bool = False
    repair: bool = False
    restart: bool = False
    slice_groups: tuple[SliceGroup, ...] = ()
    autoscaling: bool = False
    keep_nodes: str = ""
    gcs_fault_tolerant: bool = False
    unread_bytes: int = 0
    """The size of a RayCluster that is too large to be read, whose groups are unknown."""

    @property
    def unmanaged(self) -> bool:
        """Return whether its objects are left as they are: it is ignored, or cannot be read."""
        return self.ignored or bool(self.unread_bytes)

    @cached_property
    def slices(self) -> Mapping[str, SliceJob]:
        """Return the parts of worker groups in jobs that span several groups."""
        return slice_jobs(self.slice_groups)  # not at an event: a user may write 1,000 groups

    @property
    def multi_host(self) -> bool:
        """Return whether any group has several hosts per replica, the condition on which KubeRay
        creates the headless service.
        """
        return any(group.num_of_hosts > 1 for group in self.groups.values())


def read_cluster_config(cluster: RayCluster, *, ignoring: bool = True) -> RayClusterConfig:
    """Return the configuration of a RayCluster. The first of several groups with the same name
    counts, as in KubeRay. With `ignoring`, the `ignore` label is honoured.
    """
    groups: dict[str, WorkerGroup] = {}
    slices: list[SliceGroup] = []
    meta = cluster.metadata
    annotations = meta.annotations or {}
    read_groups = cluster.groups[:GROUPS_MAX]
    for group in read_groups:
        if group.group_name not in groups:
            if (tpu_group := _slice_group(group)) is not None:
                slices.append(tpu_group)
            groups[group.group_name] = structs.replace(
                group, template=_drop_containers(group.template)
            )
    return RayClusterConfig(
        namespace=meta.namespace or "default",
        name=meta.name or "",
        uid=meta.uid or "",
        groups=groups,
        ignored=ignoring and is_ignored(meta.labels),
        deleting=meta.deletion_timestamp is not None,
        topology_key=TOPOLOGY_KEY.read(annotations),
        profiles=PROFILES.read(annotations),
        head=HeadGroup(_drop_containers(cluster.spec.head_group_spec.template)),
        suspended=bool(cluster.spec.suspend),
        gang=read_gang(
            annotations,
            meta.labels or {},
            [
                cluster.spec.head_group_spec.template.spec,
                *(group.template.spec for group in read_groups),
            ],
            autoscaling=bool(cluster.spec.enable_in_tree_autoscaling),
        ),
        domains=read_domains(cluster),
        node_labels=tuple(read_pairs(NODE_LABELS.read(annotations))),
        resizable=read_ippr(annotations.get(names.ANNOTATION_IPPR, "")),
        shard_group=SHARD_GROUP.read(annotations),
        shard_count=SHARD_COUNT.read(annotations),
        shard_index=SHARD_INDEX.read(annotations),
        kueue=read_kueue(meta.labels or {}),
        drain_seconds=DRAIN_SECONDS.read(annotations),
        max_disrupted=read_budget(MAX_DISRUPTED.read(annotations)),
        repair=REPAIR.read(annotations) == "true",
        restart=RESTART.read(annotations) == names.RESTART_REPLICA,
        replica_label=REPLICA_LABEL.read(annotations) == "true",
        ray_version=cluster.spec.ray_version or "",
        slice_groups=tuple(slices),
        autoscaling=bool(cluster.spec.enable_in_tree_autoscaling),
        keep_nodes=KEEP_NODES.read(annotations),
        gcs_fault_tolerant=cluster.spec.gcs_fault_tolerance_options is not None
        # The annotation is the way of KubeRay before 1.3, and is still read.
        or annotations.get(names.ANNOTATION_FT_ENABLED, "").lower() == "true",
        unread_bytes=cluster.unread_bytes,
    )


def _drop_containers(template: Template) -> Template:
    """Return a template without its containers and claims, which are read once."""
    spec = template.spec
    if not (spec.containers or spec.init_containers or spec.resource_claims):
        return template
    return Template(
        structs.replace(spec, containers=None, init_containers=None, resource_claims=None)
    )


def _slice_group(group: WorkerGroup) -> SliceGroup | None:
    """Return a worker group of TPUs. Its template may have thousands of containers."""
    containers = group.template.spec.containers or ()
    variables = [_slice_variables(container.env) for container in containers if container.env]
    if not variables:
        return None
    slices = slice_group(group.group_name, variables, group.desired)
    for container in containers if slices is not None else ():
        if may_request(TPU, container.resources):
            return slices
    return None


def _slice_variables(env: Sequence[EnvVar]) -> tuple[str, str]:
    """Return the number of slices and the slice id of a container, empty if it has none."""
    number = slice_id = ""
    for entry in env:
        if entry.name == names.MEGASCALE_NUM_SLICES:
            number = UNKNOWN_ID if entry.value_from is not None else entry.value or ""
        elif entry.name == names.MEGASCALE_SLICE_ID:
            slice_id = UNKNOWN_ID if entry.value_from is not None else entry.value or ""
    return number, slice_id


def too_large(size: int, maximum: int = RAYCLUSTER_BYTES_MAX) -> str:
    """Return the problem of a RayCluster of more bytes than the maximum, after its name."""
    return (
        f"has {size >> 10} KiB, above the maximum of {maximum >> 10} KiB: use fewer groups or "
        "smaller templates"
    )


def is_ignored(labels: Strings | None) -> bool:
    """Return whether the labels of a RayCluster exempt it from the webhook."""
    return (labels or {}).get(names.LABEL_IGNORE) == "true"


class ClusterIndex:
    """RayClusters by namespace and name.

    Without `ignoring`, the `ignore` label has no effect.
    """

    def __init__(self, *, ignoring: bool = True) -> None:
        self._ignoring = ignoring
        self._clusters: dict[tuple[str, str], RayClusterConfig] = {}
        self._by_uid: dict[str, RayClusterConfig] = {}
        self.freshness: Callable[[str, str], bool] | None = None
        """The implementation of `fresh` if a watch updates the index."""

    def __len__(self) -> int:
        return len(self._clusters)

    def __iter__(self) -> Iterator[RayClusterConfig]:
        """Iterate over all RayClusters, unordered; the index must not change during the
        iteration.
        """
        return iter(self._clusters.values())

    def put(self, cluster_config: RayClusterConfig) -> None:
        """Add a RayCluster, or replace the one with the same name.

        An equal configuration keeps the same object, so that values derived from it remain valid
        when only the status changes.
        """
        if cluster_config.ignored and not self._ignoring:
            cluster_config = structs.replace(cluster_config, ignored=False)
        key = cluster_config.namespace, cluster_config.name
        old = self._clusters.get(key)
        if old != cluster_config:
            if old is not None:
                self._by_uid.pop(old.uid, None)
            self._clusters[key] = self._by_uid[cluster_config.uid] = cluster_config

    def remove(self, namespace: str, name: str, uid: str) -> None:
        """Remove a RayCluster, unless another one has the same name by now."""
        cluster_config = self._clusters.get((namespace, name))
        if cluster_config is not None and cluster_config.uid == uid:
            del self._clusters[namespace, name]
            self._by_uid.pop(uid, None)

    @property
    def watched(self) -> bool:
        """Return whether a watch updates the index; without a watch, no newer state is
        available.
        """
        return self.freshness is not None

    def fresh(self, namespace: str, name: str) -> bool:
        """Return whether a RayCluster, or all of a namespace if `name` is empty, are current enough
        for decisions; always true without a watch.
        """
        return self.freshness is None or self.freshness(namespace, name)

    def shards(self, key: ShardKey) -> Iterator[RayClusterConfig]:
        return (
            cluster_config
            for cluster_config in self
            if (cluster_config.namespace, cluster_config.shard_group) == key
        )

    def get(self, namespace: str, name: str) -> RayClusterConfig | None:
        return self._clusters.get((namespace, name))

    def owner(self, key: GroupKey) -> RayClusterConfig | None:
        """Return the RayCluster of a worker group."""
        owner = self._by_uid.get(key.cluster_uid)
        # Anyone can create a pod with the uid of another namespace's RayCluster.
        return owner if owner is not None and owner.namespace == key.namespace else None

    def current(
        self, namespace: str, name: str, uid: str, *, read: bool
    ) -> RayClusterConfig | None:
        """Return the RayCluster of this uid, or None if it has to be read first; it is never too
        old if it was `read` for this decision.
        """
        cluster = self._clusters.get((namespace, name))
        if cluster is None or cluster.uid != uid:
            return None
        return cluster if read or self.fresh(namespace, name) else None
