"""The pods of a Ray object as KubeRay creates them: their amounts and numbers."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from msgspec import Struct

from webhook.api import names
from webhook.api.objects import ALWAYS, WAIT_FOR_HEAD_AMOUNTS, WAIT_FOR_HEAD_MOST
from webhook.api.quotas import CONTAINER, Limits, Thousandths, thousandths
from webhook.validation.cluster import UNBOUNDED, Cluster, Group
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


class PodAmounts(Struct):
    """The pods of one template: their number at least and at most, and the fields of the object
    that set them.
    """

    field: Field
    least_field: Field
    most_field: Field
    group: str
    least: int
    most: int
    containers: list[ContainerAmounts]
    pod_level: bool
    requests: Thousandths
    limits: Thousandths
    priority_class: str
    terminating: bool
    cross_namespace: bool
    waiting: ContainerAmounts | None = None
    """The container with which KubeRay waits for the head."""

    @property
    def best_effort(self) -> bool:
        """Return whether the quality of service is BestEffort."""
        amounts = [container.requests for container in self.containers]
        amounts += [container.limits for container in self.containers]
        amounts += [self.requests, self.limits]
        return not any(resources.get(_CPU) or resources.get(_MEMORY) for resources in amounts)


def read_pods(ray_object: RayObject, limits: Iterable[Limits]) -> list[PodAmounts]:
    """Return the pods in the order in which KubeRay creates them, with the defaults of LimitRanges:
    the head, the worker groups, and the pod that submits a RayJob.
    """
    cluster, job = ray_object.cluster, ray_object.job
    defaults = [limit_range for limit_range in limits if limit_range.type == CONTAINER]
    pods = []
    if cluster is not None and (job is None or not job.selects):
        pods.append(_head(cluster, job))
        pods += [_worker(group, cluster.autoscaling) for group in cluster.groups]
    if job is not None and job.has_submitter_pod:
        pods.append(_submitter(job))
    for pod in pods:
        _complete(pod, defaults, raised=ray_object.settings.raise_wait_gcs_ready)
    return pods


def _head(cluster: Cluster, job: Job | None) -> PodAmounts:
    head = cluster.head
    pod = _pod(head.field, head.pod, head.field, names.HEAD_GROUP)
    if cluster.autoscaling:
        resources = cluster.options / "resources"
        requests, limits = _AUTOSCALER, _AUTOSCALER
        if resources.given:
            requests, limits = (
                thousandths((resources / name).value) for name in ("requests", "limits")
            )
        pod.containers.append(ContainerAmounts("autoscaler", {**requests}, {**limits}))
    if job is not None and job.mode == SIDECAR:
        pod.containers.append(_submitting())
    return pod


def _worker(group: Group, autoscaling: bool) -> PodAmounts:  # noqa: FBT001 - one of two ways to scale
    pod = _pod(group.field, group.pod, group.field / "replicas", group.name)
    if pod.containers:
        pod.waiting = ContainerAmounts(names.WAIT_FOR_HEAD, {**_WAITING}, {**_WAITING}, init=True)
        pod.containers.append(pod.waiting)
    scale, hosts = group.scale, max(group.hosts, 0)
    least = most = scale.desired
    if autoscaling and not scale.suspend:
        pod.least_field, pod.most_field = group.field / "minReplicas", group.field / "maxReplicas"
        least = scale.min_replicas or 0
        most = least if scale.max_replicas in (None, UNBOUNDED) else scale.max_replicas or 0
        # KubeRay starts `replicas` pods before the autoscaler changes the number
        most = max(most, scale.desired)
    pod.least, pod.most = max(least, 0) * hosts, max(least, most, 0) * hosts
    return pod


def _submitter(job: Job) -> PodAmounts:
    template = job.submitter
    field = template if template.given else job.field
    pod = _pod(field, template / "spec", field, "")
    if not template.given:
        pod.containers.append(_submitting())
    return pod


def _submitting() -> ContainerAmounts:
    return ContainerAmounts("ray-job-submitter", {**_SUBMITTER_REQUESTS}, {**_SUBMITTER_LIMITS})


def _pod(field: Field, spec: Field, number: Field, group: str) -> PodAmounts:
    """Return a single pod of a template."""
    resources = spec / "resources"
    deadline = (spec / "activeDeadlineSeconds").number
    return PodAmounts(
        field=field,
        least_field=number,
        most_field=number,
        group=group,
        least=1,
        most=1,
        containers=[*_containers(spec.map, "containers"), *_containers(spec.map, "initContainers")],
        pod_level=bool((resources / "requests").size or (resources / "limits").size),
        requests=thousandths((resources / "requests").value),
        limits=thousandths((resources / "limits").value),
        priority_class=(spec / "priorityClassName").text,
        terminating=deadline is not None and deadline >= 0,
        cross_namespace=_crosses_namespaces((spec / "affinity").map),
    )


def _containers(spec: dict[str, Any], name: str) -> Iterator[ContainerAmounts]:
    listed = spec.get(name)
    init = name == "initContainers"
    for entry in listed if type(listed) is list else ():
        if type(entry) is dict:
            resources = entry.get("resources")
            resources = resources if type(resources) is dict else {}
            requests = thousandths(resources.get("requests"))
            limits = thousandths(resources.get("limits"))
            is_sidecar = init and entry.get("restartPolicy") == ALWAYS
            yield ContainerAmounts(str(entry.get("name")), requests, limits, init, is_sidecar)


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


def _complete(pod: PodAmounts, defaults: list[Limits], *, raised: bool) -> None:
    """Add the defaults of the API server, then those of LimitRanges, and the sums of the pod. If
    `raised`, the webhook raises the amounts of the container that waits for the head.

    https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/v1/defaults.go
    (`SetDefaults_Pod`)
    https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/admission/limitranger/admission.go
    """
    for container in pod.containers:
        container.requests = {**container.limits, **container.requests}
    if pod.pod_level:
        summed = _aggregate_amounts(pod.containers, requests=True)
        pod.requests = {**pod.limits, **_of_pod(summed), **pod.requests}
    default, default_request = _join_defaults(defaults)
    for container in pod.containers if default or default_request else ():
        container.limits = {**default, **container.limits}
        container.requests = {**default_request, **container.requests}
    if raised and pod.waiting is not None:
        _raise(pod.waiting, pod.containers[0].requests)
    pod.requests = {**_aggregate_amounts(pod.containers, requests=True), **pod.requests}
    pod.limits = {**_aggregate_amounts(pod.containers, requests=False), **pod.limits}


def _join_defaults(limits: Iterable[Limits]) -> tuple[Thousandths, Thousandths]:
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
