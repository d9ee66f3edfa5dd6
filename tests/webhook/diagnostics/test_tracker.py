"""The tracker: a lasting problem becomes an event, and so does the state of a replica."""

from typing import Any

import pytest
from msgspec import structs

from tests.builders import a_cluster
from tests.harness.scenes import NOW, Scene, instant, llama
from tests.webhook.diagnostics.samples import samples
from webhook.api import names
from webhook.diagnostics.diagnosis import Diagnosis
from webhook.diagnostics.examination import DIAGNOSES
from webhook.diagnostics.report import ClusterReport
from webhook.diagnostics.tracker import SERIES_MAX, EventRequest, Tracker

HOST = "llama-tpu-worker-0-3"
UNSCHEDULED = {"type": "PodScheduled", "status": "False", "message": "0/9 nodes are available."}
PENDING = {"phase": "Pending", "conditions": [UNSCHEDULED]}


def reported(tracker: Tracker, cluster_report: ClusterReport) -> list[tuple[str, str]]:
    return [
        (event_request.key.reason, event_request.key.place[0])
        for event_request in tracker.track(cluster_report).event_requests
    ]


def only(tracker: Tracker, cluster_report: ClusterReport) -> EventRequest:
    (event_request,) = tracker.track(cluster_report).event_requests
    return event_request


def test_a_replica_that_goes_with_its_raycluster_is_not_counted_as_incomplete() -> None:
    scene = Scene().without("llama-tpu-worker-0-3")
    scene.cluster["metadata"]["deletionTimestamp"] = instant(60)
    tracker = Tracker()
    for _ in range(2):
        (tally,) = tracker.track(scene.examined()).tallies
        assert tally.incomplete_since is None


@pytest.mark.parametrize(
    "diagnosis", [each for each in DIAGNOSES if each.event], ids=lambda each: each.id
)
def test_each_event_is_reported_after_its_time(diagnosis: Diagnosis[Any]) -> None:
    tracker, scene = Tracker(), samples()[diagnosis.id].scene()
    assert diagnosis.event is not None
    reason, seconds, _ = diagnosis.event

    def events(now: float) -> list[EventRequest]:
        event_requests = tracker.track(scene.examined(now)).event_requests
        return [
            event_request for event_request in event_requests if event_request.key.reason == reason
        ]

    assert bool(events(NOW)) == (seconds == 0)
    if seconds:
        assert not events(NOW + seconds - 1)
    (event_request,) = events(NOW + seconds)
    assert (event_request.kind, event_request.namespace, event_request.cluster) == (
        "Warning", "team", "llama")  # fmt: skip
    assert event_request.key.uid == scene.cluster["metadata"]["uid"]
    assert ". To fix it: " in event_request.note


def test_a_missing_host_is_not_reported_when_it_is_back_before() -> None:
    tracker, lacking = Tracker(), Scene().without(HOST)
    tracker.track(lacking.examined(NOW))
    tracker.track(Scene().examined(NOW + 60))
    assert reported(tracker, lacking.examined(NOW + 130)) == []


def test_replicas_that_lack_hosts_one_after_the_other_are_two_series() -> None:
    tracker, lacking = Tracker(), Scene().without(HOST)
    tracker.track(lacking.examined(NOW))
    lacking.without("llama-tpu-worker-1-3")
    first = only(tracker, lacking.examined(NOW + 120))
    again, second = tracker.track(lacking.examined(NOW + 240)).event_requests
    assert {each.key.reason for each in (first, second)} == {"HostMissing"}
    assert (again.key, again.note) == (first.key, first.note)
    assert second.key != first.key
    assert second.note.startswith("tpu: replica 1 ")


