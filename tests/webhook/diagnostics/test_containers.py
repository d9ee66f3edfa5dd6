"""Containers that end or do not start: the innermost cause, at every moment of a back-off."""

from typing import Any

import pytest

from tests.harness.scenes import NOW, Object, Scene, hosts_of, instant

HOST = "llama-tpu-worker-0-3"
UNREADY = {"type": "Ready", "status": "False", "lastTransitionTime": instant(1200)}
SCHEDULED = {"type": "PodScheduled", "status": "True", "lastTransitionTime": instant(1200)}
RUNS = 40
"""Seconds that a run of the container lasts."""


def end(ago: float, reason: str = "Error", code: int = 1, message: str = "") -> Object:
    return {
        "reason": reason, "exitCode": code, "message": message, "startedAt": instant(ago + RUNS),
        "finishedAt": instant(ago)}  # fmt: skip


def crashed(name: str = "ray-worker", **last: Any) -> Object:  # noqa: ANN401
    """Return the status of a container in back-off after its last end."""
    return {
        "name": name, "ready": False, "restartCount": 5,
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 2m40s"}},
        "lastState": {"terminated": end(30, **last)}}  # fmt: skip


def waiting(reason: str, message: str) -> Object:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"name": "ray-worker", "ready": False, "state": state}


def scene_of(status: Object, *, init: bool = False) -> Scene:
    field = "initContainerStatuses" if init else "containerStatuses"
    conditions = [UNREADY, SCHEDULED]
    scene = Scene().changed(
        HOST, status={"phase": "Pending", "conditions": conditions, field: [status]}
    )
    for container in scene.pods[HOST]["spec"]["containers"]:
        container["resources"]["limits"]["memory"] = "16Gi"
    return scene


CASES: dict[str, tuple[Object, bool, str, str, str]] = {
    "Ray without memory": (crashed(reason="OOMKilled", code=137), False,
     "ray-worker: OOMKilled, exit code 137, at its memory limit of 16Gi, after 5 restarts",
     "raise the memory limit of ray-worker", f"kubectl describe pod -n team {HOST}"),
    "KubeRay's container without memory": (crashed("wait-gcs-ready", reason="OOMKilled", code=137),
     True,
     "wait-gcs-ready: OOMKilled, exit code 137, at its memory limit of 256Mi, after 5 restarts",
     "KubeRay adds this container: set startup.raiseWaitGcsReady to true and request more",
     f"kubectl describe pod -n team {HOST}"),
    "KubeRay's container with an error": (crashed("wait-gcs-ready", code=127), True,
     "wait-gcs-ready: Error, exit code 127, after 5 restarts",
     "KubeRay adds this container, which runs `ray health-check`",
     f"kubectl logs -n team {HOST} -c wait-gcs-ready -p"),
    "an init container of the user": (crashed("load-model", code=2, message="no such bucket\n"),
     True, "load-model: Error, exit code 2, after 5 restarts: no such bucket",
     "fix the error at the end of the log of load-model",
     f"kubectl logs -n team {HOST} -c load-model -p"),
    "a command that the image does not have": (crashed(reason="StartError", code=128,
     message='exec: "ray": not found'), False,
     "ray-worker: StartError, exit code 128, after 5 restarts", "fix the command of ray-worker",
     f"kubectl describe pod -n team {HOST}"),
    "an image without a right to pull it": (waiting("ErrImagePull",
     "failed to authorize: 401 Unauthorized"), False,
     "ray-worker: ErrImagePull, failed to authorize", "create the image pull Secret",
     f"kubectl describe pod -n team {HOST}"),
    "a Secret that does not exist": (waiting("CreateContainerConfigError",
     'secret "hf-token" not found'), False,
     'ray-worker: CreateContainerConfigError, secret "hf-token" not found',
     "create secret hf-token", "kubectl get secrets -n team"),
    "a Secret without a key": (waiting("CreateContainerConfigError",
     "couldn't find key token in Secret team/hf-token"), False,
     "ray-worker: CreateContainerConfigError, couldn't find key token",
     "add the key to Secret hf-token", "kubectl describe secret -n team hf-token"),
}  # fmt: skip


@pytest.mark.parametrize(("status", "init", "said", "remedy", "command"), CASES.values(), ids=CASES)
def test_the_innermost_cause_has_its_remedy(
    status: Object, init: bool, said: str, remedy: str, command: str
) -> None:
    (problem,) = scene_of(status, init=init).examined().every_problem
    assert problem.id == "container-not-running"
    assert problem.message.startswith(f"host 3 of replica 0 does not run: {said}")
    assert problem.remedy.startswith(remedy)
    assert problem.command == command


def moment(seconds: float) -> Object:
    """Return the status of a container that runs 40 s and waits 160 s, `seconds` after a start."""
    ended, restarted = end(seconds + 160), {"startedAt": instant(seconds)}
    if seconds < RUNS:
        state: Object = {"running": restarted}
    elif seconds < RUNS + 1:
        state, ended = {"terminated": end(0)}, end(RUNS + 160)
    else:
        state, ended = {"waiting": {"reason": "CrashLoopBackOff"}}, end(seconds - RUNS)
    ready = seconds > RUNS / 2 and "running" in state
    return {
        "name": "ray-worker", "ready": ready, "restartCount": 4, "state": state,
        "lastState": {"terminated": ended}}  # fmt: skip


@pytest.mark.parametrize("seconds", range(0, 200, 10))
def test_a_container_that_ends_again_and_again_is_the_answer_at_every_moment(seconds: int) -> None:
    scene = scene_of(moment(seconds))
    scene.pods[HOST]["spec"]["restartPolicy"] = "Always"
    if moment(seconds)["ready"]:
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": instant(10)}
        scene.changed(HOST, status={"conditions": [ready, SCHEDULED]})
    (problem,) = scene.examined().every_problem
    assert problem.id == "container-not-running"
    assert ": ray-worker: Error, exit code 1, after 4 restarts" in problem.message


def test_a_container_that_has_run_for_longer_than_the_last_time_no_longer_ends_repeatedly() -> None:
    scene = Scene().changed(*hosts_of(0), status={"containerStatuses": [moment(0)]})
    assert scene.ids(NOW + 59) == ["container-not-running"]
    assert scene.ids(NOW + 60) == []
