"""The view: the page of a RayCluster, and the page of all RayClusters."""

import math

import pytest

from tests.harness.scenes import Scene, instant
from webhook.dashboard import view
from webhook.dashboard.view import build_list_section


def test_a_raycluster_that_is_being_deleted_is_not_said_to_come_up() -> None:
    scene = Scene().without("llama-head", "llama-tpu-worker-0-3")
    scene.cluster["metadata"]["deletionTimestamp"] = instant(60)
    shown = build_list_section(scene.examined().clusters[0])
    assert (shown.state, shown.text) == ("progressing", "being deleted")


def test_pods_that_are_being_deleted_are_counted_where_there_are_some() -> None:
    scene = Scene()
    assert build_list_section(scene.examined().clusters[0]).notes == ()
    scene.changed(
        "llama-tpu-worker-0-3",
        metadata={"deletionTimestamp": instant(5), "deletionGracePeriodSeconds": 30},
    )
    assert build_list_section(scene.examined().clusters[0]).notes == ("1 pod being deleted",)


def test_a_group_without_replicas_has_lost_them_with_its_raycluster() -> None:
    scene = Scene().without(*Scene().pods)
    scene.cluster["metadata"]["deletionTimestamp"] = instant(60)
    assert build_list_section(scene.examined().clusters[0]).groups[0].text == "no replicas"


def test_a_raycluster_says_whose_it_is_and_which_ray_it_runs() -> None:
    scene = Scene()
    owner = {"kind": "RayJob", "name": "train", "uid": "u", "controller": True}
    labels = {"kueue.x-k8s.io/queue-name": "research"}
    scene.cluster["metadata"] |= {"ownerReferences": [owner], "labels": labels}
    scene.cluster["spec"]["rayVersion"] = "2.54.0"
    cluster = scene.examined().clusters[0]
    assert build_list_section(cluster).notes == ("of RayJob train", "Ray 2.54.0", "queue research")


@pytest.mark.parametrize("seconds", [-1e300, 1e300, math.inf, math.nan, 253_402_300_800.0])
def test_a_time_that_no_calendar_has_is_not_shown(seconds: float) -> None:
    assert view.time_of(seconds) == ""
