"""Worker groups, shard groups, and the identities of pods in them."""

from typing import Final, NamedTuple

from msgspec import Struct

MAX_REPLICAS: Final = 1 << 16
"""Replica indices are less than this number."""

MAX_HOSTS: Final = 4096
"""Maximum hosts of a replica. The largest TPU slices have about 2,300 hosts; a longer host list
would not fit into a pod.
"""


class GroupKey(Struct, frozen=True, gc=False):
    """A worker group. A RayCluster recreated under the same name has another uid, so it is another
    group.
    """

    namespace: str
    cluster_uid: str
    group: str


class ShardKey(NamedTuple):
    """A shard group; names are unique per namespace."""

    namespace: str
    group: str


Key = GroupKey | ShardKey


class HostIdentity(Struct, frozen=True, gc=False, array_like=True):
    """Replica index and host index (both from 0), and the replica name, which is empty in
    single-host groups. Names from labels are interned, since the hosts of a replica share one.
    """

    replica: int
    host: int
    name: str
