"""RayClusters of shard groups: which receive an index, keep one or are refused."""

import asyncio
import base64
import copy
import json
from typing import Any

import jsonpatch
import pytest

from tests.builders import NAMESPACE, ClusterBuilder, a_cluster, cluster_config
from tests.harness.apiserver import Object, object_review
from webhook.admission.pod_handler import PodHandler
from webhook.admission.reviewer import Mutation
from webhook.admission.shard_handler import ShardHandler
from webhook.api import names
from webhook.api.review import BadReview
from webhook.groups.annotations import RULE, SHARD_COUNT, SHARD_GROUP, SHARD_INDEX, OptIn
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity_index import Membership
from webhook.reservation.identities import StandaloneIdentities
from webhook.reservation.reservations import standalone

GROUP, INDEX = names.ANNOTATION_SHARD_GROUP, names.ANNOTATION_SHARD_INDEX
AT_INDEX, AT_GROUP = f"metadata.annotations[{INDEX}]", f"metadata.annotations[{GROUP}]"


def a_shard(name: str = "a", index: str = "", group: str = "search") -> ClusterBuilder:
    built = a_cluster(name).annotated(GROUP, group)
    return built.annotated(INDEX, index) if index else built


MINE = (a_shard("a", "4"),)


class Server:
    """An API server that asks the webhook about RayClusters, and a watch that tests advance."""

    def __init__(self, *there: ClusterBuilder) -> None:
        self.clusters = ClusterIndex()
        pods = PodHandler(self.clusters, StandaloneIdentities(Membership()))
        handler = ShardHandler(self.clusters, standalone(Membership(), self.clusters))
        self.mutation = Mutation(pods, shards=handler)
        for cluster in there:
            self.clusters.put(cluster_config(cluster))

    def ask(self, new: Object, old: Object | None = None, **request: object) -> Object:
        review = object_review(new, old=old)
        review["request"] |= request
        outcome = asyncio.run(self.mutation.review(json.dumps(review).encode()))
        response: Object = json.loads(outcome.body)["response"]
        return response

    def index(
        self, new: ClusterBuilder, old: ClusterBuilder | None = None, **request: object
    ) -> str | None:
        document = new.build()
        return _index(document, self.ask(document, old.build() if old else None, **request))

    def refused(self, new: ClusterBuilder, old: ClusterBuilder | None = None) -> tuple[str, str]:
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


@pytest.mark.parametrize(("cluster", "row", "text"), [
    (a_shard("a", "one"), SHARD_INDEX, "one"),
    (a_shard("a").annotated(SHARD_COUNT.annotation, "0"), SHARD_COUNT, "0"),
    (a_cluster("a").annotated(SHARD_GROUP.annotation, "a b"), SHARD_GROUP, "a b"),
])  # fmt: skip
def test_a_value_is_refused_by_rules(cluster: ClusterBuilder, row: OptIn[str], text: str) -> None:
    field, message = Server().refused(cluster)
    assert field == f"metadata.annotations[{row.annotation}]"
    assert message.startswith(f"{row.problem(text)} [{RULE}]\n")


def a_going_shard() -> Object:
    going = a_shard("a", "7").build()
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return going


IGNORED = a_shard("a", "x").label(names.LABEL_IGNORE, "true")


@pytest.mark.parametrize(
    ("new", "old", "request_fields"),
    [
        (a_cluster("a").build(), None, {}),
        (a_shard(group="").build(), None, {}),
        (a_cluster("a").annotated(INDEX, "x").build(), None, {}),
        (a_cluster("a").annotated(INDEX, "0").build(), a_shard("a", "0").build(), {}),  # it left
        *(
            (each.label("team", "x").build(), each.build(), {})  # however wrong it was before
            for each in (a_shard("a", "x"), a_shard("a", "0"), a_shard("a", group="a b"))
        ),
        (IGNORED.build(), None, {}),
        (a_going_shard(), a_shard("a", "1").build(), {}),
        (a_shard("a", "x").build(), None, {"subResource": "status"}),
        (a_shard("a", "x").build(), None, {"operation": "DELETE"}),
        (a_shard("a", "x").build(), None, {"operation": "CONNECT"}),
    ],
)
def test_others_pass_untouched(new: Object, old: Object | None, request_fields: Object) -> None:
    server = Server()
    assert server.ask(new, old, **request_fields).keys() == {"uid", "allowed"}
    assert server.index(a_shard("b")) == "0"


