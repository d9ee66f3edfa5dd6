"""Diagnoses of the owners of RayClusters: RayJobs, RayServices, and what suspends a RayCluster."""

from collections.abc import Iterator
from typing import Any, Final, TypeVar

from webhook.api import names
from webhook.api.formats import in_line
from webhook.api.objects import ObjectMeta
from webhook.api.times import seconds_of
from webhook.diagnostics.assigned_pods import AssignedCluster
from webhook.diagnostics.container_faults import is_ready
from webhook.diagnostics.diagnosis import ERROR, INFO, Begin, Diagnosis, EventRule, Symptom, latest
from webhook.diagnostics.messages import describe, format_names, show
from webhook.objects.live_objects import (
    LiveJob,
    LiveService,
    find,
)
from webhook.objects.object_cache import OPEN_JOBS, LiveObject, ObjectCache, Table, uid_key

T = TypeVar("T", bound=LiveObject)

_FAILED: Final = ("Failed", "ValidationFailed")
_NOT_STARTED: Final = ("", "PENDING")
_UNSTARTED: Final = ("", "Initializing")
_SUSPENDED: Final = ("Suspended", "Suspending")
_KUBERAY: Final = "ray.io/kuberay-operator"
_SIDECAR: Final = "SidecarMode"
_HTTP: Final = "HTTPMode"
_SUBMITTER: Final = "ray-job-submitter"
_SUBMITTED: Final = ("Initializing", "Running")
_NOT_SERVING: Final = ("DEPLOY_FAILED", "UNHEALTHY")
_UPGRADE, _READY = "UpgradeInProgress", "Ready"
_RESTORE: Final = ", or restore the previous spec"
_CAPACITY: Final = ", which may wait for more workers than it has"
_REMEDIES: Final = {
    "SubmissionFailed": "check the entrypoint, and that the submitter reaches the head",
    "DeadlineExceeded": "raise activeDeadlineSeconds, or find what slows the job",
    "PreRunningDeadlineExceeded": "raise preRunningDeadlineSeconds, or find what delays the start",
    "ValidationFailed": "fix the RayJob",
}
"""By the reason of KubeRay.

https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/apis/ray/v1/rayjob_types.go
"""


def job_failed(cluster: AssignedCluster) -> Iterator[Symptom]:
    """A RayCluster whose RayJob has failed.

    Its pods may be ready and idle. The problem lasts until the RayJob is deleted, by hand or by the
    policy `DeleteSelf` of its `deletionStrategy`.

    https://docs.ray.io/en/master/cluster/kubernetes/getting-started/rayjob-quick-start.html
    """
    job = _job(cluster)
    if job is not None and job.status.job_deployment_status in _FAILED:
        yield _describe_failure(job)


def _describe_failure(job: LiveJob) -> Symptom:
    status, name = job.status, job.metadata.name or ""
    reason = status.reason or status.job_deployment_status
    message = in_line(f"{reason}: {status.message}" if status.message.strip() else reason)
    remedy = _REMEDIES.get(reason, "fix the error in the message")
    return Symptom(
        f"RayJob {name} has failed: {message}",
        f"{remedy}, and create the RayJob again",
        describe("rayjob", job.metadata.namespace or "", name),
        Begin(seconds_of(status.end_time)),
    )


def job_not_started(cluster: AssignedCluster) -> Iterator[Symptom]:
    """A RayCluster that is complete, and whose RayJob does not run.

    The pod that submits the job does not run or does not reach the head, or Ray waits for the
    resources or the runtime environment of the entrypoint. Meanwhile the pods are idle.

    https://docs.ray.io/en/master/cluster/kubernetes/getting-started/rayjob-quick-start.html
    """
    job = _job(cluster)
    if job is None or job.status.job_deployment_status not in _SUBMITTED:
        return
    status, pods = job.status, [*cluster.heads, *cluster.pods]
    complete = bool(cluster.heads) and not any(
        replica.missing for group in cluster.groups for replica in group.replicas
    )
    if status.job_status not in _NOT_STARTED or not complete or not all(map(is_ready, pods)):
        return
    ready = (pod.condition("Ready") for pod in pods)
    times = (condition.since for condition in ready if condition is not None)
    problem, remedy, command = _reason_not_started(cluster, job)
    yield Symptom(
        f"RayJob {job.metadata.name} has not started: {problem}",
        remedy,
        command,
        Begin(latest((seconds_of(status.start_time), *times))),
    )


def _reason_not_started(cluster: AssignedCluster, job: LiveJob) -> tuple[str, str, str]:
    """Return why a RayJob has not started, a remedy and a command, by the state of its submission.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/job.go
    """
    namespace, name = cluster.namespace, job.metadata.name or ""
    if job.status.job_status:
        return (
            "Ray reports its job as PENDING",
            "check the resources and the runtime environment of its entrypoint",
            describe("rayjob", namespace, name),
        )
    problem, mode = "its job is not submitted", job.spec.submission_mode
    if mode == _SIDECAR:
        remedy = "check the logs of the head's container that submits it"
        command = f"kubectl logs -n {namespace} {cluster.heads[0].name} -c {_SUBMITTER}"
        return problem, remedy, command
    if mode == _HTTP:
        remedy = "check that KubeRay reaches the head, and the events of the RayJob"
        return problem, remedy, describe("rayjob", namespace, name)
    return problem, "check the pod that submits it", describe("job,rayjob", namespace, name)


