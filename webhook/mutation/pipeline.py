"""The mutators in order, all their edits, and the response for a pod, computed without a cache.

See docs/contributing/decisions/0012-workers-need-their-owner.md and
docs/contributing/decisions/0023-patch-templates-and-other-layers.md.
"""

from collections.abc import Callable
from typing import Final

from webhook.api import names
from webhook.api.review import Answer, Denied
from webhook.groups.annotations import (
    COMPUTE_DOMAIN,
    KEEP_NODES,
    NONE,
    SCHEDULING_GROUP,
    SHARD_GROUP,
)
from webhook.groups.group_config import RayClusterConfig
from webhook.mutation import (
    host_identity,
    pod_lifecycle,
    pod_scheduling,
    rendezvous,
    tpu,
)
from webhook.mutation.edit import Edit, Warn
from webhook.mutation.fold import Operation, encode, fold
from webhook.mutation.preconditions import unmet_preconditions
from webhook.mutation.ray_pod import Policy, Replica, Worker

REPLICA: Final[tuple[Callable[[Replica], list[Edit]], ...]] = (
    host_identity.replica_labels,
    host_identity.subdomain,
    tpu.replica_edits,
    tpu.multi_slice_edits,
    rendezvous.replica_edits,
    rendezvous.shard_edits,
    pod_scheduling.affinity,
    pod_scheduling.compute_domain,
    pod_scheduling.scheduling_group,
    pod_lifecycle.resize_policy,
    pod_lifecycle.drain,
    pod_lifecycle.raise_wait_for_head,
    pod_scheduling.zone_labels,
    pod_lifecycle.keep_node,
)
"""Mutators whose edits are the same for all hosts of a replica."""

HEAD: Final[tuple[Callable[[Replica], list[Edit]], ...]] = (
    rendezvous.shard_edits,
    pod_scheduling.compute_domain,
    pod_scheduling.scheduling_group,
    pod_lifecycle.resize_policy,
    pod_scheduling.zone_labels,
    pod_lifecycle.keep_node,
)
"""Mutators of the head of a RayCluster."""

HEAD_OPT_INS: Final = (
    SHARD_GROUP.annotation,
    SCHEDULING_GROUP.annotation,
    COMPUTE_DOMAIN.annotation,
    KEEP_NODES.annotation,
    names.ANNOTATION_IPPR,
)
"""The annotations of a RayCluster that have edits of its head, beside settings."""


def head_receives(cluster: RayClusterConfig, policy: Policy) -> bool:
    """Return whether heads of a RayCluster can have edits, so that they have to be decoded."""
    return bool(
        cluster.shard_group
        or cluster.gang.granularity
        or cluster.domains.head
        or names.HEAD_GROUP in cluster.resizable
        or policy.zones
        or (cluster.keep_nodes or policy.keep_nodes) != NONE
    )


HOST: Final[tuple[Callable[[Worker], list[Edit]], ...]] = (
    host_identity.host_labels,
    host_identity.hostname,
    tpu.host_edits,
    rendezvous.host_edits,
    pod_scheduling.node_labels,
)
"""Mutators whose edits depend on the host."""


def host_edits(worker: Worker) -> list[Edit]:
    """Return the edits of a pod that precede those of its replica."""
    return [] if worker.replica.head else [edit for mutator in HOST for edit in mutator(worker)]


def replica_edits(replica: Replica) -> list[Edit]:
    """Return the edits of every pod of a replica."""
    return [edit for mutator in (HEAD if replica.head else REPLICA) for edit in mutator(replica)]


def edits(replica: Replica, host: int) -> list[Edit]:
    """Return the edits of a host: its own, then those of all hosts of its replica.

    Raises Denied with every reason why the replica cannot work.
    """
    causes_by_rule = unmet_preconditions(replica)
    if causes_by_rule:
        raise Denied(*causes_by_rule.values(), rules=tuple(causes_by_rule))
    return host_edits(Worker(replica, host)) + replica_edits(replica)


def operations(replica: Replica, host: int) -> list[Operation]:
    """Return the JSON Patch of a host. Raises Denied."""
    return fold(replica, edits(replica, host))


def answer(replica: Replica, host: int) -> Answer:
    """Return the response for a host, without a patch if nothing changes. Raises Denied."""
    pod_edits = edits(replica, host)
    warnings = tuple([edit.text for edit in pod_edits if type(edit) is Warn])
    patch = fold(replica, pod_edits)
    return Answer((), encode(patch) if patch else None, warnings)
