"""The view: what the page says of a RayCluster, and of all of them together."""

import math

import pytest

from tests.status.samples import samples
from tests.status.scenes import Scene, instant
from webhook.dashboard import view
from webhook.dashboard.view import group_top, summary_of, top_of
from webhook.status import ids


def test_a_raycluster_that_is_being_deleted_is_not_said_to_come_up() -> None:
    scene = Scene().without("llama-head", "llama-tpu-worker-0-3")
    scene.cluster["metadata"]["deletionTimestamp"] = instant(60)
    top = top_of(scene.examined().clusters[0])
    assert (top.state, top.text) == ("coming", "being deleted")


def test_pods_that_are_being_deleted_are_counted_where_there_are_some() -> None:
    scene = Scene()
    assert top_of(scene.examined().clusters[0]).notes == ()
    scene.changed(
        "llama-tpu-worker-0-3",
        metadata={"deletionTimestamp": instant(5), "deletionGracePeriodSeconds": 30},
    )
    assert top_of(scene.examined().clusters[0]).notes == ("1 pod being deleted",)


def test_a_group_without_replicas_has_lost_them_with_its_raycluster() -> None:
    scene = Scene().without(*Scene().pods)
    scene.cluster["metadata"]["deletionTimestamp"] = instant(60)
    assert group_top("key", 0, scene.examined().clusters[0]).text == "no replicas"


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        (ids.SECOND_WEBHOOK, "1 RayCluster; 1 problem of the installation"),
        (ids.HOST_MISSING, "1 RayCluster, 1 of them waits"),
        ("ignored", "1 RayCluster, nothing waits"),
    ],
)
def test_the_summary_counts_what_waits_and_what_is_wrong_beside_it(sample: str, said: str) -> None:
    picture = samples()[sample].scene().examined()
    assert summary_of(list(picture.clusters), len(picture.troubles)) == said


def test_the_summary_of_nothing_says_so() -> None:
    assert summary_of([]) == "No RayClusters"


@pytest.mark.parametrize("seconds", [-1e300, 1e300, math.inf, math.nan, 253_402_300_800.0])
def test_a_time_that_no_calendar_has_is_not_shown(seconds: float) -> None:
    assert view.instant(seconds) is None
