"""The desired Workload and PodGroups of a RayCluster, from its configuration and the taken
identities.

https://kubernetes.io/docs/concepts/scheduling-eviction/workload-aware-scheduling/
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from webhook.api.objects import WorkerGroup
from webhook.groups import annotations, scheduling_groups
from webhook.groups.group_config import RayClusterConfig
from webhook.groups.identity import GroupKey
from webhook.groups.identity_index import Membership

TEMPLATES_MAX: Final = 8
"""Maximum templates of a Workload."""

BASIC: Final = 0
"""The minimum count of a PodGroup whose pods may be scheduled individually."""

_COUNT_MAX: Final = (1 << 31) - 1

Occupied = dict[str, frozenset[str]]
"""By worker group, in the order of the spec, the names of replicas with a taken identity."""


class WorkloadTemplate(Struct, frozen=True, gc=False):
    """A template of a Workload."""

    name: str
    min_count: int


class Workload(Struct, frozen=True, gc=False):
    """A Workload. The API server requires the same priority for all its templates."""

    name: str
    priority_class: str
    templates: tuple[WorkloadTemplate, ...]


class PodGroup(Struct, frozen=True, gc=False):
    """A PodGroup with at least `min_count` pods, or BASIC, and the name of its template.

    The pods of a `replica` are preempted together, and are scheduled within one value of the node
    label `topology_key`, if it is set.
    """

    name: str
    template: str
    min_count: int
    priority_class: str
    replica: bool = False
    topology_key: str = ""


class Desired(Struct, frozen=True, gc=False):
    """The desired objects of the RayCluster with a uid. Without a Workload, PodGroups have no
    template.
    """

    uid: str
    workload: Workload | None = None
    pod_groups: tuple[PodGroup, ...] = ()
    live: frozenset[str] = frozenset()
    """PodGroups with observed worker pods."""
    heads: frozenset[str] = frozenset()
    """PodGroups of the head, whose existence is not checked here."""


class _TemplateGroups(Struct, gc=False):
    """The desired PodGroups of a template, and those of them with observed pods."""

    template: WorkloadTemplate
    priority_class: str
    pod_groups: list[str]
    live: bool
    head: bool = False
    replica: bool = False


def list_replica_names(cluster_config: RayClusterConfig, members: Membership) -> Occupied:
    """Return the taken identities as far as desired objects depend on them: cheap to compute and to
    compare.
    """
    namespace, uid = cluster_config.namespace, cluster_config.uid
    return {
        name: members.group(GroupKey(namespace, uid, name)).replica_names
        for name in cluster_config.groups
    }


def build_desired(cluster_config: RayClusterConfig, taken: Occupied) -> Desired:
    """Return the desired objects: none without active gang scheduling, and no PodGroups while the
    RayCluster is suspended.
    """
    if not cluster_config.gang.active:
        return Desired(cluster_config.uid)
    kinds = list(_KINDS[cluster_config.gang.granularity](cluster_config, taken))
    workload = _workload(cluster_config.name, kinds)
    # PodGroups that are being deleted may still refer to the Workload.
    if cluster_config.suspended:
        return Desired(cluster_config.uid, workload)
    return Desired(
        cluster_config.uid,
        workload,
        pod_groups=tuple(
            [
                PodGroup(
                    name,
                    kind.template.name,
                    min_count=kind.template.min_count,
                    priority_class=kind.priority_class,
                    replica=kind.replica,
                    topology_key=_topology_key(cluster_config) if kind.replica else "",
                )
                for kind in kinds
                for name in kind.pod_groups
            ]
        ),
        live=frozenset(name for kind in kinds if kind.live for name in kind.pod_groups),
        heads=frozenset(name for kind in kinds if kind.head for name in kind.pod_groups),
    )


def _workload(cluster: str, kinds: list[_TemplateGroups]) -> Workload | None:
    """Return the Workload with a template for each kind, or None if it cannot have that many."""
    priorities = {kind.priority_class for kind in kinds}
    if len(priorities) != 1 or len(kinds) > TEMPLATES_MAX:
        return None
    return Workload(
        scheduling_groups.workload_name(cluster),
        priorities.pop(),
        tuple([kind.template for kind in kinds]),
    )


def _whole(cluster_config: RayClusterConfig, taken: Occupied) -> Iterator[_TemplateGroups]:
    count = _clamp_count(1 + sum(_pods(group) for group in cluster_config.groups.values()))
    template = WorkloadTemplate(scheduling_groups.CLUSTER_TEMPLATE, count)
    yield _TemplateGroups(
        template,
        _head_priority(cluster_config),
        [scheduling_groups.cluster_pod_group(cluster_config.name)],
        any(taken.values()),
        head=True,
    )


def _by_group(cluster_config: RayClusterConfig, taken: Occupied) -> Iterator[_TemplateGroups]:
    """Yield the head, and each worker group; a group without pods has a template, but no
    PodGroup.
    """
    yield _TemplateGroups(
        WorkloadTemplate(scheduling_groups.HEAD_TEMPLATE, BASIC),
        _head_priority(cluster_config),
        [scheduling_groups.head_pod_group(cluster_config.name)],
        live=False,
        head=True,
    )
    for name, group in cluster_config.groups.items():
        yield _group(cluster_config, name, group, taken[name])


def _group(
    cluster_config: RayClusterConfig, name: str, group: WorkerGroup, replicas: frozenset[str]
) -> _TemplateGroups:
    """Return the kind of a worker group whose pods are scheduled together. With autoscaling, the
    minimum number of pods is scheduled together, and later pods individually.
    """
    count = _clamp_count(_pods(group))
    least = count
    if cluster_config.autoscaling and count:
        least = (
            _clamp_count(min(group.min_replicas or 0, group.desired) * group.num_of_hosts) or BASIC
        )
    return _TemplateGroups(
        # A template cannot change between basic and gang, and the minimum of a gang is 1.
        WorkloadTemplate(scheduling_groups.template_name(name), least if count else 1),
        _priority(group),
        [scheduling_groups.group_pod_group(cluster_config.name, name)] if count else [],
        bool(replicas),
    )


def _by_replica(cluster_config: RayClusterConfig, taken: Occupied) -> Iterator[_TemplateGroups]:
    """Yield each multi-host group, with a PodGroup for each replica with a taken identity."""
    for name, group in cluster_config.groups.items():
        if group.num_of_hosts > 1:
            template = WorkloadTemplate(
                scheduling_groups.template_name(name), _clamp_count(group.num_of_hosts)
            )
            named = [
                scheduling_groups.replica_pod_group(cluster_config.name, name, replica)
                for replica in sorted(taken[name])
                if replica
            ]
            yield _TemplateGroups(template, _priority(group), named, live=True, replica=True)


_KINDS: Final = {
    annotations.CLUSTER: _whole,
    annotations.WORKER_GROUP: _by_group,
    annotations.REPLICA: _by_replica,
}


def _topology_key(cluster_config: RayClusterConfig) -> str:
    """Return the node label that the RayCluster requests, or an empty text."""
    key = cluster_config.topology_key
    return "" if annotations.TOPOLOGY_KEY.problem(key) else key


def _pods(group: WorkerGroup) -> int:
    # The CRD has no minimum for numOfHosts.
    return group.desired * max(group.num_of_hosts, 0)


def _clamp_count(count: int) -> int:
    return max(0, min(count, _COUNT_MAX))


def _priority(group: WorkerGroup) -> str:
    return group.template.spec.priority_class_name


def _head_priority(cluster_config: RayClusterConfig) -> str:
    return cluster_config.head.template.spec.priority_class_name
