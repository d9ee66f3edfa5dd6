"""Rules of RayJobs: the job, its submission, and its cluster."""

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from webhook.api.formats import list_choices, shorten
from webhook.api.review import DUPLICATE, FORBIDDEN, NOT_SUPPORTED, REQUIRED
from webhook.validation.finding import Fault
from webhook.validation.ray_object import K8S_JOB, SIDECAR, Job
from webhook.validation.runtime_env import (
    runtime_env_keys,
    runtime_env_values,
)

INTERACTIVE: Final = "InteractiveMode"
_HTTP: Final = "HTTPMode"
_MODES: Final = (K8S_JOB, _HTTP, INTERACTIVE, SIDECAR)
_SIDECAR_SINCE: Final = (1, 5)
_OF_SUBMITTER: Final = ("submitterPodTemplate", "submitterConfig")
_JOB_ID: Final = re.compile(r"[\w.-]+", re.ASCII)
_JOB_ID_MAX: Final = 200
_CLUSTER_KEY: Final = "ray.io/cluster"
_LEAST: Final = {"activeDeadlineSeconds": 1, "preRunningDeadlineSeconds": 1, "backoffLimit": 0}
_JSON_MAX: Final = 4096


def job_suspend_without_shutdown(job: Job) -> Iterator[Fault]:
    """A suspended RayJob that keeps its cluster.

    Suspending deletes the cluster, so KubeRay requires `shutdownAfterJobFinishes`.
    """
    if (job.field / "suspend").flag and not job.shutdown:
        problem = "suspend is true, but shutdownAfterJobFinishes is not: set it to true"
        field = job.field / "shutdownAfterJobFinishes"
        yield Fault(field, f"{problem}, or remove suspend", REQUIRED)


def job_suspend_with_selector(job: Job) -> Iterator[Fault]:
    """A suspended RayJob on an existing cluster.

    The RayJob does not own the cluster, so KubeRay cannot suspend it.
    """
    if (job.field / "suspend").flag and job.selects:
        problem = "suspend is true, but clusterSelector names an existing cluster"
        yield Fault(job.field / "suspend", f"{problem}: remove one of the two", FORBIDDEN)


def job_ttl_invalid(job: Job) -> Iterator[Fault]:
    """A time to live of the finished job that is negative or has no effect.

    Without `shutdownAfterJobFinishes` the cluster is not deleted, so KubeRay refuses the RayJob.
    """
    field = job.field / "ttlSecondsAfterFinished"
    seconds = field.number or 0
    if seconds < 0:
        yield Fault(field, f"{seconds}: write 0 or more seconds")
    elif seconds and not job.shutdown:
        yield Fault(field, f"{seconds}: set shutdownAfterJobFinishes to true, or remove this")


def job_without_cluster(job: Job) -> Iterator[Fault]:
    """A RayJob with neither a cluster of its own nor the name of an existing cluster.

    The job has no cluster to run on.
    """
    if not (job.field / "rayClusterSpec").given and not job.selects:
        message = f"rayClusterSpec is not set: add it, or clusterSelector with {_CLUSTER_KEY}"
        yield Fault(job.field / "rayClusterSpec", message, REQUIRED)


def job_selector_without_name(job: Job) -> Iterator[Fault]:
    """A cluster selector without the name of the cluster.

    KubeRay selects the cluster by this key only.
    """
    name = job.selector.key(_CLUSTER_KEY)
    if job.selects and (not name.given or name.value == ""):
        message = f"clusterSelector has no {_CLUSTER_KEY}: set it to the name of a RayCluster"
        yield Fault(name, message, REQUIRED)


def job_sidecar_conflict(job: Job) -> Iterator[Fault]:
    """SidecarMode with settings that it does not support.

    In this mode the submitter runs in the head pod: it has no pod to configure and cannot use an
    existing cluster, and the head must not restart.
    """
    if job.mode != SIDECAR:
        return
    if job.selects:
        message = f"clusterSelector is set in {SIDECAR}: remove it, or write K8sJobMode"
        yield Fault(job.selector, message, FORBIDDEN)
    for name in _OF_SUBMITTER:
        if (job.field / name).given:
            message = f"{name} is set, but {SIDECAR} has no submitter pod: remove it"
            yield Fault(job.field / name, message, FORBIDDEN)
    policy = job.field / "rayClusterSpec" / "headGroupSpec" / "template" / "spec" / "restartPolicy"
    if policy.given and policy.text not in ("", "Never"):
        yield Fault(policy, f"restartPolicy is {shorten(policy.text)} in {SIDECAR}: write Never")


