"""Updates: allowed ones, those with warnings only, and the described effects."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.ray_objects import (
    Built,
    ClusterBuilder,
    a_cluster,
    a_cron_job,
    a_job,
    a_service,
    found_in_update,
)
from webhook.validation.rule_settings import RuleSettings
from webhook.validation.ruleset import check_update

GROUP = "spec.workerGroupSpecs[0]"
AMOUNT = {"limits": {"nvidia.com/gpu": "0.5"}}
AMOUNT_RULE = "pod-quantity-invalid"


def broken_cluster() -> ClusterBuilder:
    return a_cluster().group(hosts=0)


def test_what_was_broken_before_is_a_warning_and_what_breaks_now_is_a_denial() -> None:
    assert found_in_update(broken_cluster(), broken_cluster().group("headgroup")) == {
        ("warn", "num-of-hosts-invalid", f"{GROUP}.numOfHosts"),
        ("deny", "group-name-reserved", "spec.workerGroupSpecs[1].groupName"),
    }


def test_a_broken_group_stays_the_same_group_when_it_moves() -> None:
    new = a_cluster().group("first").group(hosts=0)
    assert found_in_update(broken_cluster(), new) == {
        ("warn", "num-of-hosts-invalid", "spec.workerGroupSpecs[1].numOfHosts")
    }


@pytest.mark.parametrize(("old", "new", "level"), [
    (("a",), ("b",), "warn"),  # renamed
    (("a",), ("b", "a"), "deny"),  # the broken one is whole now, and another one is broken
    (("x", "a"), ("b", "x"), "deny"),  # at another place
])  # fmt: skip
def test_a_renamed_group_is_itself(old: tuple[str, ...], new: tuple[str, ...], level: str) -> None:
    before, after = a_cluster(), a_cluster()
    for cluster, groups in ((before, old), (after, new)):
        for name in groups:
            broken = name == "b" or (cluster is before and name == "a")
            cluster.group(name, hosts=0 if broken else 1)
    found = found_in_update(before, after)
    levels = {each[0] for each in found if each[1] == "num-of-hosts-invalid"}
    assert levels == {level}


def test_a_container_that_is_renamed_keeps_its_old_problem_as_a_warning() -> None:
    before, after = (
        a_cluster().group().pod(containers=[{"name": name, "resources": AMOUNT}])
        for name in ("ray-worker", "ray")
    )
    levels = {each[0] for each in found_in_update(before, after) if each[1] == AMOUNT_RULE}
    assert levels == {"warn"}


def test_another_wrong_value_in_a_field_that_had_this_problem_is_a_warning() -> None:
    problem = ("num-of-hosts-invalid", f"{GROUP}.numOfHosts")
    new = a_cluster().group(hosts=-1)
    again = found_in_update(broken_cluster(), new)
    assert ("warn", *problem) in again
    assert ("deny", *problem) not in again
    assert ("deny", *problem) in found_in_update(a_cluster().group(), new)


def test_a_partial_fix_is_a_warning() -> None:
    old, new = (a_cluster().group(hosts=hosts).tpu("4x4", 4) for hosts in (1, 2))
    problem = ("tpu-topology-mismatch", f"{GROUP}.numOfHosts")
    assert found_in_update(old, new) == {
        ("warn", *problem),
        ("warn", "num-of-hosts-changed", problem[1]),
    }


def test_a_second_group_with_the_same_problem_is_a_new_problem() -> None:
    new = broken_cluster().group("other", hosts=0)
    assert found_in_update(broken_cluster(), new) == {
        ("warn", "num-of-hosts-invalid", f"{GROUP}.numOfHosts"),
        ("deny", "num-of-hosts-invalid", "spec.workerGroupSpecs[1].numOfHosts"),
    }


def test_a_problem_is_not_new_because_its_message_tells_of_another_field() -> None:
    old, new = (a_cluster().group(minReplicas=9, maxReplicas=most) for most in (2, 3))
    assert found_in_update(old, new) == {("warn", "replica-bounds-invalid", f"{GROUP}.minReplicas")}


def test_one_more_problem_of_a_field_that_had_one_is_new() -> None:
    problem = ("ippr-malformed", "metadata.annotations[ray.io/ippr]")
    old, new = (
        a_cluster().autoscaled(version="v2").group().annotation("ray.io/ippr", text)
        for text in ('{"groups": {"a": 1}}', '{"groups": {"a": 1, "b": 1}}')
    )
    for each in (old, new):
        each.head_container(image="rayproject/ray:2.56.0")
    assert ("deny", *problem) in found_in_update(old, new)
    assert ("deny", *problem) not in found_in_update(new, old)


def test_a_warning_that_an_update_turns_into_a_denial_is_new() -> None:
    problem = ("group-resource-unreadable", f"{GROUP}.resources[CPU]")
    before, after, later = (
        each.group(resources={"CPU": "many"})
        for each in (a_cluster(), a_cluster().autoscaled(), a_cluster().autoscaled())
    )
    assert ("deny", *problem) in found_in_update(before, after)
    assert ("warn", *problem) in found_in_update(after, later.annotation("a", "b"))


def test_an_object_that_is_being_deleted_has_no_findings() -> None:
    new = a_cluster().group("headgroup", hosts=0).meta(deletionTimestamp="2026-01-01T00:00:00Z")
    assert found_in_update(a_cluster(), new) == set()


def test_a_finalizer_may_go_from_a_broken_object() -> None:
    old = broken_cluster().meta(finalizers=["ray.io/gcs-ft"], resourceVersion="1")
    assert found_in_update(old, broken_cluster().meta(resourceVersion="2")) == set()


@pytest.mark.parametrize(
    "embed", [lambda cluster: cluster, a_job, a_service, lambda cluster: a_cron_job(a_job(cluster))]
)
def test_scaling_a_broken_cluster_needs_no_check(embed: Callable[[ClusterBuilder], Built]) -> None:
    old: Built = embed(broken_cluster().group("other"))
    scaled = a_cluster().group(hosts=0, replicas=7, scaleStrategy={"workersToDelete": ["pod"]})
    scaled.group("other", replicas=None)
    assert check_update(old.kind, old.build(), embed(scaled).build()) == []


@pytest.mark.parametrize(
    "change", [{"maxReplicas": 20}, {"minReplicas": 1}, {"numOfHosts": -1}, {"groupName": "else"}]
)
def test_any_other_change_of_a_group_is_looked_at(change: dict[str, Any]) -> None:
    assert found_in_update(broken_cluster(), a_cluster().group(**{"hosts": 0, **change})) != set()


def test_a_changed_annotation_is_looked_at() -> None:
    new = a_cluster().group().annotation("ray.io/ippr", "[]")
    assert found_in_update(a_cluster().group(), new) == {
        ("warn", "ippr-malformed", "metadata.annotations[ray.io/ippr]")
    }


@pytest.mark.parametrize("old", [
    None, 1, "x", [], {}, {"metadata": None, "spec": "x"}, {"spec": {"workerGroupSpecs": "x"}},
])  # fmt: skip
def test_an_old_object_may_be_garbage(old: object) -> None:
    listed = check_update("RayCluster", old, broken_cluster().build())
    assert ("deny", "num-of-hosts-invalid") in {(each.level, each.rule) for each in listed}


def test_a_cluster_that_does_not_run_may_change_as_it_likes() -> None:
    old = a_cluster().spec(suspend=True).group("a", hosts=2).group("b")
    new = a_cluster().group("a", hosts=4).pod(nodeSelector={"pool": "x"})
    assert found_in_update(old, new) == set()


def test_a_group_without_replicas_may_change_and_go() -> None:
    old = a_cluster().group("a").group("b", replicas=0, hosts=2)
    assert found_in_update(old, a_cluster().group("a")) == set()
    changed = a_cluster().group("a").group("b", replicas=0, hosts=4).pod(priorityClassName="high")
    assert found_in_update(old, changed) == set()


def test_a_renamed_group_is_a_removed_one() -> None:
    assert found_in_update(a_cluster().group("a"), a_cluster().group("b")) == {
        ("warn", "group-removed", "spec.workerGroupSpecs")
    }


def test_every_group_that_stays_old_is_named() -> None:
    old = a_cluster().group("a").group("b").group("c")
    new = a_cluster().group("a").env("X", "1").group("b").head_env("X", "1")
    new.group("c", rayStartParams={"num-cpus": "2"})
    findings = check_update("RayCluster", old.build(), new.build())
    assert [(finding.rule, finding.path) for finding in findings] == [
        ("pods-stay-old", "spec.headGroupSpec.template"),
        ("pods-stay-old", f"{GROUP}.template"),
        ("pods-stay-old", "spec.workerGroupSpecs[2].rayStartParams"),
    ]
    named = ["the head", 'worker group "a"', 'worker group "c"']
    assert [finding.text.split(": ")[0] for finding in findings] == named


def test_recreating_needs_no_word_about_single_groups() -> None:
    recreated = {"upgradeStrategy": {"type": "Recreate"}}
    old, new = (
        a_cluster().spec(**recreated).group("a", hosts=2),
        a_cluster().spec(**recreated).group("b", hosts=4),
    )
    assert found_in_update(old, new) == {("warn", "recreate-deletes-pods", "spec.workerGroupSpecs")}


@pytest.mark.parametrize(
    ("field", "entry"),
    [("tolerations", {"key": "x", "operator": "Exists"}), ("schedulingGates", {"name": "x"})],
)
def test_schedulers_cause_no_recreation_by_kuberay(field: str, entry: dict[str, str]) -> None:
    recreated = {"upgradeStrategy": {"type": "Recreate"}}
    new = a_cluster().spec(**recreated).group().pod(**{field: [entry]})
    assert found_in_update(a_cluster().spec(**recreated).group(), new) == set()


def test_a_cluster_of_a_rayservice_is_changed_by_its_owner() -> None:
    old, new = (
        a_cluster().label("ray.io/originated-from-crd", "RayService").group(name) for name in "ab"
    )
    assert found_in_update(old, new) == set()


@pytest.mark.parametrize(("strategy", "words"), [
    (None, "at full size"),
    ({"type": "NewClusterWithIncrementalUpgrade"}, "step by step"),
    ({"type": "None"}, "no effect"),
])  # fmt: skip
def test_a_rayservice_says_how_edits_arrive(strategy: dict[str, str] | None, words: str) -> None:
    settings = RuleSettings(
        levels={"incremental-options-missing": "off", "incremental-without-autoscaling": "off"}
    )
    old, new = (
        a_service(a_cluster().group(name)).spec(upgradeStrategy=strategy) for name in ("a", "b")
    )
    findings = check_update("RayService", old.build(), new.build(), settings)
    assert [finding.rule for finding in findings] == ["service-starts-new-cluster"]
    assert words in findings[0].message


def test_a_change_of_a_rayjob_does_not_reach_its_cluster_so_nothing_is_said() -> None:
    assert found_in_update(a_job(a_cluster().group("a")), a_job(a_cluster().group("b"))) == set()


def test_a_level_can_be_set_for_updates_too() -> None:
    settings = RuleSettings(levels={"group-removed": "deny", "num-of-hosts-invalid": "off"})
    old, new = a_cluster().group("a"), a_cluster().group("b", hosts=0)
    assert found_in_update(old, new, settings) == {
        ("deny", "group-removed", "spec.workerGroupSpecs")
    }
