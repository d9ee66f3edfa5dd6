"""Termination of worker pods: cases in addition to the examples."""

import pytest

from tests.harness.ray_objects import Json, a_cluster, found
from webhook.api import names
from webhook.validation.ruleset import check_file

HOOK = {"preStop": {"exec": {"command": ["/bin/sh", "-c", "ray stop"]}}}
RULE = ("grace-too-short", "spec.workerGroupSpecs[0].template.spec.terminationGracePeriodSeconds")


@pytest.mark.parametrize(("asked", "own", "grace", "warned"), [
    (None, "200000", 600, True), (None, "200000", None, True), (None, "59.5", 60, True),
    (None, "50", 60, False), (None, "soon", 60, False), (None, "0", 10, False),
    ("120", "200000", 600, True), ("120", "200000", None, False), ("120", "200000", 200_030, False),
    ("120", "0", 60, False), ("120", "30", 60, False), ("120", "40", 60, True),
])  # fmt: skip
def test_the_drain_of_a_template(
    asked: str | None, own: str, grace: int | None, warned: bool
) -> None:
    cluster = a_cluster().group().env(names.RAY_DRAIN_TIMEOUT, own)
    if asked:
        cluster.annotated(names.ANNOTATION_DRAIN_SECONDS, asked)
    if grace is not None:
        cluster.pod(terminationGracePeriodSeconds=grace)
    assert (RULE in found(cluster)) is warned


def test_a_hook_is_found_once_an_object_in_files_and_not_on_the_head() -> None:
    cluster = a_cluster().group("a").container(lifecycle=HOOK).group("b").container(lifecycle=HOOK)
    cluster.annotated(names.ANNOTATION_DRAIN_SECONDS, "120")
    head = a_cluster().annotated(names.ANNOTATION_DRAIN_SECONDS, "120")
    warned = [each.path for each in check_file("RayCluster", cluster.build())]
    assert warned == [
        "spec.workerGroupSpecs[0].template.spec.containers[0].lifecycle.preStop.exec.command"
    ]
    assert found(cluster) == set()
    assert check_file("RayCluster", head.head_container(lifecycle=HOOK).build()) == []


@pytest.mark.parametrize(("fields", "pod", "warned"), [
    ({}, {}, False),
    ({}, {"nodeSelector": {"cloud.google.com/gke-spot": "true"}}, True),
    ({}, {"nodeSelector": {"cloud.google.com/gke-spot": "false"}}, False),
    ({}, {"nodeSelector": {"eks.amazonaws.com/capacityType": "SPOT"}}, True),
    ({}, {"nodeSelector": {"karpenter.sh/capacity-type": "on-demand"}}, False),
    ({}, {"nodeSelector": {"cloud.google.com/gke-preemptible": "true"}}, True),
    ({"labels": {"ray.io/market-type": "spot"}}, {}, True),
])  # fmt: skip
def test_a_hook_matters_for_drain_or_preemption(fields: Json, pod: Json, warned: bool) -> None:
    cluster = a_cluster().group(**fields).container(lifecycle=HOOK).pod(**pod)
    assert bool(check_file("RayCluster", cluster.build())) is warned
    own = cluster.env(names.RAY_DRAIN_TIMEOUT, "20")
    assert check_file("RayCluster", own.build())
