"""RayClusters of shard groups: which receive an index, keep one or are refused; from bytes to
bytes.
"""

import asyncio
import base64
import copy
import json
from typing import Any

import jsonpatch
import pytest

from tests.apiserver import Object, object_review
from tests.builders import (
    NAMESPACE,
    ClusterBuilder,
    a_cluster,
    facts,
)
from webhook.admission.pod_handler import PodHandler
from webhook.admission.reviewer import Mutation
from webhook.admission.shard_handler import ShardHandler
from webhook.api import names
from webhook.api.review import BadReview
from webhook.groups.annotations import (
    SHARD_COUNT,
    SHARD_GROUP,
    SHARD_INDEX,
    OptIn,
)
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity_index import Membership
from webhook.reservation.identities import StandaloneIdentities
from webhook.reservation.reservations import standalone

GROUP, INDEX = names.ANNOTATION_SHARD_GROUP, names.ANNOTATION_SHARD_INDEX
AT_INDEX, AT_GROUP = f"metadata.annotations[{INDEX}]", f"metadata.annotations[{GROUP}]"


def a_shard(name: str = "a", index: str = "", group: str = "search") -> ClusterBuilder:
    """Return a RayCluster of a shard group."""
    built = a_cluster(name).annotated(GROUP, group)
    return built.annotated(INDEX, index) if index else built


class Server:
    """An API server that asks the webhook about RayClusters, and a watch that shows them when it is
    told to.
    """

    def __init__(self, *there: ClusterBuilder) -> None:
        self.clusters = ClusterIndex()
        pods = PodHandler(self.clusters, StandaloneIdentities(Membership()))
        handler = ShardHandler(self.clusters, standalone(Membership(), self.clusters))
        self.mutation = Mutation(pods, shards=handler)
        for cluster in there:
            self.clusters.put(facts(cluster))

    def ask(self, new: Object, old: Object | None = None, **request: object) -> Object:
        """Return the response to a review."""
        review = object_review(new, old=old)
        review["request"] |= request
        outcome = asyncio.run(self.mutation.review(json.dumps(review).encode()))
        response: Object = json.loads(outcome.body)["response"]
        return response

    def index(
        self, new: ClusterBuilder, old: ClusterBuilder | None = None, **request: object
    ) -> str | None:
        """Return the index that a RayCluster has after its review."""
        document = new.build()
        return _index(document, self.ask(document, old.build() if old else None, **request))

    def refused(self, new: ClusterBuilder, old: ClusterBuilder | None = None) -> tuple[str, str]:
        """Return the field of the only cause, and the message."""
        response = self.ask(new.build(), old.build() if old else None)
        assert response["allowed"] is False
        assert "patch" not in response
        (cause,) = response["status"]["details"]["causes"]
        return cause["field"], cause["message"]


def _index(document: Object, response: Object) -> str | None:
    assert response["allowed"], response
    patch = json.loads(base64.b64decode(response.get("patch", "W10=")))
    patched: Any = jsonpatch.apply_patch(copy.deepcopy(document), patch)
    return (patched["metadata"].get("annotations") or {}).get(INDEX)


@pytest.mark.parametrize(
    ("cluster", "row", "text"),
    [
        (a_shard("a", "one"), SHARD_INDEX, "one"),
        (a_shard("a").annotated(SHARD_COUNT.annotation, "0"), SHARD_COUNT, "0"),
        (a_cluster("a").annotated(SHARD_GROUP.annotation, "a b"), SHARD_GROUP, "a b"),
    ],
)
def test_a_value_that_cannot_be_is_refused_in_the_words_of_the_rules(
    cluster: ClusterBuilder, row: OptIn[str], text: str
) -> None:
    field, message = Server().refused(cluster)
    assert field == f"metadata.annotations[{row.annotation}]"
    assert message.startswith(f"{row.problem(text)} [{row.rule}]\n")


def test_clusters_of_a_shard_group_get_one_index_after_another() -> None:
    server = Server(a_shard("there", "1"))
    assert [server.index(a_shard(name)) for name in ("a", "b", "c")] == ["0", "2", "3"]


def test_a_cluster_of_no_shard_group_passes_untouched() -> None:
    server = Server()
    assert server.ask(a_cluster("a").build()).keys() == {"uid", "allowed"}
    assert server.ask(a_shard(group="").build()).keys() == {"uid", "allowed"}
    assert server.ask(a_cluster("a").annotated(INDEX, "x").build()).keys() == {"uid", "allowed"}
    assert server.index(a_shard("b")) == "0"


def test_a_retry_gets_the_same_index_and_a_dry_run_holds_none() -> None:
    server = Server()
    assert server.index(a_shard("dry"), dryRun=True) == "0"
    assert [server.index(a_shard(name)) for name in ("a", "a", "b")] == ["0", "0", "1"]


def test_a_name_that_is_to_be_generated_gets_an_index() -> None:
    server, document = Server(), a_shard().build()
    document["metadata"] |= {"generateName": "a-", "name": None}
    found = [_index(document, server.ask(copy.deepcopy(document), name="")) for _ in range(2)]
    assert found == ["0", "1"]


def test_a_cluster_that_comes_back_with_the_index_it_was_told_keeps_it() -> None:
    server = Server()
    assert server.index(a_shard("a")) == "0"
    assert server.ask(a_shard("a", "0").build()).keys() == {"uid", "allowed"}
    assert server.index(a_shard("b")) == "1"


def test_an_index_that_is_free_is_trusted_and_held() -> None:
    server = Server()
    assert "patch" not in server.ask(a_shard("a", "5").build())
    assert server.refused(a_shard("b", "5"))[0] == AT_INDEX


def test_an_index_that_another_cluster_has_is_refused_with_its_name() -> None:
    field, message = Server(a_shard("holder", "3")).refused(a_shard("a", "3"))
    assert field == AT_INDEX
    assert "holder" in message
    assert "remove the annotation" in message


def test_spaces_around_an_index_and_a_group_make_no_other_index_and_group() -> None:
    server = Server(a_shard("holder", " 3", group="search\n"))
    assert server.refused(a_shard("a", "3", group=" search"))[0] == AT_INDEX


@pytest.mark.parametrize("index", ["-1", "01", "one", "1048576", "1 2"])
def test_what_is_no_index_is_refused(index: str) -> None:
    server = Server()
    assert server.refused(a_shard("a", index))[0] == AT_INDEX
    assert server.index(a_shard("b")) == "0"


@pytest.mark.parametrize("group", ["a b", "-a", "x" * 64, "ä", "a\nb"])
def test_a_group_that_is_no_label_value_is_refused(group: str) -> None:
    assert Server().refused(a_shard(group=group))[0] == AT_GROUP


def test_an_index_that_an_update_drops_is_put_back() -> None:
    server = Server(a_shard("a", "4"))
    response = server.ask(a_shard("a").build(), a_shard("a", "4").build())
    assert _index(a_shard("a").build(), response) == "4"
    assert "warnings" not in response


def test_an_index_that_is_changed_by_hand_is_refused() -> None:
    field, message = Server(a_shard("a", "4")).refused(a_shard("a", "5"), a_shard("a", "4"))
    assert field == AT_INDEX
    assert "immutable" in message


def test_an_index_that_was_none_may_be_corrected() -> None:
    server = Server(a_shard("a", "x"), a_shard("b", "1"))
    assert server.index(a_shard("a", "2"), a_shard("a", "x")) == "2"
    assert server.index(a_shard("a"), a_shard("a", "x")) == "2", "as it was told a moment ago"
    assert server.refused(a_shard("a", "1"), a_shard("a", "x"))[0] == AT_INDEX


def test_a_live_cluster_that_joins_a_group_gets_an_index_and_a_warning() -> None:
    server = Server(a_cluster("a"), a_shard("b", "0"))
    response = server.ask(a_shard("a").build(), a_cluster("a").build())
    assert _index(a_shard("a").build(), response) == "1"
    assert len(response["warnings"]) == 1


