"""What repeats is judged over a window: at every second of it, there is one answer."""

from typing import Any

import pytest

from tests.harness.scenes import NOW, Object, Scene, instant
from tests.webhook.diagnostics.test_causes import QUOTA
from webhook.diagnostics.examiner import Examiner
from webhook.objects.object_cache import ObjectCache

HOST = "llama-tpu-worker-0-3"
NODE = "node-0-3"
FLIP = 7
"""Seconds from one change of readiness to the next."""


class Watch:
    """A process that receives every change of a scene; `ago` are seconds before its end."""

    def __init__(self) -> None:
        self.scene = Scene()
        self.objects = self.scene.observed().load(ObjectCache())
        self.examiner = Examiner(self.objects)

    def ids(self, ago: int) -> list[str]:
        self.examiner.catch_up(NOW - ago)
        report = self.examiner.cluster_report(NOW - ago, {})
        assert report.is_degraded == bool(report.every_problem)
        return [problem.id for problem in report.every_problem]

    def pod(self, *, ready: bool, ago: int) -> None:
        self.scene.changed(HOST, status={"conditions": [_ready(ready=ready, ago=ago)]})
        (pod,) = [pod for pod in self.scene.observed().pods if pod.name == HOST]
        self.objects.pods.put(pod.metadata.uid or "", pod)

    def node(self, *, ready: bool, ago: int) -> None:
        for node in self.scene.nodes:
            if node["metadata"]["name"] == NODE:
                node["metadata"]["uid"] = f"nodes/None/{NODE}"
                node["status"] = {"conditions": [_ready(ready=ready, ago=ago)]}
        for live in self.scene.observed().nodes or ():
            if live.metadata.name == NODE:
                self.objects.nodes.put(f"nodes/None/{NODE}", live)

    def refusal(self, *, failed: bool, ago: int) -> None:
        condition = {"type": "ReplicaFailure", "status": "False", "reason": "", "message": ""}
        if failed:
            condition |= {"status": "True", "reason": "FailedCreateWorkerPod", "message": QUOTA}
        condition["lastTransitionTime"] = instant(ago)
        self.scene.cluster["status"] = {"conditions": [condition]}
        (cluster,) = self.scene.observed().clusters
        self.objects.clusters.put(cluster.metadata.uid or "", cluster)


def _ready(*, ready: bool, ago: int) -> Object:
    status = "True" if ready else "False"
    return {"type": "Ready", "status": status, "lastTransitionTime": instant(ago)}


@pytest.mark.parametrize(
    ("kind", "problem", "delay"), [("pod", "pod-not-ready", 900), ("node", "node-lost", 60)]
)
def test_readiness_that_flips_is_not_ready(kind: str, problem: str, delay: int) -> None:
    watch, last = Watch(), 100
    flip = getattr(watch, kind)
    begin = last + delay + 40 * FLIP
    flip(ready=True, ago=begin + 3600)
    for number, ago in enumerate(range(begin, last, -FLIP)):
        flip(ready=bool(number % 2), ago=ago)
        for second in range(FLIP):
            ids = watch.ids(ago - second)
            assert ids in ([], [problem])
            if begin - ago > delay + 2 * FLIP:
                assert ids == [problem], ago
    flip(ready=True, ago=last)
    assert watch.ids(last - 59) == [problem]
    assert watch.ids(last - 60) == []


def test_readiness_that_was_lost_once_is_ready_again_at_once() -> None:
    watch = Watch()
    watch.pod(ready=True, ago=3600)
    watch.pod(ready=False, ago=2000)
    assert watch.ids(1000) == ["pod-not-ready"]
    watch.pod(ready=True, ago=900)
    assert watch.ids(899) == []
    watch.pod(ready=False, ago=100)
    assert watch.ids(99) == []


def test_a_rejection_in_a_condition_that_comes_and_goes_has_one_answer() -> None:
    watch = Watch()
    watch.scene.without(HOST)
    watch.objects.pods.remove(f"uid-of-{HOST}")
    watch.refusal(failed=True, ago=400)
    for number, ago in enumerate(range(400 - FLIP, 100, -FLIP)):
        watch.refusal(failed=bool(number % 2), ago=ago)
        assert [watch.ids(ago - second) for second in range(FLIP)] == [["pod-refused"]] * FLIP
    watch.objects.clusters.remove("uid-of-llama")
    assert not watch.objects.events.all