def test_replicas_of_a_group_that_lack_hosts_at_once_are_one_series_until_all_are_mended() -> None:
    cluster = a_cluster("llama").group("tpu", hosts=2, replicas=50).group("gpu", hosts=2)
    gone = [f"llama-tpu-worker-{replica}-1" for replica in range(40)]
    tracker, lacking = Tracker(), Scene(cluster).without(*gone, "llama-gpu-worker-0-0")
    tracker.track(lacking.examined(NOW))
    gpu, tpu = tracker.track(lacking.examined(NOW + 120)).event_requests
    assert {each.key.reason for each in (gpu, tpu)} == {"HostMissing"}
    assert [each.key.place[0] for each in (gpu, tpu)] == ["gpu", "tpu"]
    assert tpu.note.startswith("tpu: replica 0 (tpu-")
    assert "has 1 of 2 hosts: host 1 is missing (and 39 more replicas like it: 1-39)." in (tpu.note)
    assert "replicas" not in gpu.note

    mended = Scene(cluster).without(*gone[20:], "llama-tpu-worker-45-0")
    still, *complete = tracker.track(mended.examined(NOW + 200)).event_requests
    assert still.key == tpu.key
    assert {each.key.reason for each in complete} == {"ReplicaComplete", "HostMissingResolved"}
    same, later = tracker.track(mended.examined(NOW + 320)).event_requests
    assert same.key == tpu.key
    assert later.note.startswith("tpu: replica 45 ")
    assert "replicas" not in later.note
    assert ("HostMissing", "tpu") not in reported(tracker, Scene(cluster).examined(NOW + 330))


def test_who_leads_next_goes_on_with_the_series_of_replicas_that_lack_hosts_at_once() -> None:
    keys = []
    for _ in range(2):
        tracker, lacking = Tracker(), Scene().without(HOST, "llama-tpu-worker-1-3")
        tracker.track(lacking.examined(NOW))
        keys.append(only(tracker, lacking.examined(NOW + 120)).key)
    assert keys[0] == keys[1]


def test_which_replicas_are_like_the_first_is_only_said_where_that_is_short() -> None:
    cluster = a_cluster("llama").group("tpu", hosts=2, replicas=400)
    gone = [f"llama-tpu-worker-{replica}-1" for replica in range(0, 400, 2)]
    tracker, lacking = Tracker(), Scene(cluster).without(*gone)
    tracker.track(lacking.examined(NOW))
    event_request = only(tracker, lacking.examined(NOW + 120))
    assert "(and 199 more replicas like it)." in event_request.note
    assert event_request.note.endswith(": kubectl describe raycluster -n team llama")


def test_a_doubled_identity_is_reported_with_its_replica() -> None:
    scene = Scene().changed(
        "llama-tpu-worker-1-3",
        metadata={"labels": {"ray.io/replica-host-index": "2"}, "creationTimestamp": instant(60)},
    )
    event_requests = Tracker().track(scene.examined()).event_requests
    (twice,) = [each for each in event_requests if each.key.reason == "IdentityDuplicate"]
    assert twice.key.place[1].startswith("tpu-")


def test_pods_without_a_identity_are_reported_and_counted() -> None:
    look = Tracker().track(samples()["pod-without-identity"].scene().examined())
    (tally,) = look.tallies
    assert tally.without_identity == 1
    assert look.problems["team", "llama", "pod-without-identity"] == 1


@pytest.mark.parametrize(("without", "reason"), [
    ({}, "HostnameDiffers"), ({"TPU_WORKER_ID": None}, "WorkerIdDiffers"),
], ids=["host name", "host name and worker id, which explains it"])  # fmt: skip
def test_hosts_with_kuberays_labels_only_are_noted(without: dict[str, None], reason: str) -> None:
    scene = Scene()
    for pod in scene.workers:
        scene.changed(pod, spec={"hostname": None}).with_env(pod, **without)
    look = Tracker().track(scene.examined())
    (event_request,) = look.event_requests
    assert (event_request.key.reason, event_request.key.place[0]) == (reason, "tpu")


