"""Rules of the ResourceQuotas and LimitRanges of a namespace, and the pods that fit into them."""

from collections.abc import Collection, Iterable, Iterator
from functools import cached_property
from typing import Final, NamedTuple

from msgspec import Struct

from webhook.api import names
from webhook.api.quotas import CONTAINER, Limits, NamespaceLimits, Quota, ScopeTerm, Thousandths
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.pod_amounts import PodAmounts, read_pods
from webhook.validation.ray_object import RayObject

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
_BYTES: Final = ("memory", "storage", "hugepages")
_SHOWN_MAX: Final = 3
_WORK_MAX: Final = 200_000
"""Containers times amounts of quotas and LimitRanges; more are not compared."""


class Growth(Struct, dict=True):
    """A new object, or an update with its old version, in a namespace with limits.

    `second`: the update starts a second RayCluster beside the old one.
    """

    old: RayObject | None
    new: RayObject
    second: bool = False

    @cached_property
    def limits(self) -> NamespaceLimits | None:
        """The limits of the namespace if the object needs pods that its old version does not."""
        namespaces, new = self.new.settings.namespaces, self.new
        if namespaces is None or (new.cluster is None and new.job is None):
            return None
        elsewhere = (new.root / "spec" / "managedBy").text == names.KUEUE_MULTIKUEUE
        limits = None if elsewhere else namespaces.limits(self._namespace)
        if limits is None or (new.meta / "deletionTimestamp").given:
            return None
        if self._containers * limits.size > _WORK_MAX:
            return None
        return limits if self.old is None or self._grows(self.old) else None

    @cached_property
    def pods(self) -> list[PodAmounts]:
        return read_pods(self.new, self.limits.limits) if self.limits else []

    @cached_property
    def own(self) -> list[PodAmounts]:
        """The existing pods of the object, which count as used."""
        namespaces, cluster = self.new.settings.namespaces, self._running
        if self.old is None or self.second or not cluster or not self.limits or not namespaces:
            return []
        pods = read_pods(self.old, self.limits.limits)
        for pod in pods:
            if pod.group != names.HEAD_GROUP:
                pod.least = namespaces.workers(self._namespace, cluster, pod.group)
        return pods

    @property
    def _containers(self) -> int:
        """The number of containers of all templates."""
        cluster, job = self.new.cluster, self.new.job
        specs = [] if cluster is None else [group.pod.map for group in cluster.everyone]
        specs += [] if job is None else [(job.submitter / "spec").map]
        lists = [spec.get(key) for spec in specs for key in ("containers", "initContainers")]
        return sum(len(entries) for entries in lists if type(entries) is list)

    @property
    def _namespace(self) -> str:
        return (self.new.meta / "namespace").text or "default"

    @property
    def _running(self) -> str:
        """The name of the RayCluster of the old version, empty without one."""
        if self.old is None or (
            self.old.cluster is not None and (self.old.cluster.field / "suspend").flag
        ):
            return ""
        if self.old.kind == names.RAYCLUSTER_KIND:
            return (self.old.meta / "name").text
        status = self.old.root / "status"
        return (status / "activeServiceStatus" / "rayClusterName").text

    def _grows(self, old: RayObject) -> bool:
        """Return whether amounts or numbers of pods changed. A RayJob that runs is not changed."""
        if (old.root / "status" / "rayClusterName").text:
            return False
        if self.second or (_is_suspended(old) and not _is_suspended(self.new)):
            return True
        if (old.root / "spec").value == (self.new.root / "spec").value:
            return False
        old_pods, new_pods = (
            [(pod.group, pod.least, pod.most, pod.containers) for pod in read_pods(ray_object, ())]
            for ray_object in (old, self.new)
        )
        return old_pods != new_pods


def _is_suspended(ray_object: RayObject) -> bool:
    return (ray_object.root / "spec" / "suspend").flag


