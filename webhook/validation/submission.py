"""Rules of the submission of a RayJob: entrypoint, resources, environment, submitter's pod."""

import json
from collections.abc import Iterator
from typing import Final

from webhook.api.review import NOT_SUPPORTED, REQUIRED
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.ray_object import K8S_JOB, Job
from webhook.validation.rayjob import INTERACTIVE
from webhook.validation.rule import RAY, deny, warn
from webhook.validation.runtime_env import (
    YAML_MAX,
    read_runtime_env,
    runtime_env_keys,
    runtime_env_values,
)

_SHELL: Final = ("$", "`")
_JOB_POLICIES: Final = ("Never", "OnFailure")
_JSON_MAX: Final = 4096


def job_entrypoint_missing(job: Job) -> Iterator[Fault]:
    """A RayJob without an entrypoint.

    The submission ends with an error, unless the user submits the job (InteractiveMode) or the
    submitter's container has its own command.

    https://docs.ray.io/en/latest/cluster/kubernetes/getting-started/rayjob-quick-start.html
    """
    field = job.field / "entrypoint"
    if job.mode == INTERACTIVE or field.text.strip() or _own_command(job):
        return
    if field.value is None or field.text == field.value:
        text = (
            f"entrypoint is empty: write the job's command, or set submissionMode to {INTERACTIVE}"
        )
        yield Fault(field, text, REQUIRED)


def _own_command(job: Job) -> bool:
    containers = job.field / "submitterPodTemplate" / "spec" / "containers"
    first = next(iter(containers.items()), None)
    return first is not None and (first / "command").size > 0


def job_entrypoint_resources_unreadable(job: Job) -> Iterator[Fault]:
    """Custom resources of the entrypoint that are not a JSON map of numbers.

    Ray refuses the submission, and the RayJob fails after its cluster has started.

    https://docs.ray.io/en/latest/cluster/running-applications/job-submission/cli.html
    """
    field = job.field / "entrypointResources"
    text = field.text
    if not text or len(text) > _JSON_MAX or any(each in text for each in _SHELL):
        return
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    numbers = value.values() if isinstance(value, dict) else (None,)
    if not all(isinstance(each, int | float) and not isinstance(each, bool) for each in numbers):
        yield Fault(field, f'{text[:40]!r}: write JSON with numbers, such as {{"Custom": 1}}')


def job_submitter_restarts(job: Job) -> Iterator[Fault]:
    """A template of the submitter's pod whose restart policy is not allowed in a Kubernetes Job.

    KubeRay does not set a restart policy in a user's template; the default of Kubernetes is Always,
    which is refused in a Job, so the RayJob is never submitted.

    https://kubernetes.io/docs/concepts/workloads/controllers/job/#pod-template
    """
    template = job.field / "submitterPodTemplate"
    policy = template / "spec" / "restartPolicy"
    if job.mode not in ("", K8S_JOB) or not (template / "spec" / "containers").size:
        return
    if policy.value in _JOB_POLICIES:
        return
    found = f"{policy.text[:40]!r}" if policy.text else "not set"
    reason = NOT_SUPPORTED if policy.text else REQUIRED
    yield Fault(
        policy,
        f"restartPolicy is {found}: write Never or OnFailure, as a Kubernetes Job needs",
        reason,
    )


def job_runtime_env_value_invalid(job: Job) -> Iterator[Fault]:
    """A runtime environment of a RayJob with values that Ray refuses.

    Examples are variables that are not strings, and two installers of Python packages at once; Ray
    refuses the job after its cluster has started.

    https://docs.ray.io/en/latest/ray-core/handling-dependencies.html#api-reference
    """
    yield from runtime_env_values(_runtime_env(job))


def job_runtime_env_key_unknown(job: Job) -> Iterator[Fault]:
    """A key of a runtime environment that Ray does not have.

    Ray ignores the key, so a misspelt key has no effect.

    https://docs.ray.io/en/latest/ray-core/handling-dependencies.html#api-reference
    """
    yield from runtime_env_keys(_runtime_env(job))


def _runtime_env(job: Job) -> Field:
    """Return the runtime environment as a field whose path continues that of its text."""
    text = (job.field / "runtimeEnvYAML").text
    value = read_runtime_env(text).value if 0 < len(text) <= YAML_MAX else None
    return Field(value, job.field, "runtimeEnvYAML")


SUBMISSION: Final = (
    deny(job_entrypoint_missing),
    deny(job_entrypoint_resources_unreadable, by=RAY),
    deny(job_submitter_restarts),
    deny(job_runtime_env_value_invalid, by=RAY),
    warn(job_runtime_env_key_unknown),
)
