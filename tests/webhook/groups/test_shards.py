"""The index of a RayCluster of a shard group, and how long it is reserved."""

from itertools import count

from tests.harness.single_process import Lists
from webhook.groups.group_config import ClusterIndex, RayClusterConfig
from webhook.groups.identity import MAX_REPLICAS, HostIdentity, ShardKey
from webhook.groups.identity_index import Membership
from webhook.reservation.allocation import VACANT_SECONDS, Request, Taken
from webhook.reservation.stores import at_once

KEY = ShardKey("team", "search")


def shard(
    name: str, index: str, *, group: str = "search", namespace: str = "team", uid: str = ""
) -> RayClusterConfig:
    return RayClusterConfig(
        namespace, name, uid or f"uid-of-{name}", {}, shard_group=group, shard_index=index
    )


class Shards:
    """Shard indices with the RayClusters that are cached."""

    def __init__(self, *clusters: RayClusterConfig) -> None:
        self.index = ClusterIndex()
        self.lists = Lists()
        self.reservations = self.lists.reservations(Membership(), self.index)
        self._uids = count()
        for cluster in clusters:
            self.index.put(cluster)

    def given(self, name: str, now: float = 0.0, *, given: int | None = None) -> int:
        self.lists.time = 1000.0 + now
        wanted = _request(name, f"request-{next(self._uids)}", given)
        return at_once(self.reservations.reserve(wanted, lambda found, _: found.index))

    def free_for(self, name: str) -> int:
        """Return the index that a RayCluster would get, by what is known without a list."""
        wanted = _request(name, "preview")
        return self.reservations.preview(wanted, lambda found, _: found.index)

    def holder(self, index: int, name: str) -> str | None:
        """Return who else has an index: a name, empty if it is not generated yet, or None."""
        found = self.reservations.preview(_request(name, "preview", index), lambda found, _: found)
        return found.holder if isinstance(found, Taken) else None


def _request(name: str, uid: str, given: int | None = None) -> Request[ShardKey]:
    identity = None if given is None else HostIdentity(given, 0, "")
    return Request(name, KEY, 1, MAX_REPLICAS, uid, given=identity)


def test_other_groups_and_namespaces_and_an_index_that_is_none_hold_nothing() -> None:
    others = shard("a", "0", group="other"), shard("b", "0", namespace="elsewhere")
    assert Shards(*others, shard("c", "first"), shard("d", "")).given("x") == 0


def test_an_index_is_free_again_when_its_cluster_did_not_appear_and_a_list_shows_it() -> None:
    shards = Shards()
    assert shards.given("a") == 0
    assert shards.given("b", VACANT_SECONDS - 0.1) == 1
    assert shards.lists.reads == []
    assert shards.given("c", VACANT_SECONDS) == 0
    assert shards.lists.reads == [KEY]


def test_an_index_whose_cluster_a_list_shows_is_not_free_whatever_its_age() -> None:
    shards = Shards()
    assert shards.given("a") == 0
    shards.lists.finds = lambda: shards.index.put(shard("a", "0"))
    assert shards.given("b", VACANT_SECONDS + 1) == 1


def test_an_index_is_free_after_its_cluster_is_gone_once_a_list_shows_that() -> None:
    """The same name may be created twice, and the second creation be stored after the deletion."""
    shards = Shards()
    assert shards.given("a") == 0
    shards.index.put(shard("a", "0"))
    assert shards.free_for("b") == 1
    shards.index.remove("team", "a", "uid-of-a")
    assert shards.given("b", 1.0) == 1
    assert shards.given("c", VACANT_SECONDS) == 0


def test_a_cluster_that_is_created_again_keeps_its_index_while_the_old_one_is_still_known() -> None:
    shards = Shards(shard("a", "0", uid="old"))
    assert shards.given("a") == 0
    shards.index.remove("team", "a", "old")
    assert shards.given("b", VACANT_SECONDS - 1) == 1, "the new one has not appeared yet"


def test_a_cluster_that_is_given_another_index_holds_both_until_a_list_shows_it() -> None:
    shards = Shards()
    assert shards.given("a") == 0
    assert shards.given("a", 1.0, given=5) == 5
    assert shards.free_for("b") == 1
    shards.lists.finds = lambda: shards.index.put(shard("a", "5"))
    assert shards.given("b", VACANT_SECONDS + 2) == 0
    assert shards.holder(5, "b") == "a"


def test_the_holder_of_an_index_is_named_but_never_to_itself() -> None:
    shards = Shards(shard("a", "0"))
    for name in ("b", ""):
        shards.given(name)
    assert [shards.holder(index, "c") for index in range(4)] == ["a", "b", "", None]
    assert shards.holder(2, "") == "", "another RayCluster whose name is to be generated"
    assert shards.holder(0, "a") is None
    assert shards.holder(1, "b") is None
