"""Shard indices: each RayCluster of a shard group has one of its own, the lowest that is free when it is created."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from msgspec import Struct

from webhook.groups.clusters import ClusterFacts, ClusterIndex
from webhook.groups.membership import ASSUMED_SECONDS

INDEX_LIMIT: Final = 1 << 20
"""Shard indices are below this number."""

_DIGITS: Final = len(str(INDEX_LIMIT))

COMING: Final = "a RayCluster that is being created"
"""What holds an index that was handed out for a name that the API server has yet to generate."""


class ShardKey(NamedTuple):
    """A shard group: names are per namespace."""

    namespace: str
    group: str


class _Claim(Struct, frozen=True, gc=False):
    """An index that was handed out: for which name, until when, and the uid that bore the name by then."""

    name: str
    until: float
    before: str


def read_index(text: str) -> int | None:
    """Return a shard index, or None for a text that is none: decimal, without sign or leading zeros, below the limit."""
    if not (text.isascii() and text.isdigit()) or len(text) > _DIGITS or (text[0] == "0" and text != "0"):
        return None
    index = int(text)
    return index if index < INDEX_LIMIT else None


class Shards:
    """Who holds which index: the RayClusters that are known, and those that were told theirs a moment ago.

    A claim lasts `seconds`, or until its RayCluster is in the index of clusters; `inf` where nothing watches the cluster.
    """

    def __init__(self, clusters: ClusterIndex, seconds: float = ASSUMED_SECONDS) -> None:
        self._clusters = clusters
        self._seconds = seconds
        self._claims: dict[ShardKey, dict[int, _Claim]] = {}
        clusters.follow(self._confirm)

    @property
    def assumed(self) -> int:
        """How many indices were handed out whose RayCluster was not seen yet."""
        return sum(map(len, self._claims.values()))

    def index_for(self, key: ShardKey, name: str, now: float) -> int:
        """Return the index that the RayCluster `name` was told before, else the lowest free one. Records nothing.

        An empty name is one that has yet to be generated: nobody was told anything before.
        """
        self._expire(now)
        taken = {index for index, holder in self._held(key) if not name or holder != name}
        for index, claim in self._claims.get(key, {}).items():
            if name and claim.name == name and index not in taken:
                return index
        return next(index for index in range(len(taken) + 1) if index not in taken)

    def holder(self, key: ShardKey, index: int, name: str, now: float) -> str:
        """Return which RayCluster other than `name` holds an index; nothing when it is free."""
        self._expire(now)
        return next((holder or COMING for held, holder in self._held(key) if held == index and (not name or holder != name)), "")

    def assume(self, key: ShardKey, index: int, name: str, now: float, *, before: str = "") -> None:
        """Note that an index was handed out. `before` is the uid of an earlier RayCluster of that name that may be known still."""
        claims = self._claims.setdefault(key, {})
        for other in [other for other, claim in claims.items() if name and claim.name == name]:
            del claims[other]
        claims[index] = _Claim(name, now + self._seconds, before)

    def uid_of(self, namespace: str, name: str) -> str:
        """Return the uid of the RayCluster that is known by this name."""
        facts = self._clusters.get(namespace, name)
        return facts.uid if facts else ""

    def _held(self, key: ShardKey) -> Iterator[tuple[int, str]]:
        for facts in self._clusters:
            if (facts.namespace, facts.shard_group) == key and (index := read_index(facts.shard_index)) is not None:
                yield index, facts.name
        for index, claim in self._claims.get(key, {}).items():
            yield index, claim.name

    def _confirm(self, facts: ClusterFacts) -> None:
        """Drop the claim of a RayCluster that is there now."""
        key = ShardKey(facts.namespace, facts.shard_group)
        claims = self._claims.get(key)
        index = read_index(facts.shard_index) if claims else None
        if claims and index in claims and claims[index].before != facts.uid:
            del claims[index]
            if not claims:
                del self._claims[key]

    def _expire(self, now: float) -> None:
        for key, claims in [*self._claims.items()]:
            for index in [index for index, claim in claims.items() if claim.until <= now]:
                del claims[index]
            if not claims:
                del self._claims[key]
