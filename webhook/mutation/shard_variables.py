"""Shard variables: the shard group and index of a RayCluster."""

from webhook.api import names
from webhook.groups.annotations import read_count, read_index
from webhook.mutation.edit import Edit, Warn
from webhook.mutation.ray_pod import Replica, Variable, fill


def replica_edits(replica: Replica) -> list[Edit]:
    """Return group and index for all containers, if the RayCluster has both, and the count if it is
    set. The index is recorded at creation.
    """
    cluster = replica.cluster
    if not cluster.shard_group:
        return []
    if not cluster.shard_index:
        return [
            Warn(
                f"no shard variables: the RayCluster has no {names.ANNOTATION_SHARD_INDEX} yet; "
                "any change of it adds one"
            )
        ]
    if read_index(cluster.shard_index) is None:
        return [
            Warn(
                f"no shard variables: {names.ANNOTATION_SHARD_INDEX} is "
                f"{cluster.shard_index[:20]!r}: remove it to get one"
            )
        ]
    variables = [
        Variable(
            names.RAY_SHARD_INDEX,
            cluster.shard_index,
            "this RayCluster among those of its shard group",
            identity=True,
        ),
        Variable(
            names.RAY_SHARD_GROUP,
            cluster.shard_group,
            "the shard group of the RayCluster",
            identity=True,
        ),
    ]
    if read_count(cluster.shard_count) is not None:
        why = "how many shards the shard group has"
        variables.append(Variable(names.RAY_SHARD_COUNT, cluster.shard_count, why, identity=True))
    return [edit for slot in replica.slots for edit in fill(slot, variables)]
