"""The rule of ResourceQuotas: pods and other objects that do not fit into them."""

from collections.abc import Iterator
from itertools import islice
from typing import Final

from webhook.api.formats import shorten
from webhook.api.namespace_limits import Quota, ScopeTerm, Thousandths, format_amount
from webhook.validation.finding import Fault
from webhook.validation.growth import Growth
from webhook.validation.pod_amounts import PodAmounts, PodTemplate

_SHOWN_MAX: Final = 3
ADVICE: Final = ": need less, or raise it"
"""The end of a message, which `status` replaces with a remedy of its own."""


def quota_exceeded(growth: Growth) -> Iterator[Fault]:
    """Pods that do not fit into a ResourceQuota of the namespace.

    KubeRay creates pods one by one until the API server refuses one, so a part of a replica may
    hold its devices and wait. The pods are those that KubeRay creates, with its own containers: for
    minReplicas, or replicas without autoscaling, then for maxReplicas. Services and the other
    objects that KubeRay creates count too. An update needs only its additional pods: running pods
    keep their template, unless the upgrade strategy is Recreate. A RayService that starts a second
    RayCluster needs all pods again. A quota for cpu or memory refuses every pod with a container
    without that request or limit. Quotas change and other pods end, so this is a warning. Neither
    the overhead of a RuntimeClass nor a default PriorityClass is counted. `validate` takes
    ResourceQuotas from among its files, and with `--cluster` it reads none.

    https://kubernetes.io/docs/concepts/policy/resource-quotas/
    """
    for quota in growth.limits.quotas:
        templates = growth.templates
        if quota.scopes:
            templates = [pod for pod in templates if _counts(quota, pod.amounts)]
        yield from islice(_unset(quota, growth), 1)
        free = _free(quota, growth)
        fault = _shortage(quota, templates, free, growth, most=False)
        if fault is None and any(pod.most > pod.least for pod in templates):
            fault = _shortage(quota, templates, free, growth, most=True)
        if fault is not None:
            yield fault
        for name, number in growth.counts.items() if not quota.scopes else ():
            if name in free and number * 1000 > free[name]:
                message = f"needs {number} of {name}, but {_describe_left(quota, free, name)}"
                yield Fault(growth.new.root / "spec", message)


def _counts(quota: Quota, pod: PodAmounts) -> bool:
    """Return whether a quota counts a pod."""
    return all(_matches(term, pod) for term in quota.scopes)


def _matches(term: ScopeTerm, pod: PodAmounts) -> bool:
    """Return whether a pod is in a scope.

    https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/quota/v1/evaluator/core/pods.go
    (`podMatchesScopeFunc`)
    """
    if term.scope_name == "PriorityClass":
        named, values = pod.priority_class, term.values or ()
        return {
            "Exists": bool(named),
            "DoesNotExist": not named,
            "In": named in values and bool(named),
            "NotIn": named not in values,
        }.get(term.operator, False)
    return {
        "Terminating": pod.terminating,
        "NotTerminating": not pod.terminating,
        "BestEffort": pod.best_effort,
        "NotBestEffort": not pod.best_effort,
        "CrossNamespacePodAffinity": pod.cross_namespace,
    }.get(term.scope_name, False)


def _unset(quota: Quota, growth: Growth) -> Iterator[Fault]:
    """Yield pods with a container without an amount that a quota requires."""
    for template in growth.distinct if quota.required else ():
        if template.amounts.pod_level or not _counts(quota, template.amounts):
            continue
        for container in template.amounts.containers:
            usage = growth.limits.usage(container.requests, container.limits)
            missing = [name for name in quota.required if name not in usage]
            if missing:
                message = (
                    f"the pods can never be created: ResourceQuota {shorten(quota.name)} requires "
                    f"{', '.join(missing)} of every container, and {container.name} has none"
                )
                yield Fault(template.field, message)


def _free(quota: Quota, growth: Growth) -> Thousandths:
    """Return the amounts that a quota has left when some pods have ended."""
    if not growth.ending:
        return quota.free
    free = {**quota.free}
    for pod, number in growth.ending:
        for name, amount in pod.usage.items() if _counts(quota, pod) else ():
            if name in free:
                free[name] = min(free[name] + amount * number, quota.hard[name])
    return free


def _shortage(
    quota: Quota, templates: list[PodTemplate], free: Thousandths, growth: Growth, *, most: bool
) -> Fault | None:
    """Return the fault of resources that are not sufficient for all pods, the first to refuse one
    first.
    """
    needed = dict.fromkeys(free, 0)
    refused: dict[str, tuple[tuple[int, int], str]] = {}
    for index, template in enumerate(templates):
        number = (template.most if most else template.least) - template.existing
        for name, amount in template.amounts.usage.items() if number > 0 else ():
            # A quota that is exceeded already does not refuse a pod with an amount of 0
            if not amount or name not in free:
                continue
            left = free[name] - needed[name]
            needed[name] += amount * number
            if needed[name] > free[name] and name not in refused:
                refused[name] = (index, left // amount), name
    if not refused:
        return None
    order = sorted(refused.values())
    template = templates[order[0][0][0]]
    number_name = template.number_names[most]
    reason = f" for {number_name}" if number_name else ""
    beside = " beside the old RayCluster" if growth.second else ""
    pods = "new pods" if any(pod.existing for pod in growth.templates) else "pods"
    parts = [
        f"{format_amount(name, needed[name])} of {shorten(name)}{reason}{beside}, "
        f"but {_describe_left(quota, free, name)}"
        for _, name in order[:_SHOWN_MAX]
    ]
    field = template.field / number_name if number_name else template.field
    return Fault(field, f"the {pods} need {'; '.join(parts)}{ADVICE}")


def _describe_left(quota: Quota, free: Thousandths, name: str) -> str:
    return f"ResourceQuota {shorten(quota.name)} has {format_amount(name, max(free[name], 0))} left"
