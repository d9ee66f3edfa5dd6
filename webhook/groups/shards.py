"""Shard indices: what is wanted for a RayCluster, and why it may not get it."""

from typing import Final, NamedTuple

from msgspec import Struct

COMING: Final = "a RayCluster that is being created"
"""What holds an index that was handed out for a name that the API server has yet to generate."""


class ShardKey(NamedTuple):
    """A shard group: names are per namespace."""

    namespace: str
    group: str


class WantedIndex(Struct, frozen=True, gc=False):
    """An index that is wanted for the RayCluster `name`: the lowest free one, or the one that is
    `given`, below `count` where there is one. An empty name is one that has yet to be generated.
    """

    key: ShardKey
    name: str
    request_uid: str
    given: int | None = None
    count: int | None = None


class Full(Struct, frozen=True, gc=False):
    """There is no such index: the given one, or the lowest free one, is not below `count`."""

    index: int
    count: int


class Holder(NamedTuple):
    """Another RayCluster, which has the index that was given."""

    name: str