def test_clusters_of_a_shard_group_get_one_index_after_another() -> None:
    server = Server(a_shard("there", "1"))
    assert [server.index(a_shard(name)) for name in ("a", "b", "c")] == ["0", "2", "3"]


def test_a_retry_gets_the_same_index_and_a_dry_run_holds_none() -> None:
    server = Server()
    assert server.index(a_shard("dry"), dryRun=True) == "0"
    assert [server.index(a_shard(name)) for name in ("a", "a", "b")] == ["0", "0", "1"]


def test_a_name_that_is_to_be_generated_gets_an_index() -> None:
    server, document = Server(), a_shard().build()
    document["metadata"] |= {"generateName": "a-", "name": None}
    found = [_index(document, server.ask(copy.deepcopy(document), name="")) for _ in range(2)]
    assert found == ["0", "1"]


def test_an_index_that_a_cluster_received_or_that_is_free_is_held() -> None:
    server = Server()
    assert server.index(a_shard("a")) == "0"
    for cluster in (a_shard("a", "0"), a_shard("b", "5")):
        assert server.ask(cluster.build()).keys() == {"uid", "allowed"}
    assert server.refused(a_shard("c", "5"))[0] == AT_INDEX
    assert server.index(a_shard("c")) == "1"


def test_an_index_that_an_update_drops_is_put_back() -> None:
    response = Server(*MINE).ask(a_shard("a").build(), MINE[0].build())
    assert _index(a_shard("a").build(), response) == "4"
    assert "warnings" not in response


def test_an_index_that_was_none_may_be_corrected() -> None:
    server = Server(a_shard("a", "x"), a_shard("b", "1"))
    assert server.index(a_shard("a", "2"), a_shard("a", "x")) == "2"
    assert server.index(a_shard("a"), a_shard("a", "x")) == "2", "as it was told a moment ago"


@pytest.mark.parametrize(("there", "new", "old"), [
    ((a_cluster("a"), a_shard("b", "0")), a_shard("a"), a_cluster("a")),
    ((a_shard("a", "0"), a_shard("b", "0", "ads")), a_shard("a", "0", "ads"), a_shard("a", "0")),
], ids=["joins", "moves"])  # fmt: skip
def test_a_live_cluster_that_joins_a_group_gets_an_index_there_and_a_warning(
    there: tuple[ClusterBuilder, ...], new: ClusterBuilder, old: ClusterBuilder
) -> None:
    response = Server(*there).ask(new.build(), old.build())
    assert _index(new.build(), response) == "1"
    assert len(response["warnings"]) == 1


@pytest.mark.parametrize("broken", [
    None, [], {"metadata": []}, {"metadata": {"annotations": {GROUP: 1}}},
    {"metadata": {"name": {}}},
])  # fmt: skip
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
    server.clusters.put(cluster_config(a_shard("a", "0").label(names.LABEL_IGNORE, "true")))
    server.clusters.remove(NAMESPACE, "a", "uid-of-a")
    assert server.index(a_shard("b")) == "1", "a was created again, and no one has seen it yet"


COUNT = names.ANNOTATION_SHARD_COUNT
AT_COUNT = f"metadata.annotations[{COUNT}]"


def counted(name: str, index: str, count: str) -> ClusterBuilder:
    return a_shard(name, index).annotated(COUNT, count)


def warnings(
    server: Server, new: ClusterBuilder, old: ClusterBuilder | None = None
) -> tuple[str, ...]:
    response = server.ask(new.build(), old.build() if old else None)
    assert response["allowed"], response
    return tuple(response.get("warnings", ()))


A1, A5 = counted("a", "0", "8"), counted("a", "5", "8")
B5 = counted("b", "5", "8")
NO_COUNT = (a_shard("a", "0"), a_shard("b", "5"))
HELD = (a_shard("holder", " 3", group="search\n"),)
GROUP_OF_2 = (counted("a", "0", "1"), counted("b", "1", "2"))


@pytest.mark.parametrize(("there", "new", "old", "field", "says"), [
    (HELD, a_shard("a", "3", group=" search"), None, AT_INDEX, "holder has index 3"),
    (MINE, a_shard("a", "5"), MINE[0], AT_INDEX, "immutable"),
    ((a_shard("b", "1"),), a_shard("a", "1"), a_shard("a", "x"), AT_INDEX, "b has index 1"),
    *(((), a_shard("a", index), None, AT_INDEX, "") for index in ("-1", "01", "1048576", "1 2")),
    *(((), a_shard(group=group), None, AT_GROUP, "") for group in ("-a", "x" * 64, "ä", "a\nb")),
    ((), counted("a", "4", "4"), None, AT_INDEX, "not below shard-count 4"),
    *(((), counted("a", "", text), None, AT_COUNT, "") for text in ("x", "08")),
    ((A1, counted("b", "1", "16")), counted("c", "", "8"), None, AT_COUNT, "write 16"),
    ((A1, B5), counted("a", "0", "5"), A1, AT_COUNT, "index 5, which is not below 5: write 6 "),
    (NO_COUNT, counted("a", "0", "5"), NO_COUNT[0], AT_COUNT, "b has index 5"),
    (NO_COUNT, counted("c", "", "5"), None, AT_COUNT, "b has index 5"),
    ((), counted("a", "5", "5"), A5, AT_INDEX, ""),
    ((), counted("a", "", "5"), A5, AT_INDEX, ""),
    (GROUP_OF_2, a_shard("c"), None, AT_COUNT, "2 shards"),
    ((counted("a", "0", "2"), GROUP_OF_2[1]), counted("c", "", "2"), None, AT_COUNT, "2 shards"),
    (GROUP_OF_2, a_shard("c", "20"), None, AT_INDEX, ""),
    (GROUP_OF_2, a_shard("c"), a_cluster("c"), AT_COUNT, ""),
])  # fmt: skip
def test_an_index_count_or_group_that_does_not_fit_is_refused(
    there: tuple[ClusterBuilder, ...],
    new: ClusterBuilder,
    old: ClusterBuilder | None,
    field: str,
    says: str,
) -> None:
    server, following = Server(*there), a_shard("next").build()
    at, message = server.refused(new, old)
    assert at == field
    assert says in message
    before, after = (each.ask(following, uid="a") for each in (Server(*there), server))
    assert before == after, "nothing is reserved"


@pytest.mark.parametrize(("there", "new", "old", "expected"), [
    ((A1,), counted("b", "", "8"), None, []),
    (GROUP_OF_2, counted("c", "", "3"), None, ["a and 1 more"]),
    ((A1, B5), counted("a", "0", "16"), A1, ["b"]),
    ((A1, B5), counted("a", "0", "6"), A1, ["b"]),
    (NO_COUNT, counted("a", "0", "6"), NO_COUNT[0], ["b"]),
    ((counted("b", "1", "8"),), counted("a", "0", "4"), counted("a", "0", "4"), []),
    ((A1,), a_shard("b"), None, ["shard-count 8"]),
    ((a_shard("a", "0"),), a_shard("b"), None, []),
    (GROUP_OF_2, a_shard("b", "1"), GROUP_OF_2[1], ["shard-count 1"]),
])  # fmt: skip
def test_a_count_that_differs_from_that_of_others_is_a_warning(
    there: tuple[ClusterBuilder, ...],
    new: ClusterBuilder,
    old: ClusterBuilder | None,
    expected: list[str],
) -> None:
    found = warnings(Server(*there), new, old)
    assert all(text in warning for text, warning in zip(expected, found, strict=True))


def test_an_index_below_the_count_of_the_group_is_given_and_taken() -> None:
    assert Server().index(counted("a", "3", "4")) == "3"
    assert Server(GROUP_OF_2[1]).index(a_shard("c")) == "0"


def test_a_cluster_that_came_while_there_was_no_index_left_may_be_changed() -> None:
    server = Server(counted("a", "0", "2"), counted("b", "1", "2"))
    old, new = a_shard("c"), a_shard("c").spec(enableInTreeAutoscaling=True)
    assert server.index(new, old) is None
    (warning,) = warnings(server, new, old)
    assert warning.startswith("no index: shard group")
