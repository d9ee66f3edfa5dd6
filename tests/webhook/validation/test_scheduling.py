"""Scheduling groups: unknown values, unmet preconditions, and settings without effect."""

import pytest

from tests.harness.ray_objects import ClusterBuilder, a_cluster, a_job, a_service, findings, found
from webhook.api import names
from webhook.groups.annotations import GRANULARITIES
from webhook.validation.rule_settings import RuleSettings

OURS = names.ANNOTATION_SCHEDULING_GROUP
AT = f"metadata.annotations[{OURS}]"
HAS_NONE = RuleSettings(pod_groups=False)


def asking(granularity: str) -> ClusterBuilder:
    """Return a RayCluster with one group of four hosts that asks for scheduling groups."""
    return a_cluster().annotation(OURS, granularity).group(hosts=4)


@pytest.mark.parametrize("granularity", ["", " cluster", *GRANULARITIES])
def test_a_granularity_that_exists_is_fine(granularity: str) -> None:
    assert found(asking(granularity)) == set()


@pytest.mark.parametrize(
    ("granularity", "fine"), [("cluster", False), ("worker-group", True), ("replica", True)]
)
def test_autoscaling_leaves_no_gang_of_a_cluster_and_says_so(granularity: str, fine: bool) -> None:
    cluster = asking(granularity).autoscaled()
    faults = findings(cluster, "scheduling-group-obstacle")
    assert [finding.path for finding in faults] == ([] if fine else [AT])
    assert all("use worker-group or replica" in finding.message for finding in faults)


def test_eviction_responders_in_a_template_stand_in_the_way() -> None:
    cluster = asking("replica").pod(evictionResponders=[{"name": "drain.example.com"}])
    (finding,) = findings(cluster, "scheduling-group-obstacle")
    assert "evictionResponders" in finding.message


@pytest.mark.parametrize(
    "label", [names.LABEL_GANG, "volcano.sh/queue-name", "kai.scheduler/queue"]
)
def test_the_gang_of_kuberay_or_of_another_scheduler_stands_in_the_way(label: str) -> None:
    assert found(asking("replica").label(label, "true")) == {("scheduling-group-obstacle", AT)}


def test_another_scheduler_in_a_template_stands_in_the_way() -> None:
    assert found(asking("worker-group").pod(schedulerName="volcano")) == {
        ("scheduling-group-obstacle", AT)
    }


@pytest.mark.parametrize("fields", [{"priorityClassName": "high"}, {"schedulerName": "mine"}])
def test_pods_of_one_group_of_the_whole_cluster_agree(fields: dict[str, object]) -> None:
    assert found(asking("cluster").pod(**fields)) == {("scheduling-group-obstacle", AT)}
    assert found(asking("worker-group").pod(**fields)) == set()


def test_replicas_of_one_host_need_no_group() -> None:
    assert found(a_cluster().annotation(OURS, "replica").group()) == {
        ("annotation-without-effect", AT)
    }
    assert found(asking("replica").group("single")) == set()


def test_it_is_only_said_where_it_is_known_that_no_pod_groups_are_served() -> None:
    reported = {("scheduling-group-not-served", AT)}
    for served, wrong in ((None, set()), (True, set()), (False, reported)):
        assert found(asking("replica"), RuleSettings(pod_groups=served)) == wrong
    assert found(a_cluster().group(), HAS_NONE) == set()


def test_what_stands_in_the_way_already_is_not_said_twice() -> None:
    assert found(asking("pods"), HAS_NONE) == {("annotation-value-invalid", AT)}
    assert found(asking("replica").label(names.LABEL_GANG, "true"), HAS_NONE) == {
        ("scheduling-group-obstacle", AT)
    }


def test_annotations_of_jobs_and_services_are_those_of_their_clusters() -> None:
    for built in (a_job(a_cluster().group()), a_service(a_cluster().group())):
        assert found(built.annotation(OURS, "pods")) == {("annotation-value-invalid", AT)}


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


def test_an_annotation_among_the_labels_is_found() -> None:
    (finding,) = findings(a_cluster().label(OURS, "replica").group())
    assert "write it as annotation" in finding.message


def test_a_scheduling_group_in_a_template_names_both_remedies() -> None:
    cluster = a_cluster().group().pod(schedulingGroup={"podGroupName": "mine"})
    (finding,) = findings(cluster)
    assert finding.rule == "scheduling-group-in-template"
    assert OURS in finding.message
    assert names.LABEL_GANG in finding.message
