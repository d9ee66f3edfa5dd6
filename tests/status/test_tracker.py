"""The tracker: what lasts long enough becomes a notice, and what a replica has reached one of its
own.
"""

import pytest

from tests.status.scenes import NOW, Scene, instant, llama
from webhook.status.model import Picture
from webhook.status.tracker import NOTE_MAX, Notice, Tracker

HOST = "llama-tpu-worker-0-3"


def told(tracker: Tracker, picture: Picture) -> list[tuple[str, str]]:
    """Return reason and group of what a look gives."""
    return [(notice.key.reason, notice.key.place[0]) for notice in tracker.look(picture).notices]


def only(tracker: Tracker, picture: Picture) -> Notice:
    """Return the one notice of a look."""
    (notice,) = tracker.look(picture).notices
    return notice


def test_nothing_is_told_of_a_raycluster_that_is_well() -> None:
    tracker = Tracker()
    for seconds in (0, 10, 3600):
        assert told(tracker, Scene().examined(NOW + seconds)) == []


def test_a_missing_host_is_told_of_after_two_minutes_and_not_when_it_is_back_before() -> None:
    tracker, lacking = Tracker(), Scene().without(HOST)
    assert told(tracker, lacking.examined(NOW)) == []
    assert told(tracker, lacking.examined(NOW + 119)) == []
    assert told(tracker, lacking.examined(NOW + 120)) == [("HostMissing", "tpu")]
    again = Tracker()
    again.look(lacking.examined(NOW))
    again.look(Scene().examined(NOW + 60))
    assert told(again, lacking.examined(NOW + 130)) == []


def test_a_notice_says_what_is_wrong_and_what_to_do() -> None:
    tracker, lacking = Tracker(), Scene().without(HOST)
    tracker.look(lacking.examined(NOW))
    notice = only(tracker, lacking.examined(NOW + 120))
    assert (notice.kind, notice.namespace, notice.cluster) == ("Warning", "team", "llama")
    assert notice.key.uid == lacking.cluster["metadata"]["uid"]
    assert "lacks host 3: 3 of 4 are there" in notice.note
    assert notice.note.endswith(": kubectl describe raycluster -n team llama")


def test_two_replicas_are_two_series_and_a_new_replica_of_an_index_is_another() -> None:
    scene = Scene().without(HOST, "llama-tpu-worker-1-3")
    tracker = Tracker()
    tracker.look(scene.examined(NOW))
    keys = [notice.key for notice in tracker.look(scene.examined(NOW + 120)).notices]
    assert len(set(keys)) == 2
    assert {key.reason for key in keys} == {"HostMissing"}


def test_a_doubled_seat_is_told_of_with_its_replica() -> None:
    scene = Scene().changed(
        "llama-tpu-worker-1-3",
        metadata={"labels": {"ray.io/replica-host-index": "2"}, "creationTimestamp": instant(60)},
    )
    notices = Tracker().look(scene.examined()).notices
    (twice,) = [each for each in notices if each.key.reason == "SeatHeldTwice"]
    assert twice.key.place[1].startswith("tpu-")


def test_pods_without_a_seat_are_told_of_and_counted() -> None:
    labels = dict.fromkeys(
        (
            "ray.io/worker-group-replica-index",
            "ray.io/worker-group-replica-name",
            "ray.io/replica-host-index",
            "replicaIndex",
        )
    )
    look = Tracker().look(Scene().changed(HOST, metadata={"labels": labels}).examined())
    assert [notice.key.reason for notice in look.notices] == ["PodWithoutSeat"]
    (tally,) = look.tallies
    assert tally.unseated == 1
    assert look.troubles["team", "llama", "pod-without-seat"] == 1


def test_a_second_webhook_is_told_to_the_raycluster() -> None:
    scene = Scene()
    selector = {"matchLabels": {"app.kubernetes.io/name": "kuberay"}}
    rule = {"apiGroups": [""], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {"name": "other.example.com", "objectSelector": selector, "rules": [rule]}
    scene.webhooks.append({"metadata": {"name": "other"}, "webhooks": [hook]})
    notice = only(Tracker(), scene.examined())
    assert (notice.key.reason, notice.cluster) == ("SecondWebhook", "llama")
    assert "other.example.com" in notice.note


def test_a_replica_that_becomes_complete_is_told_of_once_and_none_that_was_so_before() -> None:
    tracker, coming = Tracker(), Scene()
    coming.changed(HOST, status={"conditions": [{"type": "Ready", "status": "False"}]})
    assert told(tracker, coming.examined(NOW)) == []
    notice = only(tracker, Scene().examined(NOW + 10))
    assert (notice.key.reason, notice.kind) == ("ReplicaComplete", "Normal")
    assert notice.note.startswith("all 4 hosts of replica tpu-")
    assert told(tracker, Scene().examined(NOW + 20)) == []


def test_a_replica_of_one_host_is_a_pod_and_not_told_of() -> None:
    scene = Scene(llama(replicas=0).group("cpu", hosts=1, replicas=1))
    tracker, name = Tracker(), "llama-cpu-worker-0-0"
    pod = scene.pods.pop(name)
    tracker.look(scene.examined(NOW))
    scene.pods[name] = pod
    assert told(tracker, scene.examined(NOW + 10)) == []


def test_replicas_are_tallied_by_state_with_when_the_first_was_incomplete() -> None:
    tracker, lacking = Tracker(), Scene().without(HOST)
    (tally,) = tracker.look(lacking.examined(NOW)).tallies
    assert tally.replicas == {"waits": 1, "complete": 1}
    assert tally.incomplete_since == NOW - 3600  # when its newest pod was created
    (whole,) = tracker.look(Scene().examined(NOW + 10)).tallies
    assert (whole.replicas, whole.incomplete_since) == ({"complete": 2}, None)
    (later,) = tracker.look(lacking.examined(NOW + 20)).tallies
    assert later.incomplete_since == NOW + 20


@pytest.mark.parametrize("length", [100, 5000])
def test_a_note_is_never_longer_than_an_event_allows(length: int) -> None:
    scene = Scene()
    selector = {"matchLabels": {"app.kubernetes.io/name": "kuberay"}}
    rule = {"apiGroups": [""], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {"name": "x" * length, "objectSelector": selector, "rules": [rule]}
    scene.webhooks.append({"metadata": {"name": "other"}, "webhooks": [hook]})
    assert len(only(Tracker(), scene.examined()).note) <= NOTE_MAX
