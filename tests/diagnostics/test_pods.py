"""Pods that have ended or never become ready are reported, unless this is part of a normal
start.
"""

from typing import Any

import pytest

from tests.builders import a_cluster
from tests.diagnostics.scenes import NOW, Scene, instant
from webhook.api import names

HEAD = "llama-head"
HOST = "llama-tpu-worker-0-3"
TEN_MINUTES, AN_HOUR = 600, 3600


def unready(seconds: float, **status: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """Return the status of a pod on a node that has not been ready for some seconds."""
    condition = {"type": "Ready", "status": "False", "lastTransitionTime": instant(seconds)}
    return {"phase": "Running", "conditions": [condition], **status}


def ended(seconds: float, phase: str = "Failed", **status: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the status of a pod that ended some seconds ago."""
    return unready(seconds, **({"phase": phase} | status))


def running(name: str, *, started: bool = True) -> dict[str, Any]:
    """Return the status of a container that runs, and is not ready."""
    state = {"running": {"startedAt": instant(AN_HOUR)}}
    return {"name": name, "ready": False, "started": started, "state": state}


def terminated(seconds: float, code: int = 137, reason: str = "OOMKilled") -> dict[str, Any]:
    """Return the status of a container that has ended."""
    end = {"exitCode": code, "reason": reason, "finishedAt": instant(seconds)}
    return {"name": "ray-worker", "ready": False, "state": {"terminated": end}}


def waiting(name: str, reason: str) -> dict[str, Any]:
    """Return the status of a container that waits."""
    return {"name": name, "ready": False, "state": {"waiting": {"reason": reason}}}


def messages(scene: Scene, now: float = NOW) -> list[str]:
    return [each.message for each in scene.examined(now).every_problem]


@pytest.mark.parametrize("pod", [HEAD, HOST])
@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_has_ended_and_stays_waits(pod: str, phase: str) -> None:
    scene = Scene().changed(pod, status=ended(120, phase))
    assert scene.ids() == ["pod-ended"]
    assert scene.examined().waits


def test_a_pod_that_kuberay_is_about_to_replace_is_no_problem() -> None:
    assert Scene().changed(HOST, status=ended(20)).ids() == []


def test_it_says_how_a_pod_ended() -> None:
    evicted = ended(120, reason="Evicted", message="The node was low on resource: memory.")
    (said,) = messages(Scene().changed(HOST, status=evicted))
    assert said == ("host 3 of replica 0 has ended: Evicted, The node was low on resource: memory.")
    killed = ended(120, containerStatuses=[terminated(120)])
    (said,) = messages(Scene().changed(HOST, status=killed))
    assert said == "host 3 of replica 0 has ended: ray-worker: OOMKilled, exit code 137"
    (said,) = messages(Scene().changed(HEAD, status=ended(120)))
    assert said == "llama-head (the head) has ended: Failed"


def test_it_says_since_when_a_pod_has_ended() -> None:
    killed = ended(90, containerStatuses=[terminated(120)])
    (problem,) = Scene().changed(HOST, status=killed).examined().every_problem
    assert problem.since == NOW - 120


def test_a_container_that_has_ended_and_does_not_start_again_waits() -> None:
    scene = Scene().changed(HOST, status=unready(90, containerStatuses=[terminated(90)]))
    (problem,) = scene.examined().every_problem
    assert problem.id == "container-waits"
    assert problem.message == (
        "host 3 of replica 0 does not run: ray-worker: OOMKilled, exit code 137"
    )
    assert problem.since == NOW - 90
    assert scene.ids(NOW - 60) == []


@pytest.mark.parametrize(("name", "code"), [("ray-job-submitter", 1), ("prepare", 0)])
def test_a_container_beside_ray_whose_work_is_done_is_no_problem(name: str, code: int) -> None:
    done = terminated(AN_HOUR, code, "Completed") | {"name": name}
    ray = {"name": "ray-worker", "ready": True, "started": True, "state": {"running": {}}}
    status = unready(AN_HOUR, containerStatuses=[ray, done])
    assert Scene().changed(HOST, status=status).ids() == []


def test_a_ray_behind_a_proxy_that_has_ended_without_an_error_does_not_run() -> None:
    ended = terminated(AN_HOUR, 0, "Completed")
    proxy = {"name": "proxy", "ready": True, "started": True, "state": {"running": {}}}
    scene = Scene().changed(HOST, status=unready(AN_HOUR, containerStatuses=[proxy, ended]))
    scene.pods[HOST]["spec"]["containers"].insert(0, {"name": "proxy"})
    assert "container-waits" in scene.ids()


def test_a_ray_that_has_ended_without_an_error_does_not_run() -> None:
    status = unready(AN_HOUR, containerStatuses=[terminated(AN_HOUR, 0, "Completed")])
    assert Scene().changed(HOST, status=status).ids() == ["container-waits"]


def test_a_container_that_waits_does_so_since_its_pod_is_not_ready() -> None:
    pulling = waiting("ray-worker", "ImagePullBackOff")
    scene = Scene().changed(HOST, status=unready(5, containerStatuses=[pulling]))
    assert scene.ids() == []
    assert scene.ids(NOW + 60) == ["container-waits"]


def test_a_start_takes_its_time_and_not_an_hour() -> None:
    waits = [running("wait-gcs-ready")]
    scene = Scene().changed(
        HOST, status=unready(TEN_MINUTES, phase="Pending", initContainerStatuses=waits)
    )
    assert scene.ids() == []
    assert scene.ids(NOW + TEN_MINUTES) == ["pod-not-ready"]
    assert scene.examined(NOW + TEN_MINUTES).waits


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (
            {"phase": "Pending", "initContainerStatuses": [running("load-model")]},
            "init container load-model has not ended",
        ),
        (
            {"containerStatuses": [running("ray-worker")]},
            "the readiness probe of ray-worker does not succeed",
        ),
        (
            {"containerStatuses": [running("ray-worker", started=False)]},
            "the startup probe of ray-worker has not succeeded",
        ),
        (
            {
                "phase": "Pending",
                "containerStatuses": [
                    {"name": "ray-worker", "state": {"waiting": {"reason": "ContainerCreating"}}}
                ],
            },
            "ray-worker: ContainerCreating",
        ),
        ({}, "kubelet gives no reason"),
    ],
)
def test_it_says_what_keeps_a_pod_from_being_ready(status: dict[str, Any], said: str) -> None:
    scene = Scene().changed(HOST, status=unready(AN_HOUR, **status))
    assert messages(scene) == [f"host 3 of replica 0 is not ready: {said}"]


def test_a_sidecar_that_runs_beside_a_start_does_not_keep_a_pod_from_it() -> None:
    proxy = {"name": "proxy", "ready": True, "started": True, "state": {"running": {}}}
    status = unready(
        AN_HOUR, initContainerStatuses=[proxy], containerStatuses=[running("ray-worker")]
    )
    assert "ray-worker" in messages(Scene().changed(HOST, status=status))[0]


def test_a_pod_that_found_a_node_late_starts_from_then_on() -> None:
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastTransitionTime": instant(TEN_MINUTES),
    }
    scene = Scene().changed(HOST, status={"phase": "Pending", "conditions": [scheduled]})
    assert scene.ids() == []
    assert scene.ids(NOW + TEN_MINUTES) == ["pod-not-ready"]


def test_workers_that_wait_for_a_head_that_is_not_ready_are_its_problem_only() -> None:
    waits = unready(AN_HOUR, phase="Pending", initContainerStatuses=[running("wait-gcs-ready")])
    scene = Scene().changed(HEAD, status=unready(AN_HOUR))
    for pod in scene.pods:
        if pod != HEAD:
            scene.changed(pod, status=waits)
    assert messages(scene) == ["llama-head (the head) is not ready: kubelet gives no reason"]


def test_a_worker_of_a_rayservice_is_not_ready_while_it_serves_nothing() -> None:
    idle = unready(AN_HOUR, containerStatuses=[running("ray-worker")])
    scene = Scene().changed(HOST, status=idle, metadata={"labels": {names.LABEL_SERVE: "true"}})
    assert scene.ids() == []
    hanging = unready(AN_HOUR, initContainerStatuses=[running("load-model")])
    assert scene.changed(HOST, status=hanging).ids() == ["pod-not-ready"]


def test_workers_that_waited_for_a_slow_head_have_their_time_from_its_readiness_on() -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": instant(2)}
    scene = Scene().changed(HEAD, status={"conditions": [ready]})
    for pod in scene.pods:
        if pod != HEAD:
            waits = [running("wait-gcs-ready")]
            scene.changed(pod, status=unready(AN_HOUR, initContainerStatuses=waits))
    assert scene.ids() == []
    assert scene.ids(NOW + 897) == []
    problems = scene.examined(NOW + 898).every_problem
    assert [(each.id, each.since) for each in problems] == [("pod-not-ready", NOW - 2)] * 2


def test_a_container_that_crashes_again_and_again_counts_however_often_its_pod_was_ready() -> None:
    status = unready(5, containerStatuses=[waiting("log", "CrashLoopBackOff")])
    (problem,) = Scene().changed(HOST, status=status).examined().every_problem
    assert (problem.id, problem.since) == ("container-waits", None)
    young = {"metadata": {"creationTimestamp": instant(30)}, "status": status}
    assert Scene().changed(HOST, **young).ids() == []


def test_a_container_that_is_about_to_start_again_is_not_told_of_by_its_exit_code() -> None:
    scene = Scene().changed(HOST, status=unready(90, containerStatuses=[terminated(1)]))
    for policy, expected in (
        ("Never", ["container-waits"]),
        ("OnFailure", []),
        ("Always", []),
    ):
        assert scene.changed(HOST, spec={"restartPolicy": policy}).ids() == expected


def test_pods_behind_scheduling_gates_are_no_matter_of_nodes() -> None:
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    gates = [{"name": "kueue.x-k8s.io/admission"}]
    scene = Scene()
    for host in range(4):
        scene.changed(
            f"llama-tpu-worker-1-{host}",
            spec={"nodeName": None, "schedulingGates": gates},
            status={"phase": "Pending", "conditions": [gated]},
        )
    (problem,) = scene.examined().every_problem
    assert (problem.id, problem.level) == ("pod-gated", "warning")
    assert problem.message == (
        "hosts 0-3 of replica 1 are held back by scheduling gate kueue.x-k8s.io/admission"
    )
    assert problem.command == "kubectl get workloads.kueue.x-k8s.io -n team"
    for host in range(4):
        scene.changed(
            f"llama-tpu-worker-1-{host}",
            spec={"schedulingGates": [*gates, {"name": "example.com/quota"}]},
        )
    (problem,) = scene.examined().every_problem
    assert "gates kueue.x-k8s.io/admission, example.com/quota" in problem.message
    assert problem.command == "kubectl describe pod -n team llama-tpu-worker-1-0"


def test_a_head_serves_nothing_and_has_to_be_ready() -> None:
    idle = unready(AN_HOUR, containerStatuses=[running("ray-worker")])
    scene = Scene().changed(HEAD, status=idle, metadata={"labels": {names.LABEL_SERVE: "true"}})
    assert scene.ids() == ["pod-not-ready"]


@pytest.mark.parametrize(
    ("others", "started", "said"),
    [
        ({}, False, "sidecar gcsfuse has not started"),
        ({}, True, "the readiness probe of gcsfuse does not succeed"),
        (
            {"initContainerStatuses": [running("wait-gcs-ready")]},
            True,
            "init container wait-gcs-ready has not ended",
        ),
        (
            {"containerStatuses": [running("ray-worker", started=False)]},
            True,
            "the startup probe of ray-worker has not succeeded",
        ),
    ],
)
def test_an_init_container_that_is_a_sidecar_need_not_end(
    others: dict[str, Any],
    started: bool,  # noqa: FBT001
    said: str,
) -> None:
    status = {"containerStatuses": [{"name": "ray-worker", "ready": True}], **others}
    sidecar = running("gcsfuse", started=started)
    status["initContainerStatuses"] = [sidecar, *others.get("initContainerStatuses", ())]
    scene = Scene()
    env = scene.pods[HOST]["spec"]["containers"][0]["env"]
    declared = [
        {"name": "gcsfuse", "restartPolicy": "Always", "env": env},
        {"name": "wait-gcs-ready", "env": env},
    ]
    scene.changed(HOST, spec={"initContainers": declared}, status=unready(AN_HOUR, **status))
    assert messages(scene) == [f"host 3 of replica 0 is not ready: {said}"]


def restarted(count: int, seconds: float = 600, **state: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the status of a pod whose Ray container ended and was started again."""
    end = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": instant(seconds)}
    status = {
        "name": "ray-worker",
        "ready": True,
        "restartCount": count,
        "state": {"running": {"startedAt": instant(seconds - 5)}},
        "lastState": {"terminated": end},
    }
    return {"containerStatuses": [status | state]}


def test_a_host_that_restarted_alone_is_named_with_its_last_end_and_since_when() -> None:
    scene = Scene().changed(HOST, status=restarted(2))
    (problem,) = scene.examined().every_problem
    assert problem.id == "host-restarted"
    assert "host 3 of replica 0 " in problem.message
    assert "(2 restarts)" in problem.message
    assert "OOMKilled, exit code 137" in problem.message
    assert problem.since == NOW - 600
    assert (problem.hosts, problem.pods) == ((3,), (HOST,))
    assert problem.change is not None
    assert problem.change.command.count("llama-tpu-worker-0-") == 4
    (cluster,) = scene.examined().clusters
    assert [each.state for each in cluster.groups[0].replicas] == ["waits", "complete"]


def test_hosts_that_restarted_equally_often_started_together() -> None:
    scene = Scene()
    for host in range(4):
        scene.changed(f"llama-tpu-worker-0-{host}", status=restarted(1))
    assert scene.ids() == []
    scene.changed(HOST, status=restarted(2))
    assert scene.ids() == ["host-restarted"]


def test_a_restart_before_the_newest_host_was_created_does_not_count() -> None:
    scene = Scene().changed(HOST, status=restarted(1))
    scene.changed("llama-tpu-worker-0-1", metadata={"creationTimestamp": instant(300)})
    assert scene.ids() == []


def test_a_restart_of_a_single_host_or_of_a_sidecar_is_no_problem() -> None:
    single = Scene(a_cluster("llama").group("cpu", hosts=1, replicas=2))
    single.changed("llama-cpu-worker-0-0", status=restarted(1))
    assert single.ids() == []
    assert Scene().changed(HOST, status=restarted(1, name="proxy")).ids() == []


def test_a_host_that_crashes_again_and_again_is_only_said_to_do_that() -> None:
    waits = {"waiting": {"reason": "CrashLoopBackOff"}}
    status = unready(300) | restarted(5, 120, state=waits, ready=False)
    assert Scene().changed(HOST, status=status).ids() == ["container-waits"]


@pytest.mark.parametrize("text", ["", "null", "{", "[]", '{"last-failed-reason": null}', "7"])
def test_a_resize_that_has_not_failed_is_no_problem(text: str) -> None:
    annotations = {names.ANNOTATION_IPPR_STATUS: text}
    assert Scene().changed(HOST, metadata={"annotations": annotations}).ids() == []


def test_a_resize_that_ray_gave_up_explains_the_one_that_is_pending() -> None:
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    conditions = [{"type": "Ready", "status": "True"}, pending]
    scene = Scene().changed(HOST, status={"conditions": conditions})
    assert scene.ids() == ["resize-stuck"]
    annotations = {names.ANNOTATION_IPPR_STATUS: '{"last-failed-reason": "not enough cpu"}'}
    scene.changed(HOST, metadata={"annotations": annotations})
    assert scene.ids() == ["resize-failed"]
    assert "not enough cpu" in messages(scene)[0]
