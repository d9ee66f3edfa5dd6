"""Shard indices: requests for a RayCluster, and the reasons for refusing one."""

from typing import Final, NamedTuple

from msgspec import Struct

COMING: Final = "a RayCluster that is being created"
"""The holder of an index that was assigned before the API server generated the name."""


class ShardKey(NamedTuple):
    """A shard group; names are unique per namespace."""

    namespace: str
    group: str


class WantedIndex(Struct, frozen=True, gc=False):
    """A request for the index of RayCluster `name`: the lowest free one, or `given`, less than
    `count` if it is set. The name is empty if the API server has yet to generate it.
    """

    key: ShardKey
    name: str
    request_uid: str
    given: int | None = None
    count: int | None = None


class Full(Struct, frozen=True, gc=False):
    """The given index, or the lowest free one, is not less than `count`."""

    index: int
    count: int


class Holder(NamedTuple):
    """Another RayCluster that has the given index."""

    name: str