def job_submission_mode_unknown(job: Job) -> Iterator[Fault]:
    """A submission mode that KubeRay does not have.

    The CRD accepts any text. KubeRay compares it, case included, and submits the job in none of
    its modes: the RayJob runs without end. A name that differs in more than its case may be that
    of a newer release, so it is a warning.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/rayjob_controller.go
    """
    field = job.field / "submissionMode"
    has_sidecar = job.settings.since(_SIDECAR_SINCE) is not False
    modes = [mode for mode in _MODES if has_sidecar or mode != SIDECAR]
    if field.text and field.text not in modes:
        near = next((mode for mode in modes if mode.lower() == field.text.lower()), "")
        message = f"{shorten(field.text)!r} submits no job: write {near or list_choices(modes)}"
        yield Fault(field, message, NOT_SUPPORTED, doubtful=not near)


def job_field_ignored(job: Job) -> Iterator[Fault]:
    """A part of a RayJob that KubeRay does not read.

    With `clusterSelector` the job runs on the existing cluster, and KubeRay creates none from
    `rayClusterSpec`. In HTTPMode and InteractiveMode no pod submits the job.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/rayjob_controller.go
    (`getOrCreateRayClusterInstance`)
    """
    if job.selects and (job.field / "rayClusterSpec").given:
        problem = "no effect, because clusterSelector names an existing cluster"
        yield Fault(job.field / "rayClusterSpec", f"{problem}: remove one of the two", FORBIDDEN)
    for name in _OF_SUBMITTER if job.mode in (_HTTP, INTERACTIVE) else ():
        if (job.field / name).given:
            message = f"no effect in {job.mode}, which has no submitter pod: remove it"
            yield Fault(job.field / name, message, FORBIDDEN)


def job_id_invalid(job: Job) -> Iterator[Fault]:
    """A submission id that ends the submitter's command.

    KubeRay writes the id into a command of the submitter's shell without quotes, and Ray uses it as
    a part of file names.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/job.go
    (`BuildJobSubmitCommand`)
    """
    field = job.field / "jobId"
    if not field.text or not job.in_shell:
        return
    if not _JOB_ID.fullmatch(field.text):
        message = f"{shorten(field.text)!r}: use letters, digits, '-', '_' and '.'"
        yield Fault(field, message)
    elif len(field.text) > _JOB_ID_MAX:
        yield Fault(field, f"{len(field.text)} characters: use at most {_JOB_ID_MAX}")


def job_submitter_without_container(job: Job) -> Iterator[Fault]:
    """A template of the submitter's pod without a container.

    KubeRay writes to the first container without checking that it exists, and never submits the
    job.

    https://github.com/ray-project/kuberay/blob/v1.6.2/ray-operator/controllers/ray/rayjob_controller.go
    (`getSubmitterTemplate`)
    """
    containers = job.submitter / "spec" / "containers"
    if job.submitter.given and not containers.size:
        message = "containers is empty: add the container that submits the job"
        yield Fault(containers, message, REQUIRED)


def job_backoff_unsupported(job: Job) -> Iterator[Fault]:
    """Retries of a job that KubeRay cannot restart.

    KubeRay creates no new cluster for a job on an existing cluster, and does not resubmit an
    interactive job.
    """
    field = job.field / "backoffLimit"
    setting, since = "clusterSelector", (1, 6)
    if job.mode == INTERACTIVE:
        setting, since = INTERACTIVE, (1, 4)
    elif not job.selects:
        return
    if (field.number or 0) > 0:
        message = f"{field.number}, but a RayJob with {setting} is not retried: remove it"
        yield Fault(field, message, FORBIDDEN, since=since)


def job_number_not_positive(job: Job) -> Iterator[Fault]:
    """A deadline of a RayJob that is not above 0, or a negative number of retries.

    KubeRay refuses the RayJob.
    """
    for name, least in _LEAST.items():
        field = job.field / name
        if field.number is not None and field.number < least:
            yield Fault(field, f"{field.number}: write {least} or more, or remove it")


def job_runtime_env_unreadable(job: Job) -> Iterator[Fault]:
    """A runtime environment that is not a YAML map.

    KubeRay sends it to Ray as JSON, and refuses a RayJob with a text that it cannot parse. A
    duplicate key is a warning: the last value is used.
    """
    field, twice = job.field / "runtimeEnvYAML", job.runtime_env.twice
    if problem := job.runtime_env.problem:
        yield Fault(field, problem)
    if twice:
        yield Fault(field, twice, DUPLICATE, doubtful=True)


def job_waiting_not_interactive(job: Job) -> Iterator[Fault]:
    """A RayJob in status Waiting with a mode other than InteractiveMode.

    No other mode leaves this status, so the RayJob never continues. The mode was changed after the
    RayJob had started.
    """
    if (job.root / "status" / "jobDeploymentStatus").text == "Waiting" and job.mode != INTERACTIVE:
        problem = f"submissionMode is {job.mode or K8S_JOB} while the job is Waiting"
        yield Fault(job.field / "submissionMode", f"{problem}: write {INTERACTIVE} again")


def job_entrypoint_missing(job: Job) -> Iterator[Fault]:
    """A RayJob without an entrypoint.

    The submission ends with an error, unless the user submits the job (InteractiveMode) or the
    submitter's container has its own command.

    https://docs.ray.io/en/latest/cluster/kubernetes/getting-started/rayjob-quick-start.html
    """
    field = job.field / "entrypoint"
    containers = (job.field / "submitterPodTemplate" / "spec" / "containers").items()
    own_command = any((first / "command").size for first in islice(containers, 1))
    if job.mode == INTERACTIVE or field.text.strip() or own_command:
        return
    # A value of another type is reported by the rule of types.
    if field.value is None or field.text == field.value:
        advice = f"write the job's command, or set submissionMode to {INTERACTIVE}"
        yield Fault(field, f"entrypoint is empty: {advice}", REQUIRED)


def job_entrypoint_resources_unreadable(job: Job) -> Iterator[Fault]:
    """Custom resources of the entrypoint that are not a JSON map of numbers.

    Ray refuses the submission, and the RayJob fails after its cluster has started.

    https://docs.ray.io/en/latest/cluster/running-applications/job-submission/cli.html
    """
    field = job.field / "entrypointResources"
    json_text = field.text
    if not json_text or len(json_text) > _JSON_MAX or "$" in json_text or "`" in json_text:
        return  # a shell replaces variables
    try:
        value = json.loads(json_text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or {*map(type, value.values())} - {int, float}:
        yield Fault(
            field, f'{shorten(json_text)!r}: write JSON with numbers, such as {{"Custom": 1}}'
        )


def job_submitter_restarts(job: Job) -> Iterator[Fault]:
    """A template of the submitter's pod whose restart policy is not allowed in a Kubernetes Job.

    KubeRay does not set a restart policy in a user's template; the default of Kubernetes is Always,
    which is refused in a Job, so the RayJob is never submitted.

    https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-template
    """
    policy = job.submitter / "spec" / "restartPolicy"
    listed = (job.submitter / "spec" / "containers").size > 0
    if listed and policy.value not in ("Never", "OnFailure"):
        policy_text = f"{shorten(policy.text)!r}" if policy.text else "not set"
        message = (
            f"restartPolicy is {policy_text}: write Never or OnFailure, as a Kubernetes Job needs"
        )
        yield Fault(policy, message, NOT_SUPPORTED if policy.text else REQUIRED)


def job_runtime_env_value_invalid(job: Job) -> Iterator[Fault]:
    """A runtime environment of a RayJob with values that Ray refuses.

    Examples are variables that are not strings, and two installers of Python packages at once; Ray
    refuses the job after its cluster has started.

    https://docs.ray.io/en/latest/ray-core/handling-dependencies.html#api-reference
    """
    yield from runtime_env_values(job.environment)


def job_runtime_env_key_unknown(job: Job) -> Iterator[Fault]:
    """A key of a runtime environment that Ray does not have.

    Ray ignores the key, so a misspelt key has no effect.

    https://docs.ray.io/en/latest/ray-core/handling-dependencies.html#api-reference
    """
    yield from runtime_env_keys(job.environment)
