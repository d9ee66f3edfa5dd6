"""One row for each annotation: its values, what it changes, and its page; and `ray.io/ippr`."""

import re

import pytest

from tests import ROOT, builders
from tests.harness.ray_objects import Built, a_cluster, a_job, a_service, found, rules
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
    RULE,
    SCHEDULING_GROUP,
    SHARD_GROUP,
    TOPOLOGY_KEY,
    OptIn,
    read_count,
    read_index,
)
from webhook.groups.ippr import Maxima, parse_ippr, read_ippr

WRONG = {
    names.ANNOTATION_PROFILES: ("torchrunn", "vllm,Torch", "None", "none,vllm", "vllm, none"),
    names.ANNOTATION_TOPOLOGY_KEY: ("not a key!", "a/b/c", "-x"),
    names.ANNOTATION_SCHEDULING_GROUP: ("pods", "Replica"),
    names.ANNOTATION_SHARD_GROUP: ("no value!", "x" * 64),
    names.ANNOTATION_SHARD_INDEX: ("one", "-1", "007"),
    names.ANNOTATION_SHARD_COUNT: ("0", "-1", "08", "1048577", "eight"),
    names.ANNOTATION_KEEP_NODES: ("true", "head", "None"),
    names.ANNOTATION_REPAIR: ("yes", "replica"),
    names.ANNOTATION_RESTART: ("true", "pod"),
    names.ANNOTATION_REPLICA_LABEL: ("yes", "replica"),
    names.ANNOTATION_NODE_LABELS: ("rack", "rack=", "=rack", "a b=c", "rack=r,x/y/z=r"),
    names.ANNOTATION_COMPUTE_DOMAIN: ("true", "group", "Replica"),
    names.ANNOTATION_MAX_DISRUPTED: ("one", "-1", "01", "65537", "25%"),
    names.ANNOTATION_DRAIN_SECONDS: ("2m", "1.5", "-1", "030", "86401", "٣"),
}
RIGHT = {
    names.ANNOTATION_PROFILES: ("torchrun", "torch-tpu", " vllm , mnnvl,", "none", "none,none"),
    names.ANNOTATION_TOPOLOGY_KEY: ("nvidia.com/gpu.clique", "rack"),
    names.ANNOTATION_SCHEDULING_GROUP: ("cluster",),
    names.ANNOTATION_SHARD_GROUP: ("search",), names.ANNOTATION_SHARD_INDEX: ("0", "12"),
    names.ANNOTATION_SHARD_COUNT: ("1", "1048576"),
    names.ANNOTATION_KEEP_NODES: ("all", "heads", "replicas", "none"),
    names.ANNOTATION_REPAIR: ("true", "false"), names.ANNOTATION_RESTART: ("replica",),
    names.ANNOTATION_REPLICA_LABEL: ("true", "false"),
    names.ANNOTATION_NODE_LABELS: ("nvidia.com/gpu.clique=ray.io/gpu-domain", " a=b, c=d "),
    names.ANNOTATION_COMPUTE_DOMAIN: ("cluster", "worker-group", "replica"),
    names.ANNOTATION_MAX_DISRUPTED: ("1", "0", "65536"),
    names.ANNOTATION_DRAIN_SECONDS: ("120", "0", "86400"),
}  # fmt: skip
"""The first value of each has an effect on a RayCluster."""


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


@pytest.mark.parametrize("row", OPT_INS, ids=lambda row: row.annotation)
def test_every_wrong_value_of_every_annotation_is_found(row: OptIn[object]) -> None:
    for value in WRONG[row.annotation]:
        cluster = a_cluster().group(hosts=2).annotated(row.annotation, value)
        assert (RULE, f"metadata.annotations[{row.annotation}]") in found(cluster), value


@pytest.mark.parametrize(("annotation", "advice"), [
    (names.ANNOTATION_SHARD_INDEX, "remove it to get one, or write 0 to 1048575"),
    (names.ANNOTATION_KEEP_NODES, "write none, heads, replicas or all"),
])  # fmt: skip
def test_a_wrong_value_is_refused_with_the_right_ones(annotation: str, advice: str) -> None:
    (row,) = (each for each in OPT_INS if each.annotation == annotation)
    assert row.problem("x").endswith(advice)