def test_a_cluster_that_moves_to_another_group_gets_an_index_there_and_a_warning() -> None:
    server = Server(a_shard("a", "0"), a_shard("b", "0", "ads"))
    moved = a_shard("a", "0", "ads").build()
    response = server.ask(moved, a_shard("a", "0").build())
    assert _index(moved, response) == "1"
    assert len(response["warnings"]) == 1


def test_a_cluster_that_leaves_its_group_is_left_as_it_is() -> None:
    server = Server(a_shard("a", "0"))
    left = a_cluster("a").annotated(INDEX, "0")
    assert server.ask(left.build(), a_shard("a", "0").build()).keys() == {"uid", "allowed"}


def test_an_update_that_leaves_the_shard_alone_passes_however_wrong_it_was_before() -> None:
    server = Server()
    for cluster in (a_shard("a", "x"), a_shard("a", "0"), a_shard("a", group="a b")):
        assert server.ask(cluster.labelled("team", "x").build(), cluster.build()).keys() == {
            "uid",
            "allowed",
        }
    assert server.index(a_shard("b")) == "0"


def test_clusters_that_are_deleted_or_ignored_pass_untouched() -> None:
    server = Server()
    ignored = a_shard("a", "x").labelled(names.LABEL_IGNORE, "true")
    assert server.ask(ignored.build()).keys() == {"uid", "allowed"}
    going = a_shard("a", "7").build()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert server.ask(going, a_shard("a", "1").build()).keys() == {"uid", "allowed"}


@pytest.mark.parametrize(
    "request_fields", [{"subResource": "status"}, {"operation": "DELETE"}, {"operation": "CONNECT"}]
)
def test_subresources_and_other_operations_pass(request_fields: Object) -> None:
    assert Server().ask(a_shard("a", "x").build(), **request_fields)["allowed"]


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        {"metadata": []},
        {"metadata": {"annotations": {GROUP: 1}}},
        {"metadata": {"name": {}}},
    ],
)
def test_what_is_no_ray_cluster_is_a_bad_review(broken: object) -> None:
    review = object_review(a_shard().build())
    review["request"]["object"] = broken
    with pytest.raises(BadReview):
        asyncio.run(Server().mutation.review(json.dumps(review).encode()))


def test_without_shards_every_ray_cluster_passes() -> None:
    mutation = Mutation(PodHandler(ClusterIndex(), StandaloneIdentities(Membership())))
    review = object_review(a_shard("a", "x").build())
    assert asyncio.run(mutation.review(json.dumps(review).encode())).answer.allowed


def test_late_news_of_a_deleted_cluster_is_not_taken_for_the_new_one_of_its_name() -> None:
    server = Server(a_shard("a", "0"))
    assert server.index(a_shard("a")) == "0"
    server.clusters.put(facts(a_shard("a", "0").labelled(names.LABEL_IGNORE, "true")))
    server.clusters.remove(NAMESPACE, "a", "uid-of-a")
    assert server.index(a_shard("b")) == "1", "a was created again, and no one has seen it yet"


COUNT = names.ANNOTATION_SHARD_COUNT
AT_COUNT = f"metadata.annotations[{COUNT}]"


def counted(name: str, index: str, count: str) -> ClusterBuilder:
    """Return a RayCluster of a shard group of `count` shards."""
    return a_shard(name, index).annotated(COUNT, count)


def warnings(
    server: Server, new: ClusterBuilder, old: ClusterBuilder | None = None
) -> tuple[str, ...]:
    """Return what a RayCluster is warned of, which is let pass."""
    response = server.ask(new.build(), old.build() if old else None)
    assert response["allowed"], response
    return tuple(response.get("warnings", ()))


def test_a_group_has_no_more_shards_than_it_says() -> None:
    server = Server()
    assert [server.index(counted(name, "", "2")) for name in ("a", "b")] == ["0", "1"]
    field, message = server.refused(counted("c", "", "2"))
    assert field == AT_COUNT
    assert "2 shards" in message


