"""Which index a RayCluster of a shard group gets, and how long it is held for one that nobody has
seen yet.
"""

from math import inf

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from webhook.groups.claims import ASSUMED_SECONDS
from webhook.groups.clusters import ClusterFacts, ClusterIndex
from webhook.groups.memory import IndexMemory, at_once
from webhook.groups.shards import COMING, Full, Holder, ShardKey, Shards, WantedIndex

KEY = ShardKey("team", "search")


def shard(
    name: str, index: str, *, group: str = "search", namespace: str = "team", uid: str = ""
) -> ClusterFacts:
    """Return a RayCluster that has an index."""
    return ClusterFacts(
        namespace, name, uid or f"uid-of-{name}", {}, shard_group=group, shard_index=index
    )


def knowing(*clusters: ClusterFacts) -> tuple[ClusterIndex, Shards]:
    index = ClusterIndex()
    shards = Shards(index)
    for cluster in clusters:
        index.put(cluster)
    return index, shards


def told(shards: Shards, name: str, now: float = 0.0, key: ShardKey = KEY) -> int:
    """Return the index that a new RayCluster is told."""
    index = at_once(IndexMemory(shards).claim(WantedIndex(key, name), now))
    assert isinstance(index, int)
    return index


def free_for(shards: Shards, name: str, now: float = 0.0) -> int | Holder | Full:
    """Return the index that a RayCluster would be told."""
    return shards.choose(WantedIndex(KEY, name), now)


def holder(shards: Shards, index: int, name: str) -> str:
    """Return who else has an index."""
    found = shards.choose(WantedIndex(KEY, name, index), 0.0)
    return found.name if isinstance(found, Holder) else ""


def test_the_lowest_index_that_no_other_cluster_has_is_free() -> None:
    _, shards = knowing(shard("a", "0"), shard("c", "2"))
    assert [told(shards, name) for name in ("x", "y")] == [1, 3]


def test_groups_and_namespaces_do_not_share_indices() -> None:
    _, shards = knowing(shard("a", "0", group="other"), shard("b", "0", namespace="elsewhere"))
    assert told(shards, "x") == 0


def test_an_index_that_is_none_holds_nothing() -> None:
    _, shards = knowing(shard("a", "first"), shard("b", ""))
    assert told(shards, "x") == 0


def test_clusters_that_are_created_together_get_different_indices() -> None:
    _, shards = knowing()
    assert [told(shards, f"c{number}") for number in range(5)] == [0, 1, 2, 3, 4]


def test_the_same_name_that_asks_again_gets_the_same_index() -> None:
    _, shards = knowing()
    assert [told(shards, name) for name in ("a", "b", "a", "b")] == [0, 1, 0, 1]
    assert shards.assumed == 2


def test_names_that_are_to_be_generated_are_different_clusters() -> None:
    _, shards = knowing()
    assert [told(shards, "") for _ in range(3)] == [0, 1, 2]
    assert holder(shards, 1, "a") == COMING
    assert holder(shards, 1, "") == COMING


def test_an_index_is_free_again_when_its_cluster_did_not_come() -> None:
    _, shards = knowing()
    assert told(shards, "a") == 0
    assert free_for(shards, "b", ASSUMED_SECONDS - 0.1) == 1
    assert free_for(shards, "b", ASSUMED_SECONDS) == 0
    assert shards.assumed == 0


def test_an_index_is_held_while_those_who_tell_of_clusters_are_silent() -> None:
    _, shards = knowing()
    shards.hear("", 0.0)
    assert told(shards, "a") == 0
    assert free_for(shards, "b", ASSUMED_SECONDS + 1.0) == 1, (
        "a may be there, and nobody has told of it"
    )
    shards.hear("", ASSUMED_SECONDS)
    assert free_for(shards, "b", ASSUMED_SECONDS + 1.0) == 0