@pytest.mark.parametrize("row", OPT_INS, ids=lambda row: row.annotation)
def test_every_right_value_passes(row: OptIn[object]) -> None:
    for value in (*RIGHT[row.annotation], *(f" {value}\t" for value in RIGHT[row.annotation])):
        cluster = a_cluster().group(hosts=2).annotated(row.annotation, value)
        assert RULE not in rules(cluster), value


@pytest.mark.parametrize("built", [a_job(), a_service()], ids=["RayJob", "RayService"])
def test_an_annotation_that_kuberay_copies_is_checked_where_it_is_written(built: Built) -> None:
    assert (RULE, f"metadata.annotations[{names.ANNOTATION_PROFILES}]") in found(
        built.annotated(names.ANNOTATION_PROFILES, "torchrunn")
    )


@pytest.mark.parametrize("row", OPT_INS, ids=lambda row: row.annotation)
def test_every_annotation_changes_what_is_known_of_its_raycluster(row: OptIn[object]) -> None:
    sharded = names.ANNOTATION_SHARD_GROUP, "" if row is SHARD_GROUP else "g"
    cluster = builders.a_cluster("c").group("g", hosts=2).annotated(*sharded)
    before = builders.cluster_config(cluster)
    after = builders.cluster_config(cluster.annotated(row.annotation, RIGHT[row.annotation][0]))
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


def test_a_problem_repeats_the_value_and_is_short_however_long_that_is() -> None:
    for row in OPT_INS:
        assert "'a value!'" in row.problem("a value!")
        assert len(row.problem("x!" * 10_000)) < 200


@pytest.mark.parametrize(("text", "fault"), [
    ("a=b", ""), ("a=b,c=d", ""), ("a", "write <node label>=<Ray label>"),
    ("a=ray.io/node-id", "Ray sets ray.io/node-id itself"),
    ("a=b,c=b", "two node labels become b"),
])  # fmt: skip
def test_a_pair_of_labels_that_ray_cannot_take_is_refused(text: str, fault: str) -> None:
    problem = NODE_LABELS.problem(text)
    assert (fault in problem) if fault else not problem


@pytest.mark.parametrize(("text", "index", "count"), [
    ("0", 0, None), ("7", 7, 7),
    (str(INDEX_LIMIT - 1), INDEX_LIMIT - 1, INDEX_LIMIT - 1),
    (str(INDEX_LIMIT), None, INDEX_LIMIT), (str(INDEX_LIMIT + 1), None, None),
    *((text, None, None) for text in ("", "-1", "+1", "00", "01", " 1", "1.0", "1e3", "0x1")),
    *((text, None, None) for text in ("٣", "²", "9" * 5000)),
])  # fmt: skip
def test_shard_numbers_are_plain_decimals(text: str, index: int | None, count: int | None) -> None:
    assert (read_index(text), read_count(text)) == (index, count)


LISTED = '"groups": {"g": {"max-cpu": 8, "max-memory": "8Gi", "resize-timeout": 60}}'


@pytest.mark.parametrize(
    "beside", ['"x": NaN', '"\\ud800": 1', '"x": "\\ud800"', '"x": Infinity', '"x": [1, {}]']
)
def test_what_ray_reads_lists_its_groups_whatever_stands_beside_them(beside: str) -> None:
    text = f"{{{LISTED}, {beside}}}"
    assert parse_ippr(text)[1] == ""
    assert read_ippr(text) == {"g": Maxima(8, "8Gi")}


@pytest.mark.parametrize("key", ["x", "\\ud800"])
def test_a_key_of_a_group_that_ray_does_not_know_is_passed_over(key: str) -> None:
    text = f'{{"groups": {{"g": {{"max-cpu": 8, "{key}": NaN}}}}}}'
    assert read_ippr(text) == {"g": Maxima(8, None)}


@pytest.mark.parametrize("text", [
    "", " ", "{", "[]", "null", '{"groups": null}', '{"groups": []}', '{"groups": {"g": 1}}',
    '{"groups": {"g": {"max-cpu": true}}}', "[" * 100_000,
])  # fmt: skip
def test_what_ray_refuses_lists_nothing(text: str) -> None:
    assert read_ippr(text) == {}