def test_an_index_that_is_given_is_below_the_count() -> None:
    server = Server()
    assert server.refused(counted("a", "4", "4"))[0] == AT_INDEX
    assert server.index(counted("a", "3", "4")) == "3"


@pytest.mark.parametrize("text", ["0", "x", "08"])
def test_a_count_that_is_none_is_refused(text: str) -> None:
    assert Server().refused(counted("a", "", text))[0] == AT_COUNT


def test_a_new_cluster_says_no_fewer_than_those_that_are_there() -> None:
    server = Server(counted("a", "0", "8"), counted("b", "1", "16"))
    field, message = server.refused(counted("c", "", "8"))
    assert field == AT_COUNT
    assert "write 16" in message
    assert warnings(Server(counted("a", "0", "8")), counted("b", "", "8")) == ()


def test_a_group_grows_by_new_clusters_first_and_says_who_is_behind() -> None:
    server = Server(counted("a", "0", "1"), counted("b", "1", "2"))
    (warning,) = warnings(server, counted("c", "", "3"))
    assert "a and 1 more" in warning


def test_a_cluster_that_is_there_may_say_more_and_fewer_while_no_index_is_cut_off() -> None:
    server = Server(counted("a", "0", "8"), counted("b", "5", "8"))
    assert len(warnings(server, counted("a", "0", "16"), counted("a", "0", "8"))) == 1
    assert len(warnings(server, counted("a", "0", "6"), counted("a", "0", "8"))) == 1
    field, message = server.refused(counted("a", "0", "5"), counted("a", "0", "8"))
    assert field == AT_COUNT
    assert message.startswith("b has index 5")


def test_a_count_above_no_index_of_the_group_is_refused_also_where_others_have_none() -> None:
    server = Server(a_shard("a", "0"), a_shard("b", "5"))
    for ask in (
        (counted("a", "0", "5"), a_shard("a", "0")),
        (counted("c", "", "5"), None),
    ):
        field, message = server.refused(*ask)
        assert field == AT_COUNT
        assert message.startswith("b has index 5")
    assert len(warnings(server, counted("a", "0", "6"), a_shard("a", "0"))) == 1


def test_a_count_does_not_go_below_its_own_index() -> None:
    server = Server()
    assert server.refused(counted("a", "5", "5"), counted("a", "5", "8"))[0] == AT_INDEX
    assert server.refused(counted("a", "", "5"), counted("a", "5", "8"))[0] == AT_INDEX


def test_another_change_of_a_cluster_is_not_judged_by_its_count() -> None:
    server = Server(counted("b", "1", "8"))
    same = counted("a", "0", "4")
    assert server.ask(same.build(), same.build()).keys() == {"uid", "allowed"}


def test_a_cluster_without_a_count_is_told_that_others_have_one() -> None:
    (warning,) = warnings(Server(counted("a", "0", "8")), a_shard("b"))
    assert "shard-count 8" in warning
    assert warnings(Server(a_shard("a", "0")), a_shard("b")) == ()


def test_a_cluster_without_a_count_is_bound_by_that_of_its_group() -> None:
    group = (counted("a", "0", "1"), counted("b", "1", "2"))
    field, message = Server(*group).refused(a_shard("c"))
    assert field == AT_COUNT
    assert "2 shards" in message
    assert Server(*group).refused(a_shard("c", "20"))[0] == AT_INDEX
    assert Server(*group).refused(a_shard("c"), a_cluster("c"))[0] == AT_COUNT
    assert Server(group[1]).index(a_shard("c")) == "0"
    last = a_shard("b", "1")
    assert len(warnings(Server(*group), last, group[1])) == 1


def test_a_cluster_that_came_while_there_was_no_index_left_may_be_changed() -> None:
    server = Server(counted("a", "0", "2"), counted("b", "1", "2"))
    old, new = a_shard("c"), a_shard("c").spec(enableInTreeAutoscaling=True)
    assert server.index(new, old) is None
    (warning,) = warnings(server, new, old)
    assert warning.startswith("no index: shard group")
