"""When a diagnosis becomes active, and its start time, follow from objects and events."""

from typing import Any

import msgspec
import pytest

from tests.builders import a_cluster
from tests.harness.scenes import NOW, Scene, hosts_of, instant, llama
from webhook.api.names import LABEL_HOST_INDEX
from webhook.objects.live_objects import LiveEvent
from webhook.objects.object_cache import LiveObject, ObjectCache, Table

HEAD = "llama-head"
HOST = "llama-tpu-worker-0-3"
FIRST, SECOND = hosts_of(0), hosts_of(1)


def ended(scene: Scene, pod: str, seconds: float) -> Scene:
    return scene.event("Killing", pod, seconds, f"uid-of-previous-{pod}")


def leave(scene: Scene, seconds: float, *pods: str) -> Scene:
    """Let pods be deleted some seconds ago, with 600 s to end."""
    deletion = {"deletionTimestamp": instant(seconds - 600), "deletionGracePeriodSeconds": 600}
    return scene.changed(*pods, metadata=deletion)


def edited(scene: Scene, seconds: float, **group: Any) -> Scene:  # noqa: ANN401 - JSON
    scene.cluster["spec"]["workerGroupSpecs"][0] |= group
    scene.cluster["metadata"]["managedFields"] = [
        {"manager": "kubectl", "time": instant(seconds), "fieldsV1": {"f:spec": {"f:x": {}}}},
        {
            "manager": "kuberay-operator", "subresource": "status", "time": instant(0),
            "fieldsV1": {"f:status": {}}}]  # fmt: skip
    return scene


def condition(scene: Scene, kind: str, status: str, seconds: float) -> Scene:
    found = {"type": kind, "status": status, "lastTransitionTime": instant(seconds)}
    scene.cluster["status"] = {"conditions": [found]}
    return scene


def many(scene: Scene, number: int, first: float, apart: float) -> Scene:
    """Let kubelet tell of the ends of pods of the group, at regular times."""
    for each in range(number):
        ended(scene, f"llama-tpu-worker-{each:05}", first + each * apart)
    return scene


def created(scene: Scene, seconds: float, *pods: str) -> Scene:
    return scene.changed(*pods, metadata={"creationTimestamp": instant(seconds)})


def without_the_last_of_a_long_name() -> Scene:
    """Return a group whose name KubeRay cuts off in the names of its pods."""
    long = "llama-" + "x" * 46
    scene = Scene(a_cluster(long).group("Workers", hosts=4, replicas=1))
    last = next(
        name
        for name, pod in scene.pods.items()
        if pod["metadata"]["labels"].get(LABEL_HOST_INDEX) == "3"
    )
    return ended(scene.without(last), f"{long[:50]}-worker-x7k2p", 720)


def ends_of_others() -> Scene:
    """Return a missing host beside ends of pods of another RayCluster or group."""
    scene = Scene().without(HOST)
    for other in (
        "llama-70b-tpu-worker-x7k2p",
        "llama-cpu-worker-x7k2p",
        "llama-tpu-worker-b-worker-x7k2p",
        "llama-head-x7k2p",
    ):
        ended(scene, other, 1)
    return scene


def one_too_many() -> Scene:
    """Return a group whose newest replica is not desired any more."""
    scene = Scene(llama(replicas=3))
    scene.cluster["spec"]["workerGroupSpecs"][0]["replicas"] = 2
    return created(scene, 100, *hosts_of(2))


GONE = "llama-tpu-worker-x7k2p"
AT_ONCE: dict[str, tuple[Scene, str, float | None]] = {
    "ends of another RayCluster or group hide no missing host": (
        ends_of_others(), "host-missing", None),
    "the end of a pod of the group": (
        ended(Scene().without(HOST), GONE, 720), "host-missing", 720),
    "that of a pod with a name that is cut off": (
        without_the_last_of_a_long_name(), "host-missing", 720),
    "which of many pods that ended was the host is unknown": (
        many(Scene().without(HOST), 30, 10, 20), "host-missing", None),
    "so it is of those of another replica": (
        many(Scene().without(HOST), 4, 2400, 0), "host-missing", None),
    "as many ends as hosts are missing": (
        many(Scene().without(*FIRST[2:]), 2, 5, 595), "host-missing", 600),
    "a host that is known to go, whatever else ends": (
        many(leave(Scene().without(FIRST[2]), 40, HOST), 3, 5, 0), "host-missing", None),
    "an end before the newest host was created": (
        created(ended(Scene().without(HOST), GONE, 1000), 500, FIRST[0]), "host-missing", None),
    "nothing tells since when a host is missing": (Scene().without(HOST), "host-missing", None),
    "or the head": (Scene().without(HEAD), "head-missing", None),
    "or a replica": (Scene().without(*SECOND), "replica-missing", None),
    "the end of the head is later than its last readiness": (
        ended(condition(Scene().without(HEAD), "HeadPodReady", "False", 3000), HEAD, 90),
        "head-missing", 90),
}  # fmt: skip
"""Scenes with one problem, and how many seconds before now it began, if that is known."""


