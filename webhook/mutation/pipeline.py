"""The mutators, in order, and the edits they make together.

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
"""What all hosts of a replica receive alike."""

HEAD: Final[tuple[Callable[[Replica], list[Edit]], ...]] = (
    shard_variables.replica_edits,
    imex_claims.replica_edits,
    scheduling_group.replica_edits,
    resize_policy.replica_edits,
    locality.replica_edits,
)
"""What the head of a RayCluster receives."""

HEAD_ASKED: Final = (
    SHARD_GROUP.annotation,
    SCHEDULING_GROUP.annotation,
    COMPUTE_DOMAIN.annotation,
    names.ANNOTATION_IPPR,
)
"""The annotations of a RayCluster by which its head receives anything. Beside these, zone and
region, and the resize policy of all pods, are settings.
"""


def head_receives(cluster: RayClusterConfig, policy: Policy) -> bool:
    """Return whether heads of a RayCluster can receive anything, so that they have to be read."""
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
"""What one host receives for itself."""


def host_edits(worker: Worker) -> list[Edit]:
    """Return the edits that one pod gets before those it shares."""
    return [] if worker.replica.head else [edit for mutator in HOST for edit in mutator(worker)]


def replica_edits(replica: Replica) -> list[Edit]:
    """Return the edits that every pod of a replica gets."""
    return [edit for mutator in (HEAD if replica.head else REPLICA) for edit in mutator(replica)]
