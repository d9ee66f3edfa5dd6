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


def recreated() -> ClusterBuilder:
    return a_cluster().spec(upgradeStrategy={"type": "Recreate"})


def of_service() -> ClusterBuilder:
    return a_cluster().label("ray.io/originated-from-crd", "RayService")


HOSTS = "num-of-hosts-invalid"
SECOND = "spec.workerGroupSpecs[1]"
UPDATES: dict[str, tuple[Built, Built, set[tuple[str, str, str]]]] = {
    "broken before, and more now": (broken_cluster(), broken_cluster().group("headgroup"),
     {("warn", HOSTS, f"{GROUP}.numOfHosts"),
      ("deny", "group-name-reserved", f"{SECOND}.groupName")}),
    "another wrong value": (broken_cluster(), a_cluster().group(hosts=-1),
     {("warn", HOSTS, f"{GROUP}.numOfHosts"),
      ("warn", "num-of-hosts-changed", f"{GROUP}.numOfHosts")}),
    "a broken group that moves": (broken_cluster(), a_cluster().group("first").group(hosts=0),
     {("warn", HOSTS, f"{SECOND}.numOfHosts")}),
    "a second group with the problem": (
        broken_cluster(), broken_cluster().group("other", hosts=0),
        {("warn", HOSTS, f"{GROUP}.numOfHosts"), ("deny", HOSTS, f"{SECOND}.numOfHosts")}),
    "a message that tells of another field": (
        a_cluster().group(minReplicas=9, maxReplicas=2),
        a_cluster().group(minReplicas=9, maxReplicas=3),
        {("warn", "replica-bounds-invalid", f"{GROUP}.minReplicas")}),
    "a partial fix": (a_cluster().group().tpu("4x4", 4), a_cluster().group(hosts=2).tpu("4x4", 4),
     {("warn", "tpu-topology-mismatch", f"{GROUP}.numOfHosts"),
      ("warn", "num-of-hosts-changed", f"{GROUP}.numOfHosts")}),
    "a deletion": (a_cluster(), a_cluster().group("headgroup", hosts=0)
     .meta(deletionTimestamp="2026-01-01T00:00:00Z"), set()),
    "a finalizer that goes": (
        broken_cluster().meta(finalizers=["ray.io/gcs-ft"], resourceVersion="1"),
        broken_cluster().meta(resourceVersion="2"), set()),
    "an annotation": (a_cluster().group(), a_cluster().group().annotated("ray.io/ippr", "[]"),
     {("warn", "ippr-malformed", "metadata.annotations[ray.io/ippr]")}),
    "a cluster that does not run": (
        a_cluster().spec(suspend=True).group("a", hosts=2).group("b"),
        a_cluster().group("a", hosts=4).pod(nodeSelector={"pool": "x"}), set()),
    "a group without replicas that goes": (
        a_cluster().group("a").group("b", replicas=0, hosts=2), a_cluster().group("a"), set()),
    "a group without replicas that changes": (
        a_cluster().group("a").group("b", replicas=0, hosts=2),
        a_cluster().group("a").group("b", replicas=0, hosts=4).pod(priorityClassName="high"),
        set()),
    "a renamed group, which is a removed one": (a_cluster().group("a"), a_cluster().group("b"),
     {("warn", "group-removed", "spec.workerGroupSpecs")}),
    "recreation, without a word about groups": (
        recreated().group("a", hosts=2), recreated().group("b", hosts=4),
        {("warn", "recreate-deletes-pods", "spec.workerGroupSpecs")}),
    **{
        f"{field} of schedulers": (
            recreated().group(), recreated().group().pod(**{field: [entry]}), set())
        for field, entry in (
            ("tolerations", {"key": "x", "operator": "Exists"}), ("schedulingGates", {"name": "x"}),
        )
    },
    "a RayService's, which its owner changes": (
        of_service().group("a"), of_service().group("b"), set()),
    "a group that is appended to a RayService's": (
        a_service(a_cluster().group("a")), a_service(a_cluster().group("a").group("b")), set()),
    "one that is appended beside another change": (
        a_service(a_cluster().group("a")),
        a_service(a_cluster().group("a").env("X", "1").group("b")),
        {("warn", "service-starts-new-cluster", "spec.rayClusterConfig.workerGroupSpecs")}),
    "a RayJob's, which stays": (
        a_job(a_cluster().group("a")), a_job(a_cluster().group("b")), set()),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), UPDATES.values(), ids=UPDATES)
def test_an_update(old: Built, new: Built, expected: set[tuple[str, str, str]]) -> None:
    assert found_in_update(old, new) == expected


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


def test_one_more_problem_of_a_field_that_had_one_is_new() -> None:
    problem = ("ippr-malformed", "metadata.annotations[ray.io/ippr]")
    old, new = (
        a_cluster().autoscaled(version="v2").group().annotated("ray.io/ippr", text)
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
    assert ("warn", *problem) in found_in_update(after, later.annotated("a", "b"))


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


@pytest.mark.parametrize("old", [
    None, 1, "x", [], {}, {"metadata": None, "spec": "x"}, {"spec": {"workerGroupSpecs": "x"}},
])  # fmt: skip
def test_an_old_object_may_be_garbage(old: object) -> None:
    listed = check_update("RayCluster", old, broken_cluster().build())
    assert ("deny", "num-of-hosts-invalid") in {(each.level, each.rule) for each in listed}


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
