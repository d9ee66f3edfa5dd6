"""The pods of a Ray object as KubeRay creates them: their amounts and numbers."""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from webhook.api import names
from webhook.api.formats import shorten
from webhook.api.namespace_limits import NamespaceLimits, Thousandths, thousandths
from webhook.api.objects import ALWAYS, WAIT_FOR_HEAD_AMOUNTS, WAIT_FOR_HEAD_MOST, map_of
from webhook.validation.cluster import UNBOUNDED, ClusterSpec, GroupSpec
from webhook.validation.field import Field, at
from webhook.validation.ray_object import SIDECAR, Job, RayObject

_CPU: Final = "cpu"
_MEMORY: Final = "memory"
WORK_MAX: Final = 200_000
"""Containers times amounts of quotas and LimitRanges; more are not compared."""
_RECENT: Final = 8
"""Templates with which another one is compared; most groups of a RayCluster have equal ones."""


class ContainerAmounts(Struct, gc=False):
    """The requests and limits of a container, as written at first. `lasting`: an init container
    that keeps running.
    """

    name: str
    requests: Any
    limits: Any
    init: bool = False
    lasting: bool = False


# The containers that KubeRay adds:
# https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
# (`DefaultWorkerPodTemplate`, `BuildAutoscalerContainer`)
# https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/job.go
# (`GetDefaultSubmitterContainer`)
_WAITING: Final = ContainerAmounts(
    names.WAIT_FOR_HEAD, WAIT_FOR_HEAD_AMOUNTS, WAIT_FOR_HEAD_AMOUNTS, init=True
)
_WAITING_MOST: Final = thousandths(WAIT_FOR_HEAD_MOST)
_AUTOSCALER: Final = {key: {_CPU: "500m", _MEMORY: "512Mi"} for key in ("requests", "limits")}
_SUBMITTER: Final = ContainerAmounts(
    "ray-job-submitter", {_CPU: "500m", _MEMORY: "200Mi"}, {_CPU: "1", _MEMORY: "1Gi"}
)


class PodAmounts(Struct, gc=False):
    """The amounts of a pod, which the pods of equal templates share. `usage`: by the names that
    quotas have for them.
    """

    containers: list[ContainerAmounts]
    pod_level: bool
    requests: Thousandths
    limits: Thousandths
    usage: Thousandths
    priority_class: str
    terminating: bool
    cross_namespace: bool

    @property
    def best_effort(self) -> bool:
        """Whether the quality of service is BestEffort."""
        amounts = [self.requests, self.limits]
        for container in self.containers:
            amounts += container.requests, container.limits
        return not any(resources.get(_CPU) or resources.get(_MEMORY) for resources in amounts)


class PodTemplate(Struct, gc=False):
    """The pods of one template: their number at least and at most, and the fields of its group that
    set the two numbers, if any. `existing` of them are not created.
    """

    field: Field
    group: str
    amounts: PodAmounts
    hosts: int = 1
    least: int = 1
    most: int = 1
    number_names: tuple[str, str] = ("", "")
    existing: int = 0


