"""A RayJob or RayService that fails is a problem of its RayCluster, one that is well is none."""

from typing import Any

import msgspec
import pytest

from tests.harness.scenes import CREATED, NOW, Object, Scene, instant, merged
from tests.webhook.diagnostics.samples import samples
from webhook.api.objects import Bare, ObjectMeta
from webhook.diagnostics.examiner import examine
from webhook.objects.live_objects import (
    Application,
    JobStatus,
    LiveJob,
    LiveService,
    ServeStatus,
    ServiceStatus,
)
from webhook.objects.object_cache import ObjectCache


def job(**status: Any) -> Scene:  # noqa: ANN401 - JSON
    scene = samples()["job-failed"].scene()
    scene.ray_jobs[0]["status"] = status
    return scene


def service(**status: Any) -> Scene:  # noqa: ANN401 - JSON
    scene = samples()["service-not-serving"].scene()
    scene.ray_services[0]["status"] = status
    return scene


DEPLOYING = {"applicationStatuses": {"llm": {"status": "DEPLOYING"}}}
RUNNING = {"rayClusterName": "llama", "applicationStatuses": {"llm": {"status": "RUNNING"}}}
WELL: dict[str, Scene] = {
    "a job that has not begun": job(),
    "a job that a person submits": job(jobDeploymentStatus="Waiting", startTime=instant(3000)),
    "a job that runs": job(jobStatus="RUNNING", jobDeploymentStatus="Running"),
    "a job that succeeded": job(jobStatus="SUCCEEDED", jobDeploymentStatus="Complete"),
    "a job that a person stopped": job(jobStatus="STOPPED", jobDeploymentStatus="Complete"),
    "a job that is tried again": job(jobStatus="FAILED", jobDeploymentStatus="Retrying"),
    "a service that serves": service(activeServiceStatus=RUNNING),
    "a service that starts": service(pendingServiceStatus=merged(
        RUNNING, {"applicationStatuses": {"llm": {"status": "DEPLOYING"}}})),
    "an upgrade of this moment": service(
        conditions=[{
            "type": "UpgradeInProgress", "status": "True", "lastTransitionTime": instant(60)}],
        activeServiceStatus={"rayClusterName": "other"}, pendingServiceStatus=RUNNING),
    "a service that fails on another RayCluster": service(activeServiceStatus=merged(
        RUNNING,
        {
            "rayClusterName": "other",
            "applicationStatuses": {"llm": {"status": "UNHEALTHY"}}}))}  # fmt: skip


@pytest.mark.parametrize("scene", WELL.values(), ids=WELL)
def test_an_owner_that_is_well_is_no_problem(scene: Scene) -> None:
    assert scene.ids() == []


@pytest.mark.parametrize(("status", "said", "remedy"), [
    ({"jobDeploymentStatus": "Failed", "reason": "DeadlineExceeded"},
     "RayJob train has failed: DeadlineExceeded", "raise activeDeadlineSeconds"),
    ({"jobDeploymentStatus": "ValidationFailed", "message": "x" * 1000},
     f"RayJob train has failed: ValidationFailed: {'x' * 282}", "fix the RayJob, and create"),
])  # fmt: skip
def test_a_failed_job_is_an_error_of_it(status: dict[str, Any], said: str, remedy: str) -> None:
    cluster_report = job(**status).examined()
    (problem,) = cluster_report.every_problem
    assert (problem.id, problem.cluster, problem.message) == ("job-failed", "llama", said)
    assert problem.remedy.startswith(remedy)
    assert cluster_report.is_degraded


STARTED = {"jobDeploymentStatus": "Running", "startTime": instant(2000)}


def test_a_job_that_starts_late_is_an_error_while_all_pods_are_ready() -> None:
    scene = job(**STARTED)
    assert scene.ids() == ["job-not-started"]
    assert scene.ids(NOW - 300) == []
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": instant(600)}
    scene.changed("llama-tpu-worker-0-3", status={"conditions": [ready]})
    assert scene.ids() == []
    scene.without("llama-tpu-worker-0-3")
    assert scene.ids() == ["host-missing"]


@pytest.mark.parametrize(("mode", "status", "remedy", "command"), [
    ("K8sJobMode", {}, "check the pod that submits it",
     "kubectl describe job,rayjob -n team train"),
    ("SidecarMode", {}, "check the logs of the head's container that submits it",
     "kubectl logs -n team llama-head -c ray-job-submitter"),
    ("HTTPMode", {}, "check that KubeRay reaches", "kubectl describe rayjob -n team train"),
    ("SidecarMode", {"jobStatus": "PENDING"},
     "check the resources and the runtime environment of its entrypoint",
     "kubectl describe rayjob -n team train"),
])  # fmt: skip
def test_late_jobs_are_found(mode: str, status: dict[str, str], remedy: str, command: str) -> None:
    scene = job(**STARTED, **status)
    scene.ray_jobs[0]["spec"] = {"submissionMode": mode}
    (problem,) = scene.examined().every_problem
    assert problem.remedy.startswith(remedy)
    assert problem.command == command