def unhealthy(first: int, last: int, count: int) -> Object:
    return {
        "metadata": {"name": "probe", "namespace": "team"},
        "involvedObject": {"kind": "Pod", "name": HOST, "uid": f"uid-of-{HOST}"},
        "reason": "Unhealthy",
        "message": "Readiness probe failed: HTTP probe failed with statuscode: 503", "count": count,
        "firstTimestamp": instant(first), "lastTimestamp": instant(last)}  # fmt: skip


@pytest.mark.parametrize(("ago", "ready"), [
    (1, True), (1, False), (20, True), (20, False), (59, True), (59, False), (900, False),
])  # fmt: skip
def test_one_read_sees_flipping_readiness_by_probe_events(ago: int, ready: bool) -> None:
    scene = Scene().changed(HOST, status={"conditions": [_ready(ready=ready, ago=ago)]})
    scene.events.append(unhealthy(1800, 250, 28))
    (problem,) = scene.examined().every_problem
    assert problem.id == "pod-not-ready"
    assert problem.message.endswith(
        "is not ready: it becomes ready and unready again within a minute: "
        "Readiness probe failed: HTTP probe failed with statuscode: 503"
    )
    assert problem.command == f"kubectl describe pod -n team {HOST}"


CALM: dict[str, tuple[Object, Object]] = {
    "ready for a minute": (_ready(ready=True, ago=61), unhealthy(1800, 70, 28)),
    "unready once, with old failures": (_ready(ready=False, ago=30), unhealthy(40000, 10, 9)),
    "unready once": (_ready(ready=False, ago=30), unhealthy(80, 5, 16)),
    "probes that failed earlier": (_ready(ready=False, ago=30), unhealthy(3500, 1000, 30)),
}


@pytest.mark.parametrize("name", CALM)
def test_one_read_takes_a_change_of_readiness_for_one(name: str) -> None:
    condition, event = CALM[name]
    scene = Scene().changed(HOST, status={"conditions": [condition]})
    scene.events.append(event)
    assert scene.ids() == []


def start(reason: str, message: str, first: int, last: int, name: str = "e") -> Object:
    return {**unhealthy(first, last, 1), "reason": reason, "message": message} | {
        "metadata": {"name": name, "namespace": "team"}
    }


def starting(*events: Object, **condition: Any) -> Scene:  # noqa: ANN401 - JSON
    waits = {"name": "ray-worker", "state": {"waiting": {"reason": "ContainerCreating"}}}
    conditions = [_ready(ready=False, ago=600), *([condition] if condition else [])]
    status = {"phase": "Pending", "conditions": conditions, "containerStatuses": [waits]}
    scene = Scene().changed(HOST, status=status)
    scene.events += events
    return scene


LACKING = 'MountVolume.SetUp failed for volume "hf" : secret "hf-token" not found'


def test_a_volume_that_cannot_be_mounted_names_what_is_missing() -> None:
    late = start("FailedMount", "Unable to attach or mount volumes: timed out", 400, 10, "late")
    (problem,) = starting(start("FailedMount", LACKING, 590, 100), late).examined().every_problem
    assert problem.message.endswith(f"does not run: FailedMount, {LACKING}")
    assert problem.remedy == "create secret hf-token, or change the reference in the pod template"
    assert problem.command == "kubectl get secrets -n team"


@pytest.mark.parametrize("scene", [
    starting(start("FailedMount", LACKING, 590, 580)),
    starting(start("FailedMount", LACKING, 590, 400)),
    starting(start("FailedMount", LACKING, 590, 100), type="PodReadyToStartContainers",
     status="True"),
], ids=["a failure of a moment", "failures that have ended", "a pod that is prepared"])  # fmt: skip
def test_an_event_of_a_usual_start_is_no_problem(scene: Scene) -> None:
    assert scene.ids() == []