class TemplateReader:
    """Reads the pods of Ray objects, with the defaults of LimitRanges. If `raised`, the webhook
    raises the amounts of the container that waits for the head.
    """

    def __init__(self, limits: NamespaceLimits, *, raised: bool) -> None:
        self._limits = limits
        self._raised = raised
        self.work = 0
        self._recent: deque[tuple[object, PodAmounts]] = deque(maxlen=_RECENT)

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
            template = job.submitter
            added = () if template.given else (_SUBMITTER,)
            amounts = self._amounts(map_of(at(template.value, "spec")), *added)
            templates.append(PodTemplate(template if template.given else job.field, "", amounts))
        return templates

    def _head(self, cluster: ClusterSpec, job: Job | None) -> PodTemplate:
        added = []
        if cluster.autoscaling:
            resources = at(cluster.field.value, "autoscalerOptions", "resources")
            chosen = _AUTOSCALER if resources is None else resources
            added.append(_container({"name": "autoscaler", "resources": chosen}))
        if job is not None and job.mode == SIDECAR:
            added.append(_SUBMITTER)
        amounts = self._amounts(cluster.head.pod.map, *added)
        return PodTemplate(cluster.head.field, names.HEAD_GROUP, amounts)

    def _worker(self, group: GroupSpec, autoscaling: bool) -> PodTemplate:  # noqa: FBT001 - of two ways to scale
        scale, hosts = group.scale, max(group.hosts, 0)
        least = most = scale.desired
        number_names = ("replicas", "replicas")
        if autoscaling and not scale.suspend:
            number_names = ("minReplicas", "maxReplicas")
            least = scale.min_replicas or 0
            most = least if scale.max_replicas in (None, UNBOUNDED) else scale.max_replicas or 0
            # KubeRay starts `replicas` pods before the autoscaler changes the number
            most = max(most, scale.desired)
        least = max(least, 0)
        return PodTemplate(
            group.field,
            group.name,
            amounts=self._amounts(group.pod.map, _WAITING),
            hosts=hosts,
            least=least * hosts,
            most=max(least, most) * hosts,
            number_names=number_names,
        )

    def _amounts(self, spec: dict[str, Any], *added: ContainerAmounts) -> PodAmounts:
        """Return the amounts of a template to which KubeRay adds containers."""
        deadline, affinity = spec.get("activeDeadlineSeconds"), spec.get("affinity")
        named, resources = spec.get("priorityClassName"), map_of(spec.get("resources"))
        containers = [*_containers(spec), *added]
        key = (deadline, affinity, named, resources, containers)
        for other, amounts in self._recent:
            if other == key:
                return amounts
        self.work += len(containers) * self._limits.size
        if self.work > WORK_MAX:
            containers = []
        completed, requests, limits = self._complete(containers, resources)
        amounts = PodAmounts(
            completed,
            pod_level=bool(resources.get("requests") or resources.get("limits")),
            requests=requests,
            limits=limits,
            usage=dict.fromkeys(("pods", "count/pods"), 1000)
            | self._limits.usage(requests, limits),
            priority_class=named if type(named) is str else "",
            terminating=deadline is not None,
            cross_namespace=bool(affinity) and _crosses_namespaces(Field(affinity)),
        )
        self._recent.append((key, amounts))
        return amounts

    def _complete(
        self, containers: list[ContainerAmounts], resources: dict[str, Any]
    ) -> tuple[list[ContainerAmounts], Thousandths, Thousandths]:
        """Return the amounts of containers, and the requests and limits of the pod: with the
        defaults of the API server, then those of LimitRanges.

        https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/apis/core/v1/defaults.go
        (`SetDefaults_Pod`)
        https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/admission/limitranger/admission.go
        """
        completed = [self._read(container) for container in containers]
        requests, limits = self._read_pod(resources, completed) if resources else ({}, {})
        default, default_request = self._limits.default, self._limits.default_request
        for container in completed:
            if not default_request.keys() <= container.limits.keys():
                container.limits = {**default, **container.limits}
                container.requests = {**default_request, **container.requests}
        if self._raised and containers and containers[-1] is _WAITING:
            _raise(completed[-1], completed[0].requests)
        summed, summed_limits = _aggregate_amounts(completed)
        return completed, summed | requests, summed_limits | limits

    def _read_pod(
        self, resources: dict[str, Any], containers: list[ContainerAmounts]
    ) -> tuple[Thousandths, Thousandths]:
        """Return the requests and limits of a pod itself."""
        requests = thousandths(resources.get("requests"), self._limits.resources)
        limits = thousandths(resources.get("limits"), self._limits.resources)
        if requests or limits:
            summed, _ = _aggregate_amounts(containers)
            of_pod: Thousandths = {name: summed[name] for name in (_CPU, _MEMORY) if name in summed}
            requests = {**limits, **of_pod, **requests}
        return requests, limits

    def _read(self, container: ContainerAmounts) -> ContainerAmounts:
        """Return the amounts of a container of the resources that the namespace limits."""
        requests = limits = thousandths(container.limits, self._limits.resources)
        if container.requests != container.limits:
            requests = {**limits, **thousandths(container.requests, self._limits.resources)}
        return ContainerAmounts(container.name, requests, limits, container.init, container.lasting)


def _containers(spec: dict[str, Any]) -> Iterator[ContainerAmounts]:
    for name in ("containers", "initContainers"):
        listed = spec.get(name)
        for entry in listed if type(listed) is list else ():
            if type(entry) is dict:
                yield _container(entry, init=name == "initContainers")


def _container(entry: Mapping[str, Any], *, init: bool = False) -> ContainerAmounts:
    resources = map_of(entry.get("resources"))
    requests, limits = resources.get("requests"), resources.get("limits")
    lasting = init and entry.get("restartPolicy") == ALWAYS
    return ContainerAmounts(shorten(str(entry.get("name"))), requests, limits, init, lasting)


def _crosses_namespaces(affinity: Field) -> bool:
    """Return whether a term of the affinity between pods names namespaces.

    https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/quota/v1/evaluator/core/pods.go
    (`usesCrossNamespacePodAffinity`)
    """
    during = "DuringSchedulingIgnoredDuringExecution"
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = [*(affinity / kind / f"required{during}").entries()]
        preferred = (affinity / kind / f"preferred{during}").entries()
        terms += [weighted_term / "podAffinityTerm" for weighted_term in preferred]
        if any((term / "namespaces").size or (term / "namespaceSelector").given for term in terms):
            return True
    return False


def _raise(waiting: ContainerAmounts, ray: Thousandths) -> None:
    """Raise the amounts of a container to what Ray's container requests, up to a maximum."""
    for name, most in _WAITING_MOST.items():
        amount = ray.get(name, 0)
        if amount > waiting.requests.get(name, 0) == waiting.limits.get(name, 0):
            raised = {name: min(amount, most)}
            waiting.requests, waiting.limits = waiting.requests | raised, waiting.limits | raised


def _aggregate_amounts(containers: list[ContainerAmounts]) -> tuple[Thousandths, Thousandths]:
    """Return the requests and limits of a pod: those of its containers together, or of an init
    container with those before it that keep running, if these are more.

    https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/component-helpers/resource/helpers.go
    (`AggregateContainerRequests`)
    """
    requests = _aggregate(containers, limits=False)
    for container in containers:
        if container.requests != container.limits:
            return requests, _aggregate(containers, limits=True)
    return requests, requests


def _aggregate(containers: list[ContainerAmounts], *, limits: bool) -> Thousandths:
    total: Thousandths = {}
    sidecar_amounts: Thousandths = {}
    peak: Thousandths = {}
    for container in containers:
        amounts, lasting = container.limits if limits else container.requests, container.lasting
        if lasting or not container.init:
            for name, amount in amounts.items():
                total[name] = total.get(name, 0) + amount
        for name, amount in amounts.items() if container.init else ():
            together = sidecar_amounts.get(name, 0) + amount
            if lasting:
                sidecar_amounts[name] = together
            peak[name] = max(peak.get(name, 0), together)
    for name, amount in peak.items():
        if amount >= total.get(name, 0):
            total[name] = amount
    return total