def test_an_owner_of_the_same_name_is_another_object() -> None:
    scene = samples()["job-failed"].scene()
    scene.ray_jobs[0]["metadata"]["uid"] = "recreated"
    assert [(problem.id, problem.cluster) for problem in scene.examined().every_problem] == [
        ("job-failed", "")
    ]


CREATED_AT = {"name": "train", "namespace": "team", "creationTimestamp": instant(3000)}
WITHOUT: list[tuple[Object, str, list[str]]] = [
    ({}, "ray_jobs", ["cluster-not-created"]),
    ({"jobDeploymentStatus": "Initializing", "startTime": instant(60)}, "ray_jobs", []),
    ({"jobDeploymentStatus": "Failed", "reason": "AppFailed"}, "ray_jobs", ["job-failed"]),
    ({"jobDeploymentStatus": "Suspended"}, "ray_jobs", ["suspended"]),
    ({"jobDeploymentStatus": "Complete"}, "ray_jobs", []),
    ({"jobDeploymentStatus": "Retrying"}, "ray_jobs", []),
    ({}, "ray_services", ["cluster-not-created"]),
]


@pytest.mark.parametrize(("status", "kind", "ids"), WITHOUT)
def test_an_owner_with_no_raycluster_is_reported(status: Object, kind: str, ids: list[str]) -> None:
    scene = Scene()
    getattr(scene, kind).append({"metadata": CREATED_AT, "status": status})
    problems = scene.examined().problems
    assert [problem.id for problem in problems] == ids
    assert {problem.namespace for problem in problems} <= {"team"}


@pytest.mark.parametrize(("kind", "spec"), [
    ("ray_jobs", {"clusterSelector": {"ray.io/cluster": "llama"}}),
    ("ray_jobs", {"managedBy": "kueue.x-k8s.io/multikueue"}),
    ("ray_services", {"managedBy": "kueue.x-k8s.io/multikueue"}),
])  # fmt: skip
def test_an_owner_that_needs_no_raycluster_here_is_well(kind: str, spec: Object) -> None:
    scene = Scene()
    getattr(scene, kind).append({"metadata": CREATED_AT, "spec": spec})
    assert scene.ids() == []


def test_an_owner_is_not_searched_while_rayclusters_may_not_be_read() -> None:
    objects = ObjectCache()
    meta = ObjectMeta(name="train", namespace="team", uid="1", creation_timestamp=CREATED)
    objects.ray_jobs.load([LiveJob(meta)])
    assert examine(objects, NOW).problems == ()


def test_a_suspended_raycluster_has_the_name_of_its_queue() -> None:
    (problem,) = samples()["suspended"].scene().examined().every_problem
    assert problem.message == "the RayCluster is suspended by Kueue, and waits in queue tpus"


def test_a_change_of_a_job_concerns_its_raycluster() -> None:
    scene = job(jobStatus="RUNNING", jobDeploymentStatus="Running")
    objects = scene.observed().load(ObjectCache())
    objects.begin()
    objects.take_changed()
    (live,) = objects.ray_jobs.all
    objects.ray_jobs.put(live.metadata.uid or "", LiveJob(live.metadata))
    assert objects.take_changed() == {"uid-of-llama"}


def test_owners_that_may_not_be_read_are_not_checked() -> None:
    scene = samples()["job-failed"].scene()
    scene.ray_jobs.clear()
    assert scene.ids(NOW) == []


def test_of_owners_only_names_statuses_and_the_shown_part_of_messages_are_stored() -> None:
    long, objects = "x" * 100_000, ObjectCache()
    meta = ObjectMeta(name="train", namespace="team", annotations={"a": long}, labels={"b": long})
    serve = ServeStatus("llama", {"llm": Application("UNHEALTHY", long)})
    objects.ray_jobs.put("1", LiveJob(meta, status=JobStatus(job_status="FAILED", message=long)))
    objects.ray_services.put("2", LiveService(meta, status=ServiceStatus(None, serve, serve)))
    objects.services.put("3", Bare(meta))
    for values in (objects.ray_jobs.all, objects.ray_services.all, objects.services.all):
        assert all(len(msgspec.json.encode(value)) < 2000 for value in values)
        assert [value.metadata.name for value in values] == ["train"]
