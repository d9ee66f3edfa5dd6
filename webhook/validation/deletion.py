"""Rules of `deletionStrategy` of RayJobs and of the older `deletionPolicy`."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from webhook.api.review import DUPLICATE, FORBIDDEN, REQUIRED
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.ray_object import Job

_CLUSTER: Final = "DeleteCluster"
_WORKERS: Final = "DeleteWorkers"
_ORDER: Final = (_WORKERS, _CLUSTER, "DeleteSelf")
_NONE: Final = "DeleteNone"


def deletion_mixed(job: Job) -> Iterator[Fault]:
    """Deletion rules together with another setting for deletion.

    The two may contradict each other, so KubeRay refuses the RayJob.
    """
    rules = _strategy(job) / "deletionRules"
    if rules.size and job.shutdown:
        text = "shutdownAfterJobFinishes is true beside deletionRules: remove one of the two"
        yield Fault(job.field / "shutdownAfterJobFinishes", text, FORBIDDEN)
    if rules.size and _legacy(job):
        text = "deletionRules are set beside onSuccess or onFailure: remove one of the two"
        yield Fault(rules, text, FORBIDDEN)


def deletion_incomplete(job: Job) -> Iterator[Fault]:
    """A deletion strategy that is empty or incomplete.

    A strategy needs deletion rules, or a policy for success and one for failure.
    """
    strategy = _strategy(job)
    if not strategy.given or (strategy / "deletionRules").size:
        return
    if not _legacy(job):
        text = "deletionStrategy has no deletionRules: add them, or remove it"
        yield Fault(strategy, text, REQUIRED)
        return
    for name in ("onSuccess", "onFailure"):
        if not (strategy / name / "policy").given:
            text = f"{name} has no policy: set it; onSuccess and onFailure both need one"
            yield Fault(strategy / name / "policy", text, REQUIRED)


def deletion_none_with_shutdown(job: Job) -> Iterator[Fault]:
    """A policy to delete nothing in a RayJob that shuts its cluster down.

    The two contradict each other, so KubeRay refuses the RayJob.
    """
    for policy in _legacy(job):
        if job.shutdown and policy.text == _NONE:
            text = "policy is DeleteNone, but shutdownAfterJobFinishes is true: change one of them"
            yield Fault(policy, text, FORBIDDEN)


def deletion_of_foreign_cluster(job: Job) -> Iterator[Fault]:
    """A policy to delete an existing cluster, or its workers.

    The RayJob does not own the cluster, so KubeRay refuses to delete any part of it.
    """
    for policy in (*_legacy(job), *_policies(job)):
        if job.selects and policy.text in (_CLUSTER, _WORKERS):
            text = (
                f"policy is {policy.text}, but the cluster is not the job's: write "
                "DeleteSelf or DeleteNone"
            )
            yield Fault(policy, text, FORBIDDEN)


def deletion_of_autoscaled_workers(job: Job) -> Iterator[Fault]:
    """A policy to delete the workers of a cluster that autoscales.

    The autoscaler would recreate the workers, so KubeRay refuses the RayJob.
    """
    for policy in (*_legacy(job), *_policies(job)):
        if job.autoscaling and policy.text == _WORKERS:
            text = "policy is DeleteWorkers, but the autoscaler recreates them: write DeleteCluster"
            yield Fault(policy, text, FORBIDDEN)


def deletion_condition_invalid(job: Job) -> Iterator[Fault]:
    """A condition of a deletion rule that does not name exactly one status, or has a negative time.

    The time of the deletion is undefined, so KubeRay refuses the RayJob.
    """
    for rule in _rules(job):
        condition = rule / "condition"
        if (condition / "jobStatus").given == (condition / "jobDeploymentStatus").given:
            found = "both" if (condition / "jobStatus").given else "neither"
            text = f"condition has {found} of jobStatus and jobDeploymentStatus: write one of them"
            yield Fault(condition, text)
        seconds = condition / "ttlSeconds"
        if (seconds.number or 0) < 0:
            yield Fault(seconds, f"{seconds.number}: write 0 or more seconds")


def deletion_rule_duplicate(job: Job) -> Iterator[Fault]:
    """Two deletion rules with one policy for one status.

    The two times may contradict each other, so KubeRay refuses the RayJob.
    """
    seen = set()
    for rule in _rules(job):
        key = (*_status(rule), (rule / "policy").text)
        if key in seen:
            yield Fault(rule, f"another rule says {key[2]} at {key[1]}: keep one", DUPLICATE)
        seen.add(key)


def deletion_order(job: Job) -> Iterator[Fault]:
    """Deletion rules in an impossible order.

    Workers are deleted before their cluster, and the cluster before the RayJob: a later deletion
    must not have the shorter time.
    """
    times: dict[tuple[str, str], dict[str, Field]] = {}
    for rule in _rules(job):
        times.setdefault(_status(rule), {}).setdefault(
            (rule / "policy").text, rule / "condition" / "ttlSeconds"
        )
    for fields in times.values():
        present = [(policy, fields[policy]) for policy in _ORDER if policy in fields]
        for (before, first), (after, second) in pairwise(present):
            if (second.number or 0) < (first.number or 0):
                yield Fault(
                    second,
                    f"ttlSeconds is {second.number or 0}, but {after} follows {before}: "
                    f"write {first.number} or more",
                )


def _strategy(job: Job) -> Field:
    return job.field / "deletionStrategy"


def _policy(job: Job) -> Field:
    """The oldest form: a single policy."""
    return job.field / "deletionPolicy"


def _legacy(job: Job) -> list[Field]:
    """Return the policies in the older forms that are set."""
    return [
        *(
            _strategy(job) / name / "policy"
            for name in ("onSuccess", "onFailure")
            if (_strategy(job) / name).given
        ),
        *([_policy(job)] if _policy(job).given else []),
    ]


def _rules(job: Job) -> Iterator[Field]:
    return (_strategy(job) / "deletionRules").items()


def _policies(job: Job) -> Iterator[Field]:
    return (rule / "policy" for rule in _rules(job))


def _status(rule: Field) -> tuple[str, str]:
    status, deployment = (
        rule / "condition" / name for name in ("jobStatus", "jobDeploymentStatus")
    )
    return ("jobStatus", status.text) if status.given else ("jobDeploymentStatus", deployment.text)
