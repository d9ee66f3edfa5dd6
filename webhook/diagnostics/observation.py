"""What was read of a cluster at one moment; what could not be read is None."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from webhook.api import names
from webhook.diagnostics.live_objects import (
    LiveCluster,
    LiveEvent,
    LivePod,
    LivePodGroup,
    Named,
    WebhookConfiguration,
)

PODS: Final = f"pods.{names.PREFIX.rstrip('/')}"
"""The webhook of this program that is asked about pods, by its name in each configuration."""

_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""The label that every namespace has.

https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/#automatic-labelling
"""

REFUSALS: Final = ("FailedToCreateWorkerPod", "FailedToCreateHeadPod")
"""Reasons of KubeRay's events about pods that it was refused.

https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/constant.go
"""
END: Final = "Killing"
"""The reason of kubelet's events about containers that it ends, anyone who deleted or evicted their
pod.

https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/events/event.go
"""


class Observed(Struct, frozen=True):
    """The objects; `pods` are heads and workers, `events` those about RayClusters and pods.

    `ignoring` is no object: whether RayClusters may be left alone by their label, as the setting
    `ignore.rayclusters` says.
    """

    clusters: Sequence[LiveCluster]
    pods: Sequence[LivePod]
    pod_groups: Sequence[LivePodGroup] | None = None
    events: Sequence[LiveEvent] | None = None
    services: Sequence[Named] | None = None
    nodes: Sequence[Named] | None = None
    namespaces: Sequence[Named] | None = None
    configurations: Sequence[WebhookConfiguration] | None = None
    ignoring: bool = True


class Ends:
    """When pods ended, as far as events tell of it: sorted out when somebody first asks, as no one
    does where all is well. `lives` tells whether the pod of a uid is still there.
    """

    def __init__(self, events: Iterable[LiveEvent], lives: Callable[[str], bool]) -> None:
        self._events: Iterable[LiveEvent] = events
        self._lives = lives
        self._by_name: dict[tuple[str, str], dict[str, float]] | None = None

    def of(self, namespace: str, name: str) -> list[float]:
        """Return in order when pods that are gone by now ended: those of this name, or of one that
        is made of it and of what the API server puts behind a `generateName`.
        """
        if self._by_name is None:
            self._by_name, self._events = _ends(self._events), ()
        ends = self._by_name.get((namespace, name), {})
        return sorted(time for uid, time in ends.items() if not self._lives(uid))


class Lookups:
    """The observed objects by what they are looked up by, and the time of looking. `ends` are those
    of pods, where somebody has sorted them out before.
    """

    def __init__(self, observed: Observed, now: float, ends: Ends | None = None) -> None:
        self.now = now
        self._services = _names(observed.services)
        self._pod_groups = _by_name(observed.pod_groups)
        self._nodes = {node.metadata.name or "": node for node in observed.nodes or ()}
        self.nodes_known = observed.nodes is not None
        self._namespaces = {each.metadata.name or "": each for each in observed.namespaces or ()}
        self._selectors = [
            (configuration.metadata.name or "", webhook.namespace_selector)
            for configuration in observed.configurations or ()
            for webhook in configuration.webhooks or ()
            if webhook.name == PODS
        ]
        self._passing: dict[str, str] = {}
        self._events = observed.events or ()
        self._refusals: dict[str, list[LiveEvent]] | None = None
        live = {pod.metadata.uid for pod in observed.pods}
        self._ends = ends or Ends(self._events, live.__contains__)
        self._ended: dict[tuple[str, str], list[float]] = {}

    def has_service(self, namespace: str, name: str) -> bool | None:
        """Return whether a Service exists; None when no one could look."""
        return None if self._services is None else (namespace, name) in self._services

    @property
    def pod_groups_known(self) -> bool:
        """Return whether PodGroups could be looked at."""
        return self._pod_groups is not None

    def pod_group(self, namespace: str, name: str) -> LivePodGroup | None:
        """Return a PodGroup, if it exists."""
        return (self._pod_groups or {}).get((namespace, name))

    def node(self, name: str) -> Named | None:
        """Return a node, if it is known."""
        return self._nodes.get(name)

    def node_label(self, node: str, key: str) -> str | None:
        """Return a label of a node, None when it has none or the node is not known."""
        found = self._nodes.get(node)
        return (found.metadata.labels or {}).get(key) if found else None

    def namespace_label(self, namespace: str, key: str) -> str | None:
        """Return a label of a namespace, None when it has none or the namespace is not known."""
        found = self._namespaces.get(namespace)
        return (found.metadata.labels or {}).get(key) if found else None

    def passed_by(self, namespace: str) -> str:
        """Return the configuration whose `namespaceSelector` leaves a namespace out, so that this
        webhook is not asked about its pods; nothing where it is asked, or no one could look.
        """
        if namespace not in self._passing:  # each of its RayClusters asks
            self._passing[namespace] = self._left_out(namespace)
        return self._passing[namespace]

    def _left_out(self, namespace: str) -> str:
        found = self._namespaces.get(namespace)
        if found is None or not self._selectors:
            return ""
        labels = {**(found.metadata.labels or {}), _NAMESPACE_NAME: namespace}
        asked = any(selector.selects(labels) for _, selector in self._selectors)
        return "" if asked else self._selectors[0][0]

    def ends(self, namespace: str, name: str) -> list[float]:
        """Return what `Ends.of` does."""
        key = namespace, name
        if key not in self._ended:  # each replica that lacks hosts asks
            self._ended[key] = self._ends.of(namespace, name)
        return self._ended[key]

    def refusals(self, uid: str) -> Iterator[LiveEvent]:
        """Yield KubeRay's events about pods that it was refused for the RayCluster of a uid."""
        if self._refusals is None:
            self._refusals = {}
            for event in self._events:
                if event.reason in REFUSALS:
                    self._refusals.setdefault(event.involved_object.uid, []).append(event)
        yield from self._refusals.get(uid, ())


def _ends(events: Iterable[LiveEvent]) -> dict[tuple[str, str], dict[str, float]]:
    """Return when pods ended, by uid, by namespace and both names. Each container of a pod may have
    told of its end.
    """
    found: dict[tuple[str, str], dict[str, float]] = {}
    for event in events:
        if event.reason != END or (time := event.last) is None:
            continue
        namespace, about = event.metadata.namespace or "", event.involved_object
        generated = "".join(about.name.rpartition("-")[:2])
        for name in (about.name, generated):
            ends = found.setdefault((namespace, name), {})
            ends[about.uid] = max(time, ends.get(about.uid, time))
    return found


def _names(objects: Sequence[Named] | None) -> set[tuple[str, str]] | None:
    if objects is None:
        return None
    return {(each.metadata.namespace or "", each.metadata.name or "") for each in objects}


def _by_name(
    objects: Sequence[LivePodGroup] | None,
) -> dict[tuple[str, str], LivePodGroup] | None:
    if objects is None:
        return None
    return {(each.metadata.namespace or "", each.metadata.name or ""): each for each in objects}