@pytest.mark.parametrize(("scene", "diagnosis", "ago"), AT_ONCE.values(), ids=AT_ONCE)
def test_objects_and_events_date_a_problem(scene: Scene, diagnosis: str, ago: float | None) -> None:
    (problem,) = scene.examined().every_problem
    assert (problem.id, problem.since) == (diagnosis, None if ago is None else NOW - ago)


LATER: dict[str, tuple[Scene, float, str, float | None]] = {
    "the end of a pod": (ended(Scene().without(HOST), GONE, 10), 20, "host-missing", 10),
    "the deletion of a host": (leave(Scene(), 5, HOST), 25, "host-missing", 5),
    "the creation of the newest of the other hosts": (
        created(Scene().without(HOST), 20, *FIRST[:3]), 10, "host-missing", None),
    "the end of the head": (
        ended(Scene().without(HEAD), "llama-head-x7k2p", 2), 58, "head-missing", 2),
    "the end of a head without a suffix": (
        ended(Scene().without(HEAD), HEAD, 2), 58, "head-missing", 2),
    "the deletion of the head": (leave(Scene(), 2, HEAD), 58, "head-missing", 2),
    "the time at which KubeRay first said that the head is not ready": (
        condition(Scene().without(HEAD), "HeadPodReady", "False", 2), 58, "head-missing", None),
    "the time at which the RayCluster was resumed": (
        condition(Scene().without(HEAD), "RayClusterSuspended", "False", 2),
        58, "head-missing", None),
    "its last edit": (edited(Scene().without(HEAD), 2), 58, "head-missing", None),
    "an edit to more replicas": (edited(Scene(), 2, replicas=3), 58, "replica-missing", None),
    "an edit to fewer replicas": (
        edited(Scene(), 2, replicas=1), 118, "replica-beyond-desired", None),
    "the deletion of a replica": (leave(Scene(), 2, *SECOND), 58, "replica-missing", 2),
    "the end of a replica": (
        ended(Scene().without(*SECOND), GONE, 2), 58, "replica-missing", 2),
    "the creation of a replica that is too many": (
        one_too_many(), 20, "replica-beyond-desired", None),
}  # fmt: skip
"""Scenes without a problem, the seconds after which there is one, and when it began."""


@pytest.mark.parametrize(("scene", "seconds", "diagnosis", "ago"), LATER.values(), ids=LATER)
def test_the_delay_of_a_problem_begins_with(
    scene: Scene, seconds: float, diagnosis: str, ago: float | None
) -> None:
    assert scene.ids(NOW + seconds - 1) == []
    (problem,) = scene.examined(NOW + seconds).every_problem
    assert (problem.id, problem.since) == (diagnosis, None if ago is None else NOW - ago)


@pytest.mark.parametrize("apart", [10, 40, 100])
def test_pods_that_end_again_and_again_do_not_put_off_a_missing_host(apart: int) -> None:
    assert many(Scene().without(HOST), 12, 1, apart).ids() == ["host-missing"]


def test_the_deletion_of_a_host_of_another_replica_says_nothing_of_this_one() -> None:
    scene = leave(ended(Scene().without(HOST), GONE, 720), 40, SECOND[3])
    found = {each.replica: each.since for each in scene.examined().every_problem}
    assert found == {0: NOW - 720, 1: NOW - 40}


def test_without_a_grace_period_the_deletion_begins_at_its_timestamp() -> None:
    scene = Scene().changed(HOST, metadata={"deletionTimestamp": instant(60)})
    (missing,) = [each for each in scene.examined().every_problem if each.id == "host-missing"]
    assert missing.since == NOW - 60
    assert missing.remedy.endswith(" after the deletion of its pod")


@pytest.mark.parametrize("grace", [2**63 - 1, -(2**63), -5])
def test_an_absurd_grace_period_says_nothing_of_when_a_deletion_began(grace: int) -> None:
    deletion = {"deletionTimestamp": instant(60), "deletionGracePeriodSeconds": grace}
    found = Scene().changed(HOST, metadata=deletion).examined().every_problem
    assert [each.since for each in found if each.id == "host-missing"] == [None]


def test_the_end_of_a_pod_needs_no_search_of_all_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = ended(Scene().without(HOST), HOST, 0)
    objects = scene.observed().load(ObjectCache())
    objects.begin()
    objects.take_changed()

    def every(table: Table[LiveObject]) -> list[LiveObject]:
        assert table is not objects.pods
        return [each for _, each in table.items()]

    monkeypatch.setattr(Table, "all", property(every))
    scene.events[0]["involvedObject"]["name"] = "llama-tpu-worker-x7k2p"
    objects.events.put("later", msgspec.convert(scene.events[0], LiveEvent))
    assert objects.take_changed() == {scene.cluster["metadata"]["uid"]}
