"""Scheduling groups and shard groups: unknown values, unmet preconditions, and settings without
effect.
"""

import pytest

from tests.harness.ray_objects import (
    Built,
    ClusterBuilder,
    a_cluster,
    a_job,
    a_service,
    findings,
    found,
    found_in_update,
)
from webhook.api import names
from webhook.groups.annotations import CLUSTER, GRANULARITIES
from webhook.validation.rule_settings import RuleSettings

OURS = names.ANNOTATION_SCHEDULING_GROUP
AT = f"metadata.annotations[{OURS}]"
HAS_NONE = RuleSettings(pod_groups=False)
GROUP, INDEX = names.ANNOTATION_SHARD_GROUP, names.ANNOTATION_SHARD_INDEX
AT_INDEX = f"metadata.annotations[{INDEX}]"


def asking(granularity: str) -> ClusterBuilder:
    return a_cluster().annotated(OURS, granularity).group(hosts=4)


UNKNOWN, SERVED = RuleSettings(), RuleSettings(pod_groups=True)
UNMET, NO_VALUE = "scheduling-group-obstacle", "annotation-value-invalid"


@pytest.mark.parametrize(("built", "settings", "rule"), [
    *((asking(granularity), UNKNOWN, "") for granularity in ("", " cluster", *GRANULARITIES)),
    *((asking("replica").label(label, "true"), UNKNOWN, UNMET)
      for label in (names.LABEL_GANG, "volcano.sh/queue-name", "kai.scheduler/queue")),
    (asking("worker-group").pod(schedulerName="volcano"), UNKNOWN, UNMET),
    (asking("cluster").pod(schedulerName="mine"), UNKNOWN, UNMET),
    (asking("worker-group").pod(schedulerName="mine"), UNKNOWN, ""),
    (asking("cluster").pod(priorityClassName="high"), UNKNOWN, UNMET),
    (asking("worker-group").pod(priorityClassName="high"), UNKNOWN, ""),
    (asking("worker-group").head_pod(priorityClassName="high"), UNKNOWN, ""),
    (asking("cluster").head_pod(schedulerName="default-scheduler"), UNKNOWN, ""),
    *((asking(granularity).autoscaled(), UNKNOWN, UNMET if granularity == CLUSTER else "")
      for granularity in GRANULARITIES),
    (asking("replica").pod(evictionResponders=[{"name": "drain.example.com"}]), UNKNOWN, UNMET),
    (a_cluster().annotated(OURS, "replica").group(), UNKNOWN, "annotation-without-effect"),
    (asking("replica").group("single"), SERVED, ""),
    (asking("replica"), HAS_NONE, "scheduling-group-not-served"),
    (a_cluster().group(), HAS_NONE, ""), (asking("pods"), HAS_NONE, NO_VALUE),
    (asking("replica").label(names.LABEL_GANG, "true"), HAS_NONE, UNMET),
    (a_job(a_cluster().group()).annotated(OURS, "pods"), UNKNOWN, NO_VALUE),
    (a_service(a_cluster().group()).annotated(OURS, "pods"), UNKNOWN, NO_VALUE),
])  # fmt: skip
def test_what_keeps_pods_from_their_group_is_found_once(
    built: Built, settings: RuleSettings, rule: str
) -> None:
    assert found(built, settings) == ({(rule, AT)} if rule else set())


@pytest.mark.parametrize(("cluster", "remedies"), [
    (asking("worker-group"), ("schedulingGroup", OURS)),
    (a_cluster().group(), (OURS, names.LABEL_GANG)),
])  # fmt: skip
def test_a_scheduling_group_in_a_template_has_its_remedies(
    cluster: ClusterBuilder, remedies: tuple[str, ...]
) -> None:
    (finding,) = findings(cluster.pod(schedulingGroup={"podGroupName": "mine"}))
    assert finding.rule == "scheduling-group-in-template"
    assert all(text in finding.message for text in remedies)