def quota_exceeded(growth: Growth) -> Iterator[Fault]:
    """Pods that do not fit into a ResourceQuota of the namespace.

    KubeRay creates pods one by one until the API server refuses one, so a part of a replica may
    hold its devices and wait. The pods are those that KubeRay creates, with its own containers: for
    minReplicas, or replicas without autoscaling, then for maxReplicas. On an update, those that
    exist are not counted twice; a RayService that starts a second RayCluster needs both. A quota
    for cpu or memory refuses every pod with a container without that request or limit. Quotas
    change and other pods end, so this is a warning. `validate` takes ResourceQuotas from among its
    files, and with `--cluster` it reads none.

    https://kubernetes.io/docs/concepts/policy/resource-quotas/
    """
    if growth.limits is None:
        return
    counted = _objects(growth)
    for quota in growth.limits.quotas:
        pods = [pod for pod in growth.pods if _counts(quota, pod)]
        lacking = next((fault for pod in pods if (fault := _unset(quota, pod))), None)
        if lacking is not None:
            yield lacking
        existing_pods = [pod for pod in growth.own if _counts(quota, pod)]
        free = _free(quota, existing_pods)
        shortfalls = _shortfalls(pods, free, most=False)
        most = not shortfalls
        if most:
            shortfalls = _shortfalls(pods, free, most=True)
        if shortfalls:
            yield _build_quota_fault(quota, shortfalls, growth, most=most)
        for name, number in counted.items() if not quota.scopes else ():
            if name in free and number * 1000 > free[name]:
                left = _format_amount(name, max(free[name], 0))
                message = (
                    f"needs {number} of {name}, but ResourceQuota {quota.name[:63]} has {left} left"
                )
                yield Fault(growth.new.root / "spec", message)


def limit_range_violated(growth: Growth) -> Iterator[Fault]:
    """Pods that a LimitRange of the namespace refuses, whatever else exists.

    A container or pod is above its maximum or below its minimum, has no amount where one is
    required, has a limit too far above its request, or a request above the limit that the
    LimitRange sets by default. The API server refuses the pods, and KubeRay tries to create them
    without end. `validate` takes LimitRanges from among its files.

    https://kubernetes.io/docs/concepts/policy/limit-range/
    """
    if growth.limits is None or not growth.limits.limits:
        return
    for pod in growth.pods:
        problem = next(_refusals(pod, growth.limits.limits), "") if pod.most else ""
        if problem:
            yield Fault(pod.field, f"the pods can never be created: {problem}")


def _objects(growth: Growth) -> dict[str, int]:
    """Return the numbers of objects beside pods that are created for a new object."""
    new = growth.new
    if growth.old is not None and not growth.second:
        return {}
    cluster = new.cluster is not None and new.kind != names.RAYCLUSTER_KIND
    submits = new.job is not None and new.job.has_submitter_pod
    return {
        name: 1
        for name, is_created in (
            ("count/rayclusters.ray.io", cluster),
            ("count/jobs.batch", submits),
        )
        if is_created
    }


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


def _unset(quota: Quota, pod: PodAmounts) -> Fault | None:
    """Return the fault of pods with a container without an amount that a quota requires."""
    required = [name for name in _REQUIRED if name in quota.hard]
    if not required or pod.pod_level or not pod.most:
        return None
    for container in pod.containers:
        usage = _usage(container.requests, container.limits)
        missing = [name for name in required if name not in usage]
        if missing:
            message = (
                f"the pods can never be created: ResourceQuota {quota.name[:63]} requires "
                f"{', '.join(missing)} of every container, and {container.name[:40]} has none"
            )
            return Fault(pod.field, message)
    return None


def _free(quota: Quota, own: Iterable[PodAmounts]) -> Thousandths:
    """Return the amounts that a quota has left, with those of the object's own pods."""
    free = {name: hard - quota.used.get(name, 0) for name, hard in quota.hard.items()}
    for pod in own:
        for name, amount in _of_pod(pod).items():
            if name in free:
                free[name] = min(free[name] + amount * pod.least, quota.hard[name])
    return free


class _Shortfall(NamedTuple):
    """A resource of which a quota does not have enough, and the first pod that is refused."""

    position: tuple[int, int]
    name: str
    needed: int
    free: int
    pod: PodAmounts


