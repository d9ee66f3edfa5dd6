"""Subresources of pods: an in-place resize of a Ray pod above the limits of its group causes a
warning or a denial; a binding copies labels of the Node to the pod as annotations, so that
variables of its containers can refer to them.

https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4742-node-topology-downward-api
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from decimal import Decimal
from typing import Any, Final, Literal

from webhook.api import names
from webhook.api.objects import Amounts, Container, Pod, Strings, ray_container
from webhook.api.quantity import parse_quantity
from webhook.api.review import ALLOWED, INVALID, AdmissionRequest, Answer, BadReview, Cause
from webhook.groups.group_config import ClusterIndex, RayClusterConfig
from webhook.groups.ippr import Amount, Maxima
from webhook.groups.required_reads import Read, ReadCluster
from webhook.mutation.fold import encode, extended

Enforcement = Literal["off", "warn", "deny"]

RULE: Final = "resize-beyond-maximum"
"""The rule of a denial, in metrics."""

_RESOURCES: Final = ("cpu", "memory")


class ResizeHandler:
    """Answers reviews of `pods/resize`. A known RayCluster is read again before a denial, and if
    its watch is stale; an unknown one is not read.
    """

    def __init__(self, clusters: ClusterIndex, enforcement: Enforcement = "warn") -> None:
        self._clusters = clusters
        self._enforcement = enforcement

    async def __call__(
        self, request: AdmissionRequest[Pod], read: Sequence[Read] = ()
    ) -> Answer | ReadCluster:
        """Return the response, or the objects to read first, none of which is in `read`. Raises
        BadReview.
        """
        if self._enforcement == "off" or request.operation != "UPDATE":
            return ALLOWED
        if request.object is None:
            msg = (
                "the Pod in the AdmissionReview of a resize is missing or malformed: an UPDATE "
                "carries the whole pod"
            )
            raise BadReview(msg)
        cluster = self._cluster_of(request.object, request.namespace or "")
        if cluster is None:
            return ALLOWED
        fresh = read or self._clusters.fresh(cluster.namespace, cluster.name)
        causes = _causes(request.object, request.old_object or Pod(), cluster) if fresh else ()
        deny = self._enforcement == "deny"
        doubted = causes and deny and not read and self._clusters.watched
        if not fresh or doubted:
            return ReadCluster(cluster.namespace, cluster.name, cluster.uid)
        rules = (RULE,) if causes else ()
        if deny:
            return Answer(causes, rules=rules)
        return Answer(warnings=tuple(cause.message for cause in causes), warned=rules)

    def _cluster_of(self, pod: Pod, namespace: str) -> RayClusterConfig | None:
        owner = pod.controller
        name = pod.labels.get(names.LABEL_CLUSTER)
        if owner is None or owner.kind != names.RAYCLUSTER_KIND or not name:
            return None
        namespace = namespace or pod.metadata.namespace or "default"
        return self._clusters.current(namespace, name, owner.uid, read=True)


def _causes(new: Pod, old: Pod, cluster: RayClusterConfig) -> tuple[Cause, ...]:
    """Return the causes against a resize; none if the RayCluster is ignored."""
    group = _group_of(new)
    maxima = cluster.resizable.get(group)
    if maxima is None or cluster.ignored:
        return ()
    of = f"of group {group} ({names.ANNOTATION_IPPR} of RayCluster {cluster.name})"
    return tuple(
        Cause(INVALID, f"{text} {of}", field) for field, text in _exceeding(new, old, maxima)
    )


def _group_of(pod: Pod) -> str:
    """Return the group of a pod in `ray.io/ippr`; empty for pods that are not Ray nodes."""
    match pod.labels.get(names.LABEL_NODE_TYPE):
        case names.NODE_TYPE_HEAD:
            return names.HEAD_GROUP
        case names.NODE_TYPE_WORKER:
            return pod.labels.get(names.LABEL_GROUP, "")
    return ""


def _exceeding(new: Pod, old: Pod, maxima: Maxima) -> Iterator[tuple[str, str]]:
    """Yield field and problem for each resource of Ray's container that grows above its limit."""
    limits = {"cpu": maxima.max_cpu, "memory": maxima.max_memory}
    index = ray_container(map(Container.described, new.spec.containers or ()))
    for kind in ("requests", "limits"):
        before, after = _amounts(old, kind), _amounts(new, kind)
        for resource in _RESOURCES:
            most, amount = limits[resource], after.get(resource)
            if most is None or amount is None or not 0 < _number(most) < _number(amount):
                continue
            if _number(amount) > _number(before.get(resource)):
                yield (
                    f"spec.containers[{index}].resources.{kind}.{resource}",
                    f"{resource} {amount} is above max-{resource} {most}",
                )


def _amounts(pod: Pod, kind: str) -> Amounts:
    resources = pod.spec.ray.resources if pod.spec.ray else None
    if resources is None:
        return {}
    return (resources.limits if kind == "limits" else resources.requests) or {}


def _number(amount: Amount | None) -> Decimal:
    """Return an amount as a number, 0 if it is invalid: the API server rejects those."""
    try:
        return parse_quantity(amount) if amount is not None else Decimal(0)
    except ValueError:
        return Decimal(0)


Labels = Callable[[str], Awaitable[Strings]]
"""Returns the labels of a Node that are copied."""


class BindingHandler:
    """Answers reviews of `pods/binding`. The API server merges the annotations of a binding into
    the pod.
    """

    def __init__(self, labels: Labels) -> None:
        self._labels = labels

    async def __call__(self, request: AdmissionRequest[Any]) -> Answer:
        """Return the annotations to add; none for a binding without a Node."""
        binding = request.object if isinstance(request.object, dict) else {}
        target, meta = (_map(binding.get(name)) for name in ("target", "metadata"))
        name = target.get("name")
        if target.get("kind", "Node") not in ("", "Node") or not isinstance(name, str) or not name:
            return ALLOWED
        labels = await self._labels(name)
        if not labels:
            return ALLOWED
        annotations = meta.get("annotations")
        present = annotations if isinstance(annotations, dict) else None
        return Answer(patch=encode(extended("/metadata/annotations", present, labels)))


def _map(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