@pytest.mark.parametrize(("name", "said"), [
    (names.PREFIX + "gang-scheduling", "scheduling-group"),
    (names.PREFIX + "x", "docs/annotations.md"),
    (names.PREFIX + "gang-scheduling-group", "did you mean scheduling-group?"),
    (names.PREFIX + "gpu-profiles", "did you mean profiles?"),
    (names.LABEL_IGNORE, "write it as label"),
    (names.ANNOTATION_PRIORITY_CLASS, "there is no such name"),
])  # fmt: skip
def test_a_name_of_ours_that_has_no_effect_is_found(name: str, said: str) -> None:
    (finding,) = findings(a_cluster().annotated(name, "true").group())
    assert (finding.rule, finding.level) == ("webhook-name-unknown", "warn")
    assert said in finding.message


@pytest.mark.parametrize(("key", "text", "gpus", "settings", "said"), [
    (names.ANNOTATION_REPAIR, "true", 0, RuleSettings(repairs=False), "repair is off"),
    (names.ANNOTATION_COMPUTE_DOMAIN, "replica", 8, UNKNOWN, "groups with GPUs have one host"),
    (names.ANNOTATION_COMPUTE_DOMAIN, "replica", 0, UNKNOWN, "no worker group has GPUs"),
])  # fmt: skip
def test_an_annotation_that_nothing_reads_says_what_is_missing(
    key: str, text: str, gpus: int, settings: RuleSettings, said: str
) -> None:
    cluster = a_cluster().annotated(key, text).group()
    if gpus:
        cluster.device("nvidia.com/gpu", gpus)
    (finding,) = findings(cluster, "annotation-without-effect", settings=settings)
    assert said in finding.message


def test_the_ignore_label_has_no_effect_where_its_setting_is_off() -> None:
    cluster = a_cluster().label(names.LABEL_IGNORE, "true")
    (finding,) = findings(cluster, settings=RuleSettings(ignoring=False))
    assert "ignore.rayclusters is off" in finding.message


def test_an_annotation_among_the_labels_is_found() -> None:
    (finding,) = findings(a_cluster().label(OURS, "replica").group())
    assert "write it as annotation" in finding.message


def shard(group: str | None = "search", index: str | None = None) -> Built:
    cluster = a_cluster().group()
    for name, value in ((GROUP, group), (INDEX, index)):
        if value is not None:
            cluster.annotated(name, value)
    return cluster


def test_an_index_needs_a_group() -> None:
    without_effect = {("annotation-without-effect", AT_INDEX)}
    assert found(shard(None, "0")) == found(shard("", "0")) == without_effect


def test_an_index_that_would_be_copied_to_several_clusters_is_refused() -> None:
    job = a_job().annotated(GROUP, "search")
    assert found(job) == set()
    assert found(job.annotated(INDEX, "0")) == {("shard-index-copied", AT_INDEX)}


@pytest.mark.parametrize(("old", "new", "rules"), [
    (shard("search", "0"), shard("search", "1"), {("deny", "shard-index-changed", AT_INDEX)}),
    (shard("search", "0"), shard("search"), set()),
    (shard("search"), shard("search", "0"), set()),
    (shard("search", "x"), shard("search", "0"), set()),
    (shard("search", "0"), shard("ads", "1"), set()),
    (shard(None, "0"), shard("search", "1"), set()),
], ids=["changed", "dropped", "added", "corrected", "another group", "joined"])  # fmt: skip
def test_the_index_is_constant(old: Built, new: Built, rules: set[tuple[str, str, str]]) -> None:
    assert found_in_update(old, new) == rules


def test_an_index_that_was_wrong_before_does_not_block_an_update() -> None:
    assert found_in_update(shard("search", "x"), shard("search", "x").label("team", "a")) == {
        ("warn", "annotation-value-invalid", AT_INDEX)
    }
