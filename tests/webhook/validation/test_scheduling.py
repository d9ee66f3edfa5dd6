"""Scheduling groups: unknown values, unmet preconditions, and settings without effect."""

import pytest

from tests.harness.ray_objects import (
    Built,
    ClusterBuilder,
    a_cluster,
    a_job,
    a_service,
    findings,
    found,
)
from webhook.api import names
from webhook.groups.annotations import CLUSTER, GRANULARITIES
from webhook.validation.rule_settings import RuleSettings

OURS = names.ANNOTATION_SCHEDULING_GROUP
AT = f"metadata.annotations[{OURS}]"
HAS_NONE = RuleSettings(pod_groups=False)


def asking(granularity: str) -> ClusterBuilder:
    return a_cluster().annotation(OURS, granularity).group(hosts=4)


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
    (a_cluster().annotation(OURS, "replica").group(), UNKNOWN, "annotation-without-effect"),
    (asking("replica").group("single"), SERVED, ""),
    (asking("replica"), HAS_NONE, "scheduling-group-not-served"),
    (a_cluster().group(), HAS_NONE, ""), (asking("pods"), HAS_NONE, NO_VALUE),
    (asking("replica").label(names.LABEL_GANG, "true"), HAS_NONE, UNMET),
    (a_job(a_cluster().group()).annotation(OURS, "pods"), UNKNOWN, NO_VALUE),
    (a_service(a_cluster().group()).annotation(OURS, "pods"), UNKNOWN, NO_VALUE),
])  # fmt: skip
def test_what_keeps_pods_from_their_group_is_found_once(
    built: Built, settings: RuleSettings, rule: str
) -> None:
    assert found(built, settings) == ({(rule, AT)} if rule else set())


def test_a_scheduling_group_in_a_template_of_a_cluster_with_groups_goes() -> None:
    (finding,) = findings(asking("worker-group").pod(schedulingGroup={"podGroupName": "mine"}))
    assert finding.rule == "scheduling-group-in-template"
    assert "schedulingGroup" in finding.message
    assert OURS in finding.message


@pytest.mark.parametrize(("name", "said"), [
    (names.PREFIX + "gang-scheduling", "scheduling-group"),
    (names.PREFIX + "x", "docs/annotations.md"),
    (names.PREFIX + "gang-scheduling-group", "did you mean scheduling-group?"),
    (names.PREFIX + "gpu-profiles", "did you mean profiles?"),
    (names.LABEL_IGNORE, "write it as label"),
    (names.ANNOTATION_PRIORITY_CLASS, "there is no such name"),
])  # fmt: skip
def test_a_name_of_ours_that_has_no_effect_is_found(name: str, said: str) -> None:
    (finding,) = findings(a_cluster().annotation(name, "true").group())
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
    cluster = a_cluster().annotation(key, text).group()
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


def test_a_scheduling_group_in_a_template_names_both_remedies() -> None:
    cluster = a_cluster().group().pod(schedulingGroup={"podGroupName": "mine"})
    (finding,) = findings(cluster)
    assert finding.rule == "scheduling-group-in-template"
    assert OURS in finding.message
    assert names.LABEL_GANG in finding.message