def test_an_index_is_free_as_soon_as_its_cluster_is_gone() -> None:
    index, shards = knowing()
    assert told(shards, "a") == 0
    index.put(shard("a", "0"))
    assert shards.assumed == 0
    assert free_for(shards, "b", 1.0) == 1
    index.remove("team", "a", "uid-of-a")
    assert free_for(shards, "b", 1.0) == 0


def test_a_cluster_that_is_created_again_keeps_its_index_while_the_old_one_is_still_known() -> None:
    index, shards = knowing(shard("a", "0", uid="old"))
    assert told(shards, "a") == 0
    index.put(shard("a", "0", uid="old", group="search"))
    index.put(
        ClusterFacts("team", "a", "old", {}, suspended=True, shard_group="search", shard_index="0")
    )
    index.remove("team", "a", "old")
    assert free_for(shards, "b", 1.0) == 1, "the new one was told 0, and nobody has seen it yet"
    index.put(shard("a", "0", uid="new"))
    assert shards.assumed == 0


def test_a_cluster_that_is_told_another_index_gives_the_former_one_back() -> None:
    _, shards = knowing()
    assert told(shards, "a") == 0
    shards.assume(WantedIndex(KEY, "a", 5), 5, 0.0)
    assert shards.assumed == 1
    assert free_for(shards, "a", 0.0) == 5
    assert free_for(shards, "b", 0.0) == 0


def test_nothing_expires_where_nothing_watches() -> None:
    shards = Shards(ClusterIndex(), inf)
    assert [told(shards, name, now) for name, now in (("a", 0.0), ("b", 1e9))] == [0, 1]


def test_the_holder_of_an_index_is_named_but_never_to_itself() -> None:
    _, shards = knowing(shard("a", "0"))
    told(shards, "b")
    assert [holder(shards, index, "c") for index in range(3)] == ["a", "b", ""]
    assert holder(shards, 0, "a") == ""
    assert holder(shards, 1, "b") == ""


class ShardMachine(RuleBasedStateMachine):
    """RayClusters are asked for, appear, are refused and go, in any order: no two that may live
    hold one index.
    """

    def __init__(self) -> None:
        super().__init__()
        self.index, self.shards = knowing()
        self.now = 0.0
        self.coming: dict[str, tuple[int, float]] = {}
        self.living: dict[str, int] = {}

    @rule(name=st.sampled_from("abcdef"))
    def ask(self, name: str) -> None:
        """A RayCluster is sent, and told its index."""
        if name not in self.living:
            self.coming[name] = told(self.shards, name, self.now), self.now

    @rule(name=st.sampled_from("abcdef"))
    def appear(self, name: str) -> None:
        """The watch shows it."""
        if name in self.coming:
            self.living[name] = self.coming.pop(name)[0]
            self.index.put(shard(name, str(self.living[name])))

    @rule(name=st.sampled_from("abcdef"))
    def go(self, name: str) -> None:
        """It is deleted, and the watch says so."""
        if self.living.pop(name, None) is not None:
            self.index.remove("team", name, f"uid-of-{name}")

    @rule(seconds=st.sampled_from([1.0, 30.0, 70.0]))
    def wait(self, seconds: float) -> None:
        """Time passes; what has not come by now never will."""
        self.now += seconds
        self.coming = {
            name: asked
            for name, asked in self.coming.items()
            if asked[1] + ASSUMED_SECONDS > self.now
        }

    @invariant()
    def no_index_is_held_twice(self) -> None:
        """Uniqueness."""
        held = [*self.living.values(), *(index for index, _ in self.coming.values())]
        assert len(set(held)) == len(held)

    @invariant()
    def no_index_is_wasted(self) -> None:
        """The lowest free index is the next."""
        held = {*self.living.values(), *(index for index, _ in self.coming.values())}
        assert free_for(self.shards, "new", self.now) == min(set(range(len(held) + 1)) - held)


TestShardMachine = ShardMachine.TestCase
TestShardMachine.settings = settings(max_examples=60, stateful_step_count=30)