def test_a_replica_that_becomes_complete_is_reported_once_and_none_that_was_so_before() -> None:
    tracker, coming = Tracker(), Scene()
    coming.changed(HOST, status={"conditions": [{"type": "Ready", "status": "False"}]})
    assert reported(tracker, coming.examined(NOW)) == []
    event_request = only(tracker, Scene().examined(NOW + 10))
    assert (event_request.key.reason, event_request.kind) == ("ReplicaComplete", "Normal")
    assert event_request.note.startswith("all 4 hosts of replica tpu-")
    assert reported(tracker, Scene().examined(NOW + 20)) == []


def test_replicas_of_a_group_that_become_complete_at_once_are_reported_together() -> None:
    cluster = a_cluster("llama").group("tpu", hosts=2, replicas=50).group("gpu", hosts=2)
    late = ("llama-tpu-worker-3-1", "llama-tpu-worker-7-1")
    coming = Scene(cluster)
    coming.without(*coming.workers)
    tracker = Tracker()
    assert reported(tracker, coming.examined(NOW)) == []
    tpu, gpu = tracker.track(Scene(cluster).without(*late).examined(NOW + 10)).event_requests
    assert {each.key.reason for each in (gpu, tpu)} == {"ReplicaComplete"}
    assert gpu.note.startswith("all 2 hosts of replica gpu-")
    assert gpu.note.endswith(" are ready")
    assert tpu.note.startswith("all 2 hosts of replica tpu-")
    assert tpu.note.endswith(" are ready (and 47 more replicas like it: 1-2, 4-6, 8-49)")
    rest = only(tracker, Scene(cluster).examined(NOW + 20))
    assert rest.note.endswith(" are ready (and 1 more replica like it: 7)")
    assert rest.key != tpu.key


def test_a_replica_of_one_host_is_a_pod_and_not_reported() -> None:
    scene = Scene(llama(replicas=0).group("cpu", hosts=1, replicas=1))
    tracker, name = Tracker(), "llama-cpu-worker-0-0"
    pod = scene.pods.pop(name)
    assert scene.ids() == ["replica-missing"]
    tracker.track(scene.examined(NOW))
    scene.pods[name] = pod
    assert reported(tracker, scene.examined(NOW + 10)) == []


def test_replicas_are_tallied_by_state_with_when_the_first_was_incomplete() -> None:
    tracker, lacking = Tracker(), Scene().without(HOST)
    (tally,) = tracker.track(lacking.examined(NOW)).tallies
    assert tally.replicas == {"degraded": 1, "complete": 1}
    assert tally.incomplete_since == NOW - 3600  # when its newest pod was created
    (whole,) = tracker.track(Scene().examined(NOW + 10)).tallies
    assert (whole.replicas, whole.incomplete_since) == ({"complete": 2}, None)
    (later,) = tracker.track(lacking.examined(NOW + 20)).tallies
    assert later.incomplete_since == NOW + 20


@pytest.mark.parametrize("length", [100, 5000])
def test_a_note_is_never_longer_than_an_event_allows(length: int) -> None:
    scene = samples()["second-webhook"].scene()
    scene.webhooks[-1]["webhooks"][0]["name"] = "x" * length
    note = only(Tracker(), scene.examined()).note
    assert "xxx" in note
    assert (len(note) < 1024) if length == 100 else (len(note) == 1024)


def test_a_raycluster_that_is_left_alone_has_no_events() -> None:
    scene = Scene().changed(HOST, spec={"nodeName": None}, status=PENDING)
    tracker = Tracker()
    tracker.track(scene.examined(NOW))
    assert reported(tracker, scene.examined(NOW + 600)) == [("PodPending", "tpu")]
    scene.namespaces[0]["metadata"]["labels"] = {names.LABEL_IGNORE: "true"}
    assert reported(tracker, scene.examined(NOW + 1200)) == []


def test_a_raycluster_that_could_not_be_examined_may_be_left_alone_and_has_no_events() -> None:
    cluster_report = samples()["second-webhook"].scene().examined()
    (cluster,) = cluster_report.clusters
    assert reported(Tracker(), cluster_report) == [("SecondWebhook", "")]
    failed = structs.replace(cluster, groups=(), problems=(), failure="ValueError")
    assert reported(Tracker(), structs.replace(cluster_report, clusters=(failed,))) == []


def test_pods_of_a_group_that_have_no_node_are_one_series() -> None:
    scene = Scene(a_cluster("llama").group("cpu", replicas=50).group("gpu", replicas=1))
    scene.changed(*scene.workers, spec={"nodeName": None}, status=PENDING)
    tracker = Tracker()
    assert reported(tracker, scene.examined(NOW)) == []
    cpu, gpu = tracker.track(scene.examined(NOW + 600)).event_requests
    assert [each.key.place for each in (cpu, gpu)] == [("cpu", ""), ("gpu", "")]
    assert cpu.note.startswith("cpu: llama-cpu-worker-0-0 (replica 0) has no node")
    assert " (and 49 more replicas like it: 1-49). To fix it: " in cpu.note
    assert "replicas" not in gpu.note


@pytest.mark.parametrize("name", ["podgroup-missing", "podgroup-not-scheduled"])
def test_replicas_of_a_group_that_wait_for_their_podgroups_are_one_series(name: str) -> None:
    event_request = only(Tracker(), samples()[name].scene().examined())
    assert event_request.key[1:] == (("tpu", ""), "PodGroupWaiting")


def test_pods_that_find_a_node_one_after_the_other_do_not_add_up() -> None:
    tracker = Tracker()
    for minutes in range(0, 30, 5):
        scene = Scene(a_cluster("llama").group("cpu", replicas=6))
        late = f"llama-cpu-worker-{minutes // 5}-0"
        scene.changed(late, spec={"nodeName": None}, status=PENDING)
        assert reported(tracker, scene.examined(NOW + 60 * minutes)) == []


def test_the_end_of_what_was_reported_is_reported_once() -> None:
    tracker, scene = Tracker(), samples()["host-restarted"].scene()
    begin = only(tracker, scene.examined(NOW))
    assert reported(tracker, scene.examined(NOW + 10)) == [("HostRestarted", "tpu")]
    end, complete = tracker.track(Scene().examined(NOW + 20)).event_requests
    assert complete.key.reason == "ReplicaComplete"
    assert (end.key.reason, end.kind) == ("HostRestartedResolved", "Normal")
    assert end.key.place == begin.key.place
    assert end.note.startswith("resolved: tpu: host 3 of replica 0 ")
    assert "To fix it" not in end.note
    assert reported(tracker, Scene().examined(NOW + 30)) == []


def test_what_was_not_reported_yet_and_what_goes_with_its_raycluster_has_no_end() -> None:
    tracker, lacking = Tracker(), Scene().without(HOST)
    assert reported(tracker, lacking.examined(NOW)) == []
    assert reported(tracker, Scene().examined(NOW + 10)) == [("ReplicaComplete", "tpu")]
    restarted = samples()["host-restarted"].scene()
    assert reported(tracker, restarted.examined(NOW + 20)) == [("HostRestarted", "tpu")]
    restarted.cluster["metadata"]["deletionTimestamp"] = instant(0)
    assert reported(tracker, restarted.examined(NOW + 30)) == []


def test_of_too_many_groups_the_incomplete_ones_are_counted() -> None:
    examined = Scene().without(HOST).examined()
    (cluster,) = examined.clusters
    well = structs.replace(Scene().examined().clusters[0], problems=())
    several = structs.replace(examined, clusters=(*[well] * (SERIES_MAX + 5), cluster))
    numbers = Tracker().track(several)
    assert len(numbers.tallies) == SERIES_MAX
    assert numbers.tallies[0].incomplete_since is not None
