"""The pods of a Ray object as KubeRay creates them: their amounts and numbers."""

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Final

from msgspec import Struct

from webhook.api import names
from webhook.api.namespace_limits import CONTAINER, LimitRangeItem, Thousandths, thousandths
from webhook.api.objects import ALWAYS, WAIT_FOR_HEAD_AMOUNTS, WAIT_FOR_HEAD_MOST, map_of
from webhook.validation.cluster import UNBOUNDED, ClusterSpec, GroupSpec
from webhook.validation.field import Field
from webhook.validation.ray_object import SIDECAR, Job, RayObject

_CPU: Final = "cpu"
_MEMORY: Final = "memory"
_MI: Final = 2**20 * 1000

# The containers that KubeRay adds:
# https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
# (`DefaultWorkerPodTemplate`, `BuildAutoscalerContainer`)
# https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/job.go
# (`GetDefaultSubmitterContainer`)
_WAITING: Final = thousandths(WAIT_FOR_HEAD_AMOUNTS)
_WAITING_MOST: Final = thousandths(WAIT_FOR_HEAD_MOST)
_AUTOSCALER: Final = {_CPU: 500, _MEMORY: 512 * _MI}
_SUBMITTER_REQUESTS: Final = {_CPU: 500, _MEMORY: 200 * _MI}
_SUBMITTER_LIMITS: Final = {_CPU: 1000, _MEMORY: 1024 * _MI}


class ContainerAmounts(Struct):
    """The requests and limits of a container."""

    name: str
    requests: Thousandths
    limits: Thousandths
    init: bool = False
    lasting: bool = False
    """Whether it is an init container that keeps running."""


class PodAmounts(Struct, dict=True):
    """The amounts of a pod, which the pods of equal templates share."""

    containers: list[ContainerAmounts]
    pod_level: bool
    requests: Thousandths
    limits: Thousandths
    priority_class: str
    terminating: bool
    cross_namespace: bool
    waiting: ContainerAmounts | None = None
    """The container with which KubeRay waits for the head."""

    @cached_property
    def best_effort(self) -> bool:
        """Whether the quality of service is BestEffort."""
        amounts = [container.requests for container in self.containers]
        amounts += [container.limits for container in self.containers]
        amounts += [self.requests, self.limits]
        return not any(resources.get(_CPU) or resources.get(_MEMORY) for resources in amounts)


class PodTemplate(Struct):
    """The pods of one template: their number at least and at most, and the fields of its group that
    set them, if any. `existing` of them are not created.
    """

    field: Field
    group: str
    amounts: PodAmounts
    hosts: int = 1
    least: int = 1
    most: int = 1
    least_name: str = ""
    most_name: str = ""
    existing: int = 0

    def missing(self, *, most: bool) -> int:
        """Return the number of pods that have to be created."""
        return max((self.most if most else self.least) - self.existing, 0)


