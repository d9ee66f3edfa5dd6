"""Scheduling groups of the webhook: unknown values, unmet preconditions, and settings without
effect.
"""

import pytest

from tests.validation.builders import (
    ClusterBuilder,
    a_cluster,
    a_cron_job,
    a_job,
    a_service,
    found,
)
from webhook.api import names
from webhook.groups.annotations import GRANULARITIES
from webhook.validation.rule_settings import RuleSettings
from webhook.validation.ruleset import check

OURS = names.ANNOTATION_SCHEDULING_GROUP
AT = f"metadata.annotations[{OURS}]"
HAS_NONE = RuleSettings(pod_groups=False)


def asking(granularity: str) -> ClusterBuilder:
    """Return a RayCluster with one group of four hosts that asks for scheduling groups."""
    return a_cluster().annotation(OURS, granularity).group(hosts=4)


@pytest.mark.parametrize("granularity", ["", " cluster", *GRANULARITIES])
def test_a_granularity_that_exists_is_fine(granularity: str) -> None:
    assert found(asking(granularity)) == set()


@pytest.mark.parametrize("granularity", ["Replica", "true", "pod"])
def test_one_that_does_not_exist_is_refused(granularity: str) -> None:
    assert found(asking(granularity)) == {("scheduling-group-unknown", AT)}


@pytest.mark.parametrize("granularity", GRANULARITIES)
def test_more_than_seven_worker_groups_worry_nobody(granularity: str) -> None:
    cluster = asking(granularity)
    for number in range(20):
        cluster.group(f"more-{number}")
    assert found(cluster) == set()


@pytest.mark.parametrize(
    ("granularity", "fine"), [("cluster", False), ("worker-group", True), ("replica", True)]
)
def test_autoscaling_leaves_no_gang_of_the_cluster_and_says_so(
    granularity: str, *, fine: bool
) -> None:
    cluster = asking(granularity).autoscaled()
    faults = [
        finding
        for finding in check("RayCluster", cluster.build())
        if finding.rule.startswith("scheduling-group")
    ]
    assert [finding.path for finding in faults] == ([] if fine else [AT])
    assert all("use worker-group or replica" in finding.message for finding in faults)


def test_eviction_responders_in_a_template_stand_in_the_way() -> None:
    cluster = asking("replica").build()
    pod = cluster["spec"]["workerGroupSpecs"][0]["template"]["spec"]
    pod["evictionResponders"] = [{"name": "drain.example.com"}]
    (finding,) = [
        each for each in check("RayCluster", cluster) if each.rule == "scheduling-group-obstacle"
    ]
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


def test_kuberays_annotation_that_was_not_merged_is_read_alike() -> None:
    cluster = (
        a_cluster()
        .annotation(names.ANNOTATION_NATIVE_SCHEDULING, "true")
        .label("kai.scheduler/queue", "q")
        .group()
    )
    at = f"metadata.annotations[{names.ANNOTATION_NATIVE_SCHEDULING}]"
    assert ("scheduling-group-obstacle", at) in found(cluster)
    assert (
        found(a_cluster().annotation(names.ANNOTATION_NATIVE_SCHEDULING, "false").group(), HAS_NONE)
        == set()
    )


def test_replicas_of_one_host_need_no_group() -> None:
    assert found(a_cluster().annotation(OURS, "replica").group()) == {
        ("annotation-without-effect", AT)
    }
    assert found(asking("replica").group("single")) == set()


def test_it_is_only_said_where_it_is_known_that_no_pod_groups_are_served() -> None:
    for served, rules in (
        (None, set()),
        (True, set()),
        (False, {("scheduling-group-not-served", AT)}),
    ):
        assert found(asking("replica"), RuleSettings(pod_groups=served)) == rules
    assert found(a_cluster().group(), HAS_NONE) == set()


def test_what_stands_in_the_way_already_is_not_said_twice() -> None:
    assert found(asking("pods"), HAS_NONE) == {("scheduling-group-unknown", AT)}
    assert found(asking("replica").label(names.LABEL_GANG, "true"), HAS_NONE) == {
        ("scheduling-group-obstacle", AT)
    }


def test_annotations_of_jobs_and_services_are_those_of_their_clusters() -> None:
    for built in (a_job(a_cluster().group()), a_service(a_cluster().group())):
        assert found(built.annotation(OURS, "pods")) == {("scheduling-group-unknown", AT)}
    assert found(a_cron_job().annotation(OURS, "pods")) == set()


def test_a_scheduling_group_in_a_template_of_a_cluster_that_asks_for_groups_is_to_be_removed() -> (
    None
):
    (finding,) = check(
        "RayCluster", asking("worker-group").pod(schedulingGroup={"podGroupName": "mine"}).build()
    )
    assert finding.rule == "scheduling-group-in-template"
    assert "schedulingGroup" in finding.message
    assert OURS in finding.message


def test_an_annotation_without_its_quotes_is_no_string() -> None:
    at = f"metadata.annotations[{names.ANNOTATION_NATIVE_SCHEDULING}]"
    # What YAML makes of it
    cluster = a_cluster().annotation(names.ANNOTATION_NATIVE_SCHEDULING, True).group()  # noqa: FBT003
    assert found(cluster) == {("field-type-wrong", at)}
    # The same
    assert found(a_cluster().label(names.LABEL_IGNORE, True).group()) == {  # noqa: FBT003
        ("field-type-wrong", f"metadata.labels[{names.LABEL_IGNORE}]")
    }


def test_a_list_of_annotations_is_no_map() -> None:
    assert found(a_cluster().group().meta(annotations=["a"])) == {
        ("field-type-wrong", "metadata.annotations")
    }


@pytest.mark.parametrize(
    ("value", "rules"),
    [("True", set()), ("FALSE", set()), ("", set()), ("1", {"native-scheduling-value"})],
)
def test_kuberays_annotation_is_true_or_false(value: str, rules: set[str]) -> None:
    cluster = a_cluster().annotation(names.ANNOTATION_NATIVE_SCHEDULING, value).group()
    assert {rule for rule, _ in found(cluster)} == rules
    assert found(cluster.annotation(OURS, "worker-group")) == set()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (names.PREFIX + "gang-scheduling", "scheduling-group"),
        (names.PREFIX + "x", "docs/annotations.md"),
        (names.PREFIX + "gang-scheduling-group", "did you mean scheduling-group?"),
        (names.PREFIX + "gpu-profiles", "did you mean profiles?"),
        (names.LABEL_IGNORE, "write it as label"),
        (names.ANNOTATION_PRIORITY_CLASS, "there is no such name"),
    ],
)
def test_a_name_of_ours_that_has_no_effect_is_found(name: str, said: str) -> None:
    (finding,) = check("RayCluster", a_cluster().annotation(name, "true").group().build())
    assert (finding.rule, finding.level) == ("webhook-name-unknown", "warn")
    assert said in finding.message


def test_an_annotation_among_the_labels_is_found() -> None:
    (finding,) = check("RayCluster", a_cluster().label(OURS, "replica").group().build())
    assert "write it as annotation" in finding.message


def test_a_scheduling_group_in_a_template_names_both_remedies() -> None:
    cluster = a_cluster().group().pod(schedulingGroup={"podGroupName": "mine"})
    (finding,) = check("RayCluster", cluster.build())
    assert finding.rule == "scheduling-group-in-template"
    assert OURS in finding.message
    assert names.LABEL_GANG in finding.message
