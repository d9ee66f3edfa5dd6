"""The rule of ResourceQuotas: pods and other objects that do not fit into them."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from webhook.api.namespace_limits import (
    Quota,
    ScopeTerm,
    Thousandths,
    format_amount,
)
from webhook.validation.finding import Fault
from webhook.validation.growth import Growth
from webhook.validation.pod_amounts import PodAmounts, PodTemplate

_PODS: Final = ("pods", "count/pods")
_COMPUTE: Final = ("cpu", "memory", "ephemeral-storage")
_REQUESTS: Final = "requests."
_LIMITS: Final = "limits."
_HUGE_PAGES: Final = "hugepages-"
_NATIVE: Final = "kubernetes.io/"
_REQUIRED: Final = (
    "cpu",
    "memory",
    "requests.cpu",
    "requests.memory",
    "limits.cpu",
    "limits.memory",
)
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
        counted = {id(pod.amounts) for pod in growth.distinct if _counts(quota, pod.amounts)}
        templates = [pod for pod in growth.templates if id(pod.amounts) in counted]
        lacking = (_unset(quota, pod) for pod in growth.distinct if id(pod.amounts) in counted)
        yield from islice(filter(None, lacking), 1)
        free = _free(quota, growth.ending)
        shortfalls, most = _shortfalls(templates, free, most=False), False
        if not shortfalls and any(pod.most != pod.least for pod in templates):
            shortfalls, most = _shortfalls(templates, free, most=True), True
        if shortfalls:
            yield _build_quota_fault(quota, shortfalls, growth, most=most)
        for name, number in growth.counts.items() if not quota.scopes else ():
            if name in free and number * 1000 > free[name]:
                left = format_amount(name, max(free[name], 0))
                message = (
                    f"needs {number} of {name}, but ResourceQuota {quota.name[:63]} has {left} left"
                )
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


def _usage(requests: Thousandths, limits: Thousandths) -> Thousandths:
    """Return the amounts of a pod or container by the names that quotas have for them.

    https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/quota/v1/evaluator/core/pods.go
    (`podComputeUsageHelper`)
    """
    usage: Thousandths = {}
    for name, amount in requests.items():
        if name in _COMPUTE or name.startswith(_HUGE_PAGES):
            usage[name] = usage[_REQUESTS + name] = amount
        elif "/" in name and _NATIVE not in name and not name.startswith(_REQUESTS):
            usage[_REQUESTS + name] = amount
    for name in _COMPUTE:
        if name in limits:
            usage[_LIMITS + name] = limits[name]
    return usage


def _of_pod(pod: PodAmounts) -> Thousandths:
    return {**dict.fromkeys(_PODS, 1000), **_usage(pod.requests, pod.limits)}


def _unset(quota: Quota, template: PodTemplate) -> Fault | None:
    """Return the fault of pods with a container without an amount that a quota requires."""
    required = [name for name in _REQUIRED if name in quota.hard]
    if not required or template.amounts.pod_level:
        return None
    for container in template.amounts.containers:
        usage = _usage(container.requests, container.limits)
        missing = [name for name in required if name not in usage]
        if missing:
            message = (
                f"the pods can never be created: ResourceQuota {quota.name[:63]} requires "
                f"{', '.join(missing)} of every container, and {container.name[:40]} has none"
            )
            return Fault(template.field, message)
    return None


def _free(quota: Quota, ending: Iterable[tuple[PodAmounts, int]]) -> Thousandths:
    """Return the amounts that a quota has left when some pods have ended."""
    free = {name: hard - quota.used.get(name, 0) for name, hard in quota.hard.items()}
    for pod, number in ending:
        for name, amount in _of_pod(pod).items() if _counts(quota, pod) else ():
            if name in free:
                free[name] = min(free[name] + amount * number, quota.hard[name])
    return free


class _Shortfall(NamedTuple):
    """A resource of which a quota does not have enough, and the first pod that is refused."""

    position: tuple[int, int]
    name: str
    needed: int
    free: int
    template: PodTemplate


def _shortfalls(
    templates: Iterable[PodTemplate], free: Thousandths, *, most: bool
) -> list[_Shortfall]:
    """Return the resources that are not sufficient for all pods, the first to refuse one first."""
    needed = dict.fromkeys(free, 0)
    first: dict[str, tuple[tuple[int, int], PodTemplate]] = {}
    usages: dict[int, list[tuple[str, int]]] = {}
    for index, template in enumerate(templates):
        number = template.missing(most=most)
        if not number:
            continue
        usage = usages.get(id(template.amounts))
        if usage is None:
            # A quota that is exceeded already does not refuse a pod with an amount of 0
            usage = usages[id(template.amounts)] = [
                (name, amount)
                for name, amount in _of_pod(template.amounts).items()
                if amount and name in free
            ]
        for name, amount in usage:
            previous_amount = needed[name]
            needed[name] += amount * number
            if needed[name] > free[name] and name not in first:
                left = free[name] - previous_amount
                first[name] = ((index, max(left, 0) // amount), template)
    return sorted(
        _Shortfall(position, name, needed=needed[name], free=free[name], template=template)
        for name, (position, template) in first.items()
    )


def _build_quota_fault(
    quota: Quota, shortfalls: list[_Shortfall], growth: Growth, *, most: bool
) -> Fault:
    template = shortfalls[0].template
    number = template.most_name if most else template.least_name
    field = template.field / number if number else template.field
    reason = f" for {number}" if number else ""
    beside = " beside the old RayCluster" if growth.second else ""
    pods = "new pods" if any(pod.existing for pod in growth.templates) else "pods"
    parts = [
        f"{format_amount(shortfall.name, shortfall.needed)} of {shortfall.name[:63]}"
        f"{reason}{beside}, but ResourceQuota {quota.name[:63]} has "
        f"{format_amount(shortfall.name, max(shortfall.free, 0))} left"
        for shortfall in shortfalls[:_SHOWN_MAX]
    ]
    return Fault(field, f"the {pods} need {'; '.join(parts)}{ADVICE}")