class TemplateReader:
    """Reads the pods of Ray objects, with the defaults of LimitRanges. If `raised`, the webhook
    raises the amounts of the container that waits for the head.
    """

    def __init__(self, limits: Iterable[LimitRangeItem], *, raised: bool) -> None:
        defaults = [limit_range for limit_range in limits if limit_range.type == CONTAINER]
        self._default, self._default_request = _join_defaults(defaults)
        self._raised = raised
        self._workers: dict[tuple[object, ...], PodAmounts] = {}
        """Amounts by what they depend on: most groups have the same."""

    def read(self, ray_object: RayObject, *, current: bool = False) -> list[PodTemplate]:
        """Return the pods in the order in which KubeRay creates them: the head, the worker groups,
        and the pod that submits a RayJob. `current`: the autoscaler changes no numbers.
        """
        cluster, job = ray_object.cluster, ray_object.job
        templates = []
        if cluster is not None and (job is None or not job.selects):
            templates.append(self._head(cluster, job))
            autoscaling = cluster.autoscaling and not current
            templates += [self._worker(group, autoscaling) for group in cluster.groups]
        if job is not None and job.has_submitter_pod:
            templates.append(self._submitter(job))
        return templates

    def _head(self, cluster: ClusterSpec, job: Job | None) -> PodTemplate:
        amounts = _pod(cluster.head.pod)
        if cluster.autoscaling:
            resources = cluster.options / "resources"
            requests, limits = _AUTOSCALER, _AUTOSCALER
            if resources.given:
                requests, limits = (
                    thousandths((resources / name).value) for name in ("requests", "limits")
                )
            amounts.containers.append(ContainerAmounts("autoscaler", {**requests}, {**limits}))
        if job is not None and job.mode == SIDECAR:
            amounts.containers.append(_submitting())
        return PodTemplate(cluster.head.field, names.HEAD_GROUP, self._complete(amounts))

    def _worker(self, group: GroupSpec, autoscaling: bool) -> PodTemplate:  # noqa: FBT001 - of two ways to scale
        scale, hosts = group.scale, max(group.hosts, 0)
        least = most = scale.desired
        least_name = most_name = "replicas"
        if autoscaling and not scale.suspend:
            least_name, most_name = "minReplicas", "maxReplicas"
            least = scale.min_replicas or 0
            most = least if scale.max_replicas in (None, UNBOUNDED) else scale.max_replicas or 0
            # KubeRay starts `replicas` pods before the autoscaler changes the number
            most = max(most, scale.desired)
        least = max(least, 0)
        amounts = self._worker_amounts(group.pod)
        return PodTemplate(
            group.field,
            group.name,
            amounts=amounts,
            hosts=hosts,
            least=least * hosts,
            most=max(least, most) * hosts,
            least_name=least_name,
            most_name=most_name,
        )

    def _worker_amounts(self, spec: Field) -> PodAmounts:
        key = _key_of(spec.map)
        try:
            amounts = self._workers.get(key)
        except TypeError:  # an amount is a list or a map
            return self._new_worker(spec)
        if amounts is None:
            amounts = self._workers[key] = self._new_worker(spec)
        return amounts

    def _new_worker(self, spec: Field) -> PodAmounts:
        amounts = _pod(spec)
        if amounts.containers:
            amounts.waiting = ContainerAmounts(
                names.WAIT_FOR_HEAD, {**_WAITING}, {**_WAITING}, init=True
            )
            amounts.containers.append(amounts.waiting)
        return self._complete(amounts)

    def _submitter(self, job: Job) -> PodTemplate:
        template = job.submitter
        amounts = _pod(template / "spec")
        if not template.given:
            amounts.containers.append(_submitting())
        return PodTemplate(template if template.given else job.field, "", self._complete(amounts))

    def _complete(self, pod: PodAmounts) -> PodAmounts:
        """Add the defaults of the API server, then those of LimitRanges, and the sums of the pod.

        https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/v1/defaults.go
        (`SetDefaults_Pod`)
        https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/admission/limitranger/admission.go
        """
        for container in pod.containers:
            container.requests = {**container.limits, **container.requests}
        if pod.pod_level:
            summed = _aggregate_amounts(pod.containers, requests=True)
            pod.requests = {**pod.limits, **_of_pod(summed), **pod.requests}
        default, default_request = self._default, self._default_request
        for container in pod.containers if default or default_request else ():
            container.limits = {**default, **container.limits}
            container.requests = {**default_request, **container.requests}
        if self._raised and pod.waiting is not None:
            _raise(pod.waiting, pod.containers[0].requests)
        pod.requests = {**_aggregate_amounts(pod.containers, requests=True), **pod.requests}
        pod.limits = {**_aggregate_amounts(pod.containers, requests=False), **pod.limits}
        return pod


def _submitting() -> ContainerAmounts:
    return ContainerAmounts("ray-job-submitter", {**_SUBMITTER_REQUESTS}, {**_SUBMITTER_LIMITS})


def _pod(spec: Field) -> PodAmounts:
    """Return the amounts of a template."""
    resources = spec / "resources"
    deadline = (spec / "activeDeadlineSeconds").number
    return PodAmounts(
        containers=[*_containers(spec.map, "containers"), *_containers(spec.map, "initContainers")],
        pod_level=bool((resources / "requests").size or (resources / "limits").size),
        requests=thousandths((resources / "requests").value),
        limits=thousandths((resources / "limits").value),
        priority_class=(spec / "priorityClassName").text,
        terminating=deadline is not None and deadline >= 0,
        cross_namespace=_crosses_namespaces((spec / "affinity").map),
    )


