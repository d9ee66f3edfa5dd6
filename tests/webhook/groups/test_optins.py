"""One row for each annotation: all components read it alike, and a page describes it."""

import re

import pytest

from tests import ROOT
from tests.builders import a_cluster, cluster_config
from webhook.accelerators.profiles import NONE
from webhook.accelerators.profiles import PROFILES as BUILT_IN
from webhook.api import names
from webhook.groups.annotations import (
    ANNOTATIONS,
    GRANULARITIES,
    INDEX_LIMIT,
    NODE_LABELS,
    OPT_INS,
    PROFILES,
    SCHEDULING_GROUP,
    SHARD_GROUP,
    TOPOLOGY_KEY,
    OptIn,
    read_count,
    read_index,
)


def test_every_annotation_of_ours_that_people_write_has_a_row() -> None:
    ours = {
        value
        for name, value in vars(names).items()
        if name.startswith("ANNOTATION_") and str(value).startswith(names.PREFIX)
    }
    written_here = {
        names.ANNOTATION_PRIORITY_CLASS, names.ANNOTATION_RESERVATIONS, names.ANNOTATION_HOLDER,
        names.ANNOTATION_IDENTITY}  # fmt: skip
    assert ours - written_here == set(ANNOTATIONS)


@pytest.mark.parametrize("row", OPT_INS, ids=lambda row: row.annotation)
def test_an_absent_or_empty_annotation_is_no_problem(row: OptIn[object]) -> None:
    assert not row.read({})
    assert not row.read({row.annotation: ""})
    assert row.problem("") == ""


VALUES = {
    names.ANNOTATION_TOPOLOGY_KEY: "rack", names.ANNOTATION_PROFILES: "vllm",
    names.ANNOTATION_SCHEDULING_GROUP: "cluster", names.ANNOTATION_SHARD_GROUP: "search",
    names.ANNOTATION_SHARD_INDEX: "3", names.ANNOTATION_SHARD_COUNT: "4",
    names.ANNOTATION_DRAIN_SECONDS: "60", names.ANNOTATION_MAX_DISRUPTED: "1",
    names.ANNOTATION_COMPUTE_DOMAIN: "worker-group",
    names.ANNOTATION_NODE_LABELS: "rack=rack", names.ANNOTATION_KEEP_NODES: "all",
    names.ANNOTATION_RESTART: names.RESTART_REPLICA,
}  # fmt: skip
"""A value of each annotation that takes something else than `true`."""


@pytest.mark.parametrize("row", OPT_INS, ids=lambda row: row.annotation)
def test_every_annotation_changes_what_is_known_of_its_raycluster(row: OptIn[object]) -> None:
    sharded = names.ANNOTATION_SHARD_GROUP, "" if row is SHARD_GROUP else "g"
    cluster = a_cluster("c").group("g", hosts=2).annotated(*sharded)
    before = cluster_config(cluster)
    after = cluster_config(cluster.annotated(row.annotation, VALUES.get(row.annotation, "true")))
    assert before != after


@pytest.mark.parametrize("row", OPT_INS, ids=lambda row: row.annotation)
def test_the_page_of_a_row_speaks_of_its_annotation(row: OptIn[object]) -> None:
    text = (ROOT / "docs" / row.page.partition("#")[0]).read_text(encoding="utf-8")
    assert re.search(rf"{row.annotation.removeprefix(names.PREFIX)}\b", text)


def test_profiles_are_a_list_with_blanks_where_people_put_them() -> None:
    assert PROFILES.read({PROFILES.annotation: " torchrun, vllm ,,"}) == ("torchrun", "vllm")


def test_a_problem_says_what_may_be_written() -> None:
    assert all(
        name in PROFILES.problem("torchrunn")
        for name in ("'torchrunn'", *(profile.name for profile in BUILT_IN), NONE)
    )
    assert all(name in SCHEDULING_GROUP.problem("pod") for name in ("'pod'", *GRANULARITIES))
    assert "not a node label key" in TOPOLOGY_KEY.problem("not a key!")


@pytest.mark.parametrize("row", OPT_INS, ids=lambda row: row.annotation)
def test_no_row_takes_whatever_is_written(row: OptIn[object]) -> None:
    assert "'a value!'" in row.problem("a value!")


def test_a_problem_is_short_however_long_the_value() -> None:
    for row in OPT_INS:
        assert len(row.problem("x!" * 10_000)) < 200


@pytest.mark.parametrize(("text", "fault"), [
    ("a=b", ""), ("a=b,c=d", ""), ("a", "write <node label>=<Ray label>"),
    ("a=ray.io/node-id", "Ray sets ray.io/node-id itself"),
    ("a=b,c=b", "two node labels become b"),
])  # fmt: skip
def test_a_pair_of_labels_that_ray_cannot_take_is_refused(text: str, fault: str) -> None:
    found = NODE_LABELS.problem(text)
    assert (fault in found) if fault else not found


@pytest.mark.parametrize(("text", "index", "count"), [
    ("0", 0, None), ("7", 7, 7),
    (str(INDEX_LIMIT - 1), INDEX_LIMIT - 1, INDEX_LIMIT - 1),
    (str(INDEX_LIMIT), None, INDEX_LIMIT), (str(INDEX_LIMIT + 1), None, None),
    *((text, None, None) for text in ("", "-1", "+1", "00", "01", " 1", "1.0", "1e3", "0x1")),
    *((text, None, None) for text in ("٣", "²", "9" * 5000)),
])  # fmt: skip
def test_shard_numbers_are_plain_decimals(text: str, index: int | None, count: int | None) -> None:
    assert (read_index(text), read_count(text)) == (index, count)
