"""The mutators in order, and all their edits.

See docs/contributing/decisions/0012-workers-need-their-owner.md.
"""

from collections.abc import Callable
from typing import Final

from webhook.api import names
from webhook.groups.annotations import COMPUTE_DOMAIN, SCHEDULING_GROUP, SHARD_GROUP
from webhook.groups.group_config import RayClusterConfig
from webhook.mutation import (
    affinity,
    drain,
    imex_claims,
    labels,
    locality,
    megascale,
    network,
    rendezvous,
    resize_policy,
    scheduling_group,
    shard_variables,
    tpu,
)
from webhook.mutation.edit import Edit
from webhook.mutation.policy import Policy
from webhook.mutation.ray_pod import Replica, Worker

REPLICA: Final[tuple[Callable[[Replica], list[Edit]], ...]] = (
    labels.replica_edits,
    network.replica_edits,
    tpu.replica_edits,
    megascale.replica_edits,
    rendezvous.replica_edits,
    shard_variables.replica_edits,
    affinity.replica_edits,
    imex_claims.replica_edits,
    scheduling_group.replica_edits,
    resize_policy.replica_edits,
    drain.replica_edits,
    locality.replica_edits,
)
"""Mutators whose edits are the same for all hosts of a replica."""

HEAD: Final[tuple[Callable[[Replica], list[Edit]], ...]] = (
    shard_variables.replica_edits,
    imex_claims.replica_edits,
    scheduling_group.replica_edits,
    resize_policy.replica_edits,
    locality.replica_edits,
)
"""Mutators of the head of a RayCluster."""

HEAD_ASKED: Final = (
    SHARD_GROUP.annotation,
    SCHEDULING_GROUP.annotation,
    COMPUTE_DOMAIN.annotation,
    names.ANNOTATION_IPPR,
)
"""The annotations of a RayCluster that have edits of its head. Zone and region, and the resize
policy for all pods, are settings.
"""


def head_receives(cluster: RayClusterConfig, policy: Policy) -> bool:
    """Return whether heads of a RayCluster can have edits, so that they have to be decoded."""
    return bool(
        cluster.shard_group
        or cluster.gang.granularity
        or cluster.domains.head
        or names.HEAD_GROUP in cluster.resizable
        or policy.zones
        or policy.resize == "all"
    )


HOST: Final[tuple[Callable[[Worker], list[Edit]], ...]] = (
    labels.host_edits,
    network.host_edits,
    tpu.host_edits,
    rendezvous.host_edits,
    locality.host_edits,
)
"""Mutators whose edits depend on the host."""


def host_edits(worker: Worker) -> list[Edit]:
    """Return the edits of a pod that precede those of its replica."""
    return [] if worker.replica.head else [edit for mutator in HOST for edit in mutator(worker)]


def replica_edits(replica: Replica) -> list[Edit]:
    """Return the edits of every pod of a replica."""
    return [edit for mutator in (HEAD if replica.head else REPLICA) for edit in mutator(replica)]
