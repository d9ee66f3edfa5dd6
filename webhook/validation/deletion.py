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
_OUTCOMES: Final = ("onSuccess", "onFailure")


def deletion_mixed(job: Job) -> Iterator[Fault]:
    """Deletion rules together with another setting for deletion.

    The two may contradict each other, so KubeRay refuses the RayJob.
    """
    rules = _strategy(job) / "deletionRules"
    if rules.size and job.shutdown:
        message = "shutdownAfterJobFinishes is true beside deletionRules: remove one of the two"
        yield Fault(job.field / "shutdownAfterJobFinishes", message, FORBIDDEN)
    if rules.size and _legacy(job):
        message = "deletionRules are set beside onSuccess or onFailure: remove one of the two"
        yield Fault(rules, message, FORBIDDEN)


def deletion_incomplete(job: Job) -> Iterator[Fault]:
    """A deletion strategy that is empty or incomplete.

    A strategy needs deletion rules, or a policy for success and one for failure.
    """
    strategy = _strategy(job)
    if not strategy.given or (strategy / "deletionRules").size:
        return
    if not _legacy(job):
        message = "deletionStrategy has no deletionRules: add them, or remove it"
        yield Fault(strategy, message, REQUIRED)
        return
    for name in _OUTCOMES:
        policy = strategy / name / "policy"
        if not policy.given:
            message = f"{name} has no policy: set it; onSuccess and onFailure both need one"
            yield Fault(policy, message, REQUIRED)


def deletion_none_with_shutdown(job: Job) -> Iterator[Fault]:
    """A policy to delete nothing in a RayJob that shuts its cluster down.

    The two contradict each other, so KubeRay refuses the RayJob.
    """
    message = "policy is DeleteNone, but shutdownAfterJobFinishes is true: change one of them"
    for policy in _legacy(job) if job.shutdown else ():
        if policy.text == "DeleteNone":
            yield Fault(policy, message, FORBIDDEN)


def deletion_of_foreign_cluster(job: Job) -> Iterator[Fault]:
    """A policy to delete an existing cluster, or its workers.

    The RayJob does not own the cluster, so KubeRay refuses to delete any part of it.
    """
    for policy in _policies(job) if job.selects else ():
        if policy.text in (_CLUSTER, _WORKERS):
            problem = f"policy is {policy.text}, but the cluster is not the job's"
            yield Fault(policy, f"{problem}: write DeleteSelf or DeleteNone", FORBIDDEN)


def deletion_of_autoscaled_workers(job: Job) -> Iterator[Fault]:
    """A policy to delete the workers of a cluster that autoscales.

    The autoscaler would recreate the workers, so KubeRay refuses the RayJob.
    """
    message = "policy is DeleteWorkers, but the autoscaler recreates them: write DeleteCluster"
    for policy in _policies(job) if job.autoscaling else ():
        if policy.text == _WORKERS:
            yield Fault(policy, message, FORBIDDEN)


def deletion_condition_invalid(job: Job) -> Iterator[Fault]:
    """A condition of a deletion rule that does not name exactly one status, or has a negative time.

    The time of the deletion is undefined, so KubeRay refuses the RayJob.
    """
    for rule in _rules(job):
        condition = rule / "condition"
        seconds = condition / "ttlSeconds"
        if (condition / "jobStatus").given == (condition / "jobDeploymentStatus").given:
            presence = "both" if (condition / "jobStatus").given else "neither"
            message = (
                f"condition has {presence} of jobStatus and jobDeploymentStatus: write one of them"
            )
            yield Fault(condition, message)
        if (seconds.number or 0) < 0:
            yield Fault(seconds, f"{seconds.number}: write 0 or more seconds")


def deletion_rule_duplicate(job: Job) -> Iterator[Fault]:
    """Two deletion rules with one policy for one status.

    The two times may contradict each other, so KubeRay refuses the RayJob.
    """
    keys = set()
    for rule in _rules(job):
        key = (*_status(rule), (rule / "policy").text)
        if key in keys:
            yield Fault(rule, f"another rule says {key[2]} at {key[1]}: keep one", DUPLICATE)
        keys.add(key)


def deletion_order(job: Job) -> Iterator[Fault]:
    """Deletion rules in an impossible order.

    Workers are deleted before their cluster, and the cluster before the RayJob: a later deletion
    must not have the shorter time.
    """
    times: dict[tuple[str, str], dict[str, Field]] = {}
    for rule in _rules(job):
        fields = times.setdefault(_status(rule), {})
        fields.setdefault((rule / "policy").text, rule / "condition" / "ttlSeconds")
    for fields in times.values():
        for first_policy, next_policy in pairwise(policy for policy in _ORDER if policy in fields):
            least, field = fields[first_policy].number or 0, fields[next_policy]
            if (field.number or 0) < least:
                problem = (
                    f"ttlSeconds is {field.number or 0}, but {next_policy} follows {first_policy}"
                )
                yield Fault(field, f"{problem}: write {least} or more")


def _strategy(job: Job) -> Field:
    return job.field / "deletionStrategy"


def _legacy(job: Job) -> list[Field]:
    """Return the policies in the older forms that are set."""
    outcomes = (_strategy(job) / name for name in _OUTCOMES)
    listed = [outcome / "policy" for outcome in outcomes if outcome.given]
    oldest = job.field / "deletionPolicy"
    return [*listed, oldest] if oldest.given else listed


def _rules(job: Job) -> Iterator[Field]:
    return (_strategy(job) / "deletionRules").items()


def _policies(job: Job) -> list[Field]:
    return [*_legacy(job), *(rule / "policy" for rule in _rules(job))]


def _status(rule: Field) -> tuple[str, str]:
    status = rule / "condition" / "jobStatus"
    field = status if status.given else rule / "condition" / "jobDeploymentStatus"
    return str(field.token), field.text