def _key_of(spec: dict[str, Any]) -> tuple[object, ...]:
    """Return the values of a template on which its amounts depend."""
    key: list[object] = [
        spec.get("priorityClassName"),
        spec.get("activeDeadlineSeconds"),
        "affinity" in spec and _crosses_namespaces(map_of(spec["affinity"])),
        *_list_amounts(spec),
    ]
    for name in ("containers", "initContainers"):
        listed = spec.get(name)
        key.append(name)
        for entry in listed if type(listed) is list else ():
            if type(entry) is dict:
                key += (entry.get("name"), entry.get("restartPolicy"), *_list_amounts(entry))
    return tuple(key)


def _list_amounts(holder: dict[str, Any]) -> list[object]:
    resources = holder.get("resources")
    if type(resources) is not dict:
        return []
    limits, requests = map_of(resources.get("limits")), map_of(resources.get("requests"))
    return [*limits.items(), None, *requests.items()]


def _containers(spec: dict[str, Any], name: str) -> Iterator[ContainerAmounts]:
    listed = spec.get(name)
    init = name == "initContainers"
    for entry in listed if type(listed) is list else ():
        if type(entry) is dict:
            resources = map_of(entry.get("resources"))
            requests = thousandths(resources.get("requests"))
            limits = thousandths(resources.get("limits"))
            is_sidecar = init and entry.get("restartPolicy") == ALWAYS
            yield ContainerAmounts(
                str(entry.get("name")), requests, limits=limits, init=init, lasting=is_sidecar
            )


def _crosses_namespaces(affinity: dict[str, Any]) -> bool:
    """Return whether a term of the affinity between pods names namespaces.

    https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/quota/v1/evaluator/core/pods.go
    (`usesCrossNamespacePodAffinity`)
    """
    root = Field(affinity)
    for kind in ("podAffinity", "podAntiAffinity") if affinity else ():
        required, preferred = (
            (root / kind / f"{when}DuringSchedulingIgnoredDuringExecution").entries()
            for when in ("required", "preferred")
        )
        for term in (
            *required,
            *(weighted_term / "podAffinityTerm" for weighted_term in preferred),
        ):
            if (term / "namespaces").size or (term / "namespaceSelector").given:
                return True
    return False


def _join_defaults(limits: Iterable[LimitRangeItem]) -> tuple[Thousandths, Thousandths]:
    """Return the default limits and requests of several LimitRanges: the first has precedence."""
    default: Thousandths = {}
    default_request: Thousandths = {}
    for item in limits:
        default = {**item.default, **default}
        default_request = {**item.default_request, **default_request}
    return default, default_request


def _raise(waiting: ContainerAmounts, ray: Thousandths) -> None:
    """Raise the amounts of a container to what Ray's container requests, up to a maximum."""
    for name, most in _WAITING_MOST.items():
        amount = min(ray.get(name, 0), most)
        if amount > waiting.requests[name] == waiting.limits[name]:
            waiting.requests[name] = waiting.limits[name] = amount


def _of_pod(amounts: Thousandths) -> Thousandths:
    """Return the amounts that a pod may have beside those of its containers."""
    return {name: amount for name, amount in amounts.items() if name in (_CPU, _MEMORY)}


def _aggregate_amounts(containers: list[ContainerAmounts], *, requests: bool) -> Thousandths:
    """Return the amounts of a pod: those of its containers together, or of an init container with
    those before it that keep running, if these are more.

    https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/component-helpers/resource/helpers.go
    (`AggregateContainerRequests`)
    """
    total: Thousandths = {}
    sidecar_amounts: Thousandths = {}
    peak: Thousandths = {}
    for container in containers:
        amounts = container.requests if requests else container.limits
        if not container.init:
            _add(total, amounts)
            continue
        if container.lasting:
            _add(total, amounts)
            _add(sidecar_amounts, amounts)
        for name, amount in amounts.items():
            together = sidecar_amounts.get(name, 0) + (0 if container.lasting else amount)
            peak[name] = max(peak.get(name, together), together)
    return {name: max(peak.get(name, 0), total.get(name, 0)) for name in {**total, **peak}}


def _add(total: Thousandths, amounts: Thousandths) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount
