"""Shard indices: each RayCluster of a shard group has one of its own, the lowest that is free when
it is created.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec import Struct

from webhook.groups.claims import ASSUMED_SECONDS, Claimed
from webhook.groups.clusters import ClusterFacts, ClusterIndex
from webhook.groups.optins import read_index

COMING: Final = "a RayCluster that is being created"
"""What holds an index that was handed out for a name that the API server has yet to generate."""


class ShardKey(NamedTuple):
    """A shard group: names are per namespace."""

    namespace: str
    group: str


class ShardIndex(Struct, frozen=True, gc=False, array_like=True):
    """An index that was handed out, and the name of the RayCluster that it is for; empty while that
    is to be generated.
    """

    index: int
    name: str


class WantedIndex(Struct, frozen=True, gc=False):
    """An index that is wanted for the RayCluster `name`: the lowest free one, or the one that is
    `given`, below `count` where there is one.

    An empty name is one that has yet to be generated. `created` tells that the RayCluster is new
    under its name.
    """

    key: ShardKey
    name: str
    given: int | None = None
    created: bool = True
    count: int | None = None


class Full(Struct, frozen=True, gc=False):
    """There is no such index: the given one, or the lowest free one, is not below `count`."""

    index: int
    count: int


class Holder(NamedTuple):
    """Another RayCluster, which has the index that was given."""

    name: str


class _Claim(Struct, frozen=True, gc=False):
    """An index that was handed out: for which name, and the uid that bore the name by then."""

    index: int
    name: str
    before: str


class Shards:
    """Who holds which index: the RayClusters that are known, and those that were told theirs a
    moment ago.

    A claim lasts `seconds` (see `Claimed`), or until its RayCluster is in the index of clusters;
    `inf` where nothing watches the cluster.
    """

    def __init__(self, clusters: ClusterIndex, seconds: float = ASSUMED_SECONDS) -> None:
        self._clusters = clusters
        self._claimed: Claimed[ShardKey, _Claim] = Claimed(seconds)
        self._shared: dict[ShardKey, Counter[ShardIndex]] = {}
        self.hear = self._claimed.hear
        clusters.follow(self._confirm)

    @property
    def assumed(self) -> int:
        """How many indices were handed out whose RayCluster was not seen yet."""
        return len(self._claimed) + sum(map(len, self._shared.values()))

    def hold(self, key: ShardKey, index: ShardIndex) -> None:
        """Count a claim that processes share; it holds its index until it is let go."""
        self._shared.setdefault(key, Counter())[index] += 1

    def free(self, key: ShardKey, index: ShardIndex) -> None:
        """Let go of a claim that processes share."""
        held = self._shared[key]
        held[index] -= 1
        if not held[index]:
            del held[index]
        if not held:
            del self._shared[key]

    def choose(self, wanted: WantedIndex, now: float) -> int | Holder | Full:
        """Return the index that is wanted, or why there is none; nothing is recorded."""
        self._claimed.expire(now)
        given = wanted.given is not None
        index = self._index_for(wanted.key, wanted.name) if wanted.given is None else wanted.given
        if wanted.count is not None and index >= wanted.count:
            return Full(index, wanted.count)
        holder = self._holder(wanted.key, index, wanted.name) if given else ""
        return Holder(holder) if holder else index

    def others(self, key: ShardKey, name: str) -> list[ClusterFacts]:
        """Return the RayClusters of a group that are known, but the one of that name."""
        return [
            facts
            for facts in self._clusters
            if (facts.namespace, facts.shard_group) == key and facts.name != name
        ]

    def assume(self, wanted: WantedIndex, index: int, now: float) -> None:
        """Note that an index was handed out."""
        key, name = wanted.key, wanted.name
        for claim in self._claimed.of(key):
            if claim.index == index or (name and claim.name == name):
                self._claimed.release(key, claim)
        known = self._clusters.get(key.namespace, name) if wanted.created else None
        self._claimed.reserve(key, _Claim(index, name, known.uid if known else ""), now)

    def _index_for(self, key: ShardKey, name: str) -> int:
        """Return the index that the RayCluster `name` was told before, else the lowest free one."""
        taken = {index for index, holder in self._held(key) if not name or holder != name}
        for index, claimant in self._claims(key):
            if name and claimant == name and index not in taken:
                return index
        return next(index for index in range(len(taken) + 1) if index not in taken)

    def _holder(self, key: ShardKey, index: int, name: str) -> str:
        """Return which RayCluster other than `name` holds an index; nothing when it is free."""
        return next(
            (
                holder or COMING
                for held, holder in self._held(key)
                if held == index and (not name or holder != name)
            ),
            "",
        )

    def _held(self, key: ShardKey) -> Iterator[tuple[int, str]]:
        for facts in self._clusters:
            if (facts.namespace, facts.shard_group) == key and (
                index := read_index(facts.shard_index)
            ) is not None:
                yield index, facts.name
        yield from self._claims(key)

    def _claims(self, key: ShardKey) -> Iterator[tuple[int, str]]:
        for claim in self._claimed.of(key):
            yield claim.index, claim.name
        for held in self._shared.get(key, ()):
            yield held.index, held.name

    def _confirm(self, facts: ClusterFacts) -> None:
        """Drop the claim of a RayCluster that is there now."""
        if not self._claimed:
            return
        key, index = ShardKey(facts.namespace, facts.shard_group), read_index(facts.shard_index)
        for claim in self._claimed.of(key):
            if claim.index == index and claim.before != facts.uid:
                self._claimed.release(key, claim)