def service_not_serving(cluster: AssignedCluster) -> Iterator[Symptom]:
    """A RayCluster with a Serve application that is not deployed or not healthy.

    The pods may be ready: requests to the application fail, or, in an upgrade, the RayService keeps
    the previous RayCluster active.

    https://docs.ray.io/en/master/serve/production-guide/kubernetes.html
    """
    service = service_of(cluster)
    if service is None:
        return
    active, pending = service.status.active_service_status, service.status.pending_service_status
    for status, role in ((active, "active"), (pending, "pending")):
        for name, application in sorted((status.application_statuses or {}).items()):
            if status.ray_cluster_name == cluster.name and application.status in _NOT_SERVING:
                message = in_line(application.message)
                yield Symptom(
                    f"application {name} of RayService {service.metadata.name} is "
                    f"{application.status} on this {role} RayCluster"
                    f"{f': {message}' if message else ''}",
                    "fix the error in the message, in serveConfigV2 or in the application",
                    describe("rayservice", cluster.namespace, service.metadata.name or ""),
                )


def service_without_endpoints(cluster: AssignedCluster) -> Iterator[Symptom]:
    """A RayCluster whose RayService has no endpoint.

    The Service for Serve has pods whose proxy answers: workers with a replica of an application,
    and the head unless it is excluded. Applications may be RUNNING while no proxy answers, and a
    worker is not ready for Serve alone, so that its pod counts as ready.

    https://docs.ray.io/en/master/cluster/kubernetes/troubleshooting/rayservice-troubleshooting.html
    """
    service = service_of(cluster)
    if service is None or service.status.active_service_status.ray_cluster_name != cluster.name:
        return
    condition = find(service.status.conditions, _READY)
    if condition is not None and condition.status == "False":
        name = service.metadata.name or ""
        yield Symptom(
            f"RayService {name} is not ready: {condition.words}",
            "check the applications and their replicas, which the Serve page of the Ray dashboard "
            "shows",
            describe("rayservice", cluster.namespace, name),
            Begin(condition.since),
        )


def upgrade_stuck(cluster: AssignedCluster) -> Iterator[Symptom]:
    """A RayCluster that a RayService does not activate.

    The RayService switches its requests to the pending RayCluster when all applications run on it.
    Until then both RayClusters occupy their devices, and the previous one answers; without a
    previous one, nothing does.

    https://docs.ray.io/en/master/cluster/kubernetes/user-guides/rayservice-incremental-upgrade.html
    """
    service = service_of(cluster)
    if service is None or service.status.pending_service_status.ray_cluster_name != cluster.name:
        return
    active = service.status.active_service_status.ray_cluster_name
    # KubeRay sets UpgradeInProgress only beside an active RayCluster.
    kind, status = (_UPGRADE, "True") if active else (_READY, "False")
    condition = find(service.status.conditions, kind)
    if condition is None or condition.status != status:
        return
    statuses = service.status.pending_service_status.application_statuses or {}
    apps = format_names(
        [f"{name} is {application.status}" for name, application in sorted(statuses.items())]
    )
    yield Symptom(
        f"RayService {service.metadata.name} does not {'switch to' if active else 'serve on'} this "
        f"RayCluster: {apps or 'no application is deployed'}"
        f"{f'; RayCluster {active} is active' if active else ''}",
        f"check the applications on the pending RayCluster{_RESTORE if active else _CAPACITY}",
        describe("rayservice", cluster.namespace, service.metadata.name or ""),
        Begin(condition.since),
    )


def suspended(cluster: AssignedCluster) -> Iterator[Symptom]:
    """A RayCluster that is suspended.

    It has no pods. Kueue suspends a RayCluster until its queue has quota for it, and again when it
    preempts it; a person sets `spec.suspend`.

    https://kueue.sigs.k8s.io/docs/tasks/run/rayclusters/
    """
    if cluster.cluster_config.suspended:
        meta = cluster.live.metadata
        yield _describe_suspension("the RayCluster", names.RAYCLUSTER_KIND, meta, cluster.objects)


def _describe_suspension(
    subject: str, kind: str, meta: ObjectMeta, objects: ObjectCache
) -> Symptom:
    workload = objects.workloads.one(uid_key(meta.namespace, meta.uid))
    reason = workload.reason if workload is not None else ""
    queue = (meta.labels or {}).get(names.LABEL_KUEUE_QUEUE, "")
    if queue:
        return Symptom(
            f"{subject} is suspended by Kueue, and waits in queue {queue}"
            f"{f': {reason}' if reason else ''}",
            "wait until the queue has quota; the conditions of its Workload have the reason",
            f"kubectl describe workloads.kueue.x-k8s.io -n {meta.namespace} "
            f"{workload.metadata.name if workload else ''}".rstrip(),
        )
    return Symptom(
        f"{subject} is suspended by spec.suspend",
        "set spec.suspend to false to start it",
        show(kind.lower(), meta.namespace or "", meta.name or ""),
    )