def _shortfalls(pods: Collection[PodAmounts], free: Thousandths, *, most: bool) -> list[_Shortfall]:
    """Return the resources that are not sufficient for all pods, the first to refuse one first."""
    needed: Thousandths = {}
    first: dict[str, tuple[tuple[int, int], PodAmounts]] = {}
    for index, pod in enumerate(pods):
        number = pod.most if most else pod.least
        for name, amount in _of_pod(pod).items() if number else ():
            previous_amount = needed.get(name, 0)
            needed[name] = previous_amount + amount * number
            # A quota that is exceeded already does not refuse a pod with an amount of 0.
            if amount and name in free and name not in first and needed[name] > free[name]:
                left = free[name] - previous_amount
                first[name] = ((index, max(left, 0) // amount), pod)
    return sorted(
        _Shortfall(position, name, needed[name], free[name], pod)
        for name, (position, pod) in first.items()
    )


def _build_quota_fault(
    quota: Quota, shortfalls: list[_Shortfall], growth: Growth, *, most: bool
) -> Fault:
    pod = shortfalls[0].pod
    field: Field = pod.most_field if most else pod.least_field
    reason = f" for {field.token}" if pod.group not in ("", names.HEAD_GROUP) else ""
    beside = " beside the old RayCluster" if growth.second else ""
    parts = [
        f"{_format_amount(shortfall.name, shortfall.needed)} of {shortfall.name[:63]}"
        f"{reason}{beside}, but ResourceQuota {quota.name[:63]} has "
        f"{_format_amount(shortfall.name, max(shortfall.free, 0))} left"
        for shortfall in shortfalls[:_SHOWN_MAX]
    ]
    advice = "need less, or raise it"
    return Fault(field, f"the pods need {'; '.join(parts)}: {advice}")


def _format_amount(name: str, amount: int) -> str:
    """Return an amount as Kubernetes writes it."""
    whole, rest = divmod(amount, 1000)
    if rest:
        return f"{amount}m"
    if any(resource in name for resource in _BYTES):
        for power, suffix in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
            if whole and whole % 2 ** (10 * power) == 0:
                return f"{whole >> 10 * power}{suffix}"
    return str(whole)


def _refusals(pod: PodAmounts, every: Iterable[Limits]) -> Iterator[str]:
    """Yield the reasons why LimitRanges refuse a pod.

    https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/admission/limitranger/admission.go
    (`PodValidateLimitFunc`)
    """
    for limits in every:
        if limits.type == CONTAINER:
            for container in pod.containers:
                for problem in _outside(limits, container.requests, container.limits):
                    yield f"container {container.name[:40]} has {problem}"
        else:
            yield from (
                f"each has {problem}" for problem in _outside(limits, pod.requests, pod.limits)
            )
    for container in pod.containers:
        for name, amount in container.requests.items():
            limit = container.limits.get(name)
            if limit is not None and amount > limit:
                amount_text, most = _format_amount(name, amount), _format_amount(name, limit)
                yield (
                    f"container {container.name[:40]} has a {name[:63]} request of {amount_text}, "
                    f"above its limit of {most}"
                )


def _outside(limits: Limits, requests: Thousandths, most: Thousandths) -> Iterator[str]:
    """Yield the amounts outside of a LimitRange, each with its bound."""
    of = f"LimitRange {limits.name[:63]}"
    kinds = (("limit", most), ("request", requests))
    for name, bound in limits.max.items():
        requirement = f"{of} allows at most {_format_amount(name, bound)}"
        if name not in most:
            yield f"no {name[:63]} limit, and {requirement}"
        for kind, amounts in kinds:
            if amounts.get(name, bound) > bound:
                amount = _format_amount(name, amounts[name])
                yield f"a {name[:63]} {kind} of {amount}, and {requirement}"
    for name, bound in limits.min.items():
        requirement = f"{of} requires at least {_format_amount(name, bound)}"
        if name not in requests:
            yield f"no {name[:63]} request, and {requirement}"
        for kind, amounts in kinds:
            if amounts.get(name, bound) < bound:
                amount = _format_amount(name, amounts[name])
                yield f"a {name[:63]} {kind} of {amount}, and {requirement}"
    yield from _ratios(limits, requests, most)


def _ratios(limits: Limits, requests: Thousandths, most: Thousandths) -> Iterator[str]:
    for name, ratio in limits.ratio.items():
        request, limit = requests.get(name, 0), most.get(name, 0)
        if not request or not limit or limit * 1000 > ratio * request:
            bound = f"LimitRange {limits.name[:63]} allows {ratio / 1000:g} times its request"
            yield f"a {name[:63]} limit that is too high or missing, and {bound}"