def cluster_not_created(owner: LiveJob | LiveService) -> Iterator[Symptom]:
    """A RayJob or RayService without a RayCluster.

    KubeRay creates the RayCluster at once. It does not while it does not run, if it does not watch
    the namespace, or if the API server or a webhook refuses the RayCluster, which an event of the
    owner says. RayJobs on an existing RayCluster, and owners that MultiKueue runs in another
    cluster, need none here.

    https://docs.ray.io/en/master/cluster/kubernetes/troubleshooting/troubleshooting.html
    """
    meta = owner.metadata
    if owner.spec.managed_by not in ("", _KUBERAY):
        return
    if isinstance(owner, LiveJob):
        status = owner.status
        if owner.spec.cluster_selector or status.job_deployment_status not in _UNSTARTED:
            return
        kind, reason, started = names.RAYJOB_KIND, in_line(status.message), status.start_time
    else:
        condition = find(owner.status.conditions, _READY)
        reason = condition.words if condition is not None and not condition.is_true else ""
        kind, started = names.RAYSERVICE_KIND, None
    yield Symptom(
        f"{kind} {meta.name} has no RayCluster{f': {reason}' if reason else ''}",
        f"check the events of the {kind}, and that KubeRay runs",
        describe(kind.lower(), meta.namespace or "", meta.name or ""),
        Begin(latest((meta.created, seconds_of(started)))),
    )


def find_problems_of_owners(
    objects: ObjectCache,
) -> Iterator[tuple[Diagnosis[Any], Symptom, str, str]]:
    """Yield the symptoms of RayJobs and RayServices that have no RayCluster, which no report of a
    RayCluster contains, with their diagnoses, namespaces and owners, such as `RayJob/train`.
    """
    if not objects.clusters.known:
        return
    owners: list[LiveJob | LiveService] = [
        *objects.ray_jobs.of(OPEN_JOBS),
        *objects.ray_services.all,
    ]
    for owner in owners:
        meta = owner.metadata
        if meta.deletion_timestamp is not None or objects.clusters.of(
            uid_key(meta.namespace, meta.uid)
        ):
            continue
        kind = names.RAYJOB_KIND if isinstance(owner, LiveJob) else names.RAYSERVICE_KIND
        for diagnosis, symptom in _find_problems(owner, kind, objects):
            yield diagnosis, symptom, meta.namespace or "", f"{kind}/{meta.name}"


def _find_problems(
    owner: LiveJob | LiveService, kind: str, objects: ObjectCache
) -> Iterator[tuple[Diagnosis[Any], Symptom]]:
    state = owner.status.job_deployment_status if isinstance(owner, LiveJob) else ""
    suspending = isinstance(owner, LiveService) and owner.spec.suspend
    if isinstance(owner, LiveJob) and state in _FAILED:
        yield _JOB_FAILED, _describe_failure(owner)
    elif suspending or state in _SUSPENDED:
        meta = owner.metadata
        yield _SUSPENSION, _describe_suspension(f"{kind} {meta.name}", kind, meta, objects)
    else:
        for symptom in cluster_not_created(owner):
            yield _NOT_CREATED, symptom


def _job(cluster: AssignedCluster) -> LiveJob | None:
    return _owner(cluster, names.RAYJOB_KIND, cluster.objects.ray_jobs)


def service_of(cluster: AssignedCluster) -> LiveService | None:
    """Return the RayService that owns a RayCluster."""
    return _owner(cluster, names.RAYSERVICE_KIND, cluster.objects.ray_services)


def _owner(cluster: AssignedCluster, kind: str, table: Table[T]) -> T | None:
    reference = cluster.live.metadata.controller
    if reference is None or reference.kind != kind:
        return None
    owner = table.get(reference.uid)
    return owner if owner and owner.metadata.namespace == cluster.namespace else None


_JOB_FAILED: Final = Diagnosis(job_failed, ERROR, event=EventRule("RayJobFailed"))
_SUSPENSION: Final = Diagnosis(suspended, INFO)
_NOT_CREATED: Final = Diagnosis(cluster_not_created, ERROR, 300)
OWNERS: Final = (
    _JOB_FAILED,
    Diagnosis(job_not_started, ERROR, 1800, EventRule("RayJobNotStarted")),
    Diagnosis(service_not_serving, ERROR, event=EventRule("ServiceNotServing")),
    Diagnosis(service_without_endpoints, ERROR, 300),
    Diagnosis(upgrade_stuck, ERROR, 1800, EventRule("UpgradeStuck")),
    _SUSPENSION,
)
WITHOUT_CLUSTER: Final = (_NOT_CREATED,)
