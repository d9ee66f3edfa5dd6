"""A snapshot of a cluster; resources that could not be read are None."""

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
"""Name of the webhook of this program for pods, in each configuration."""

_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""The label that every namespace has.

https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/#automatic-labelling
"""

REFUSALS: Final = ("FailedToCreateWorkerPod", "FailedToCreateHeadPod")
"""Reasons of KubeRay's events for rejected pods.

https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/constant.go
"""
END: Final = "Killing"
"""Reason of kubelet's events for containers that it stops, as on deletion or eviction.

https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/events/event.go
"""


class Observed(Struct, frozen=True):
    """The objects; `pods` are heads and workers, `events` those about RayClusters and pods.

    `ignoring` is the setting `ignore.rayclusters`: whether the `ignore` label of RayClusters is
    honoured.
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
    """End times of pods according to events, indexed on first use. `lives` returns whether the pod
    of a uid still exists.
    """

    def __init__(self, events: Iterable[LiveEvent], lives: Callable[[str], bool]) -> None:
        self._events: Iterable[LiveEvent] = events
        self._lives = lives
        self._by_name: dict[tuple[str, str], dict[str, float]] | None = None

    def of(self, namespace: str, name: str) -> list[float]:
        """Return the sorted end times of deleted pods with this name, or with this `generateName`
        and a suffix of the API server.
        """
        if self._by_name is None:
            self._by_name, self._events = _ends(self._events), ()
        ends = self._by_name.get((namespace, name), {})
        return sorted(time for uid, time in ends.items() if not self._lives(uid))


class Lookups:
    """Indexes of the observed objects, as of `now`. `ends` are reused end times of pods."""

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
        """Return whether a Service exists; None if Services could not be read."""
        return None if self._services is None else (namespace, name) in self._services

    @property
    def pod_groups_known(self) -> bool:
        """Return whether PodGroups could be read."""
        return self._pod_groups is not None

    def pod_group(self, namespace: str, name: str) -> LivePodGroup | None:
        return (self._pod_groups or {}).get((namespace, name))

    def node(self, name: str) -> Named | None:
        return self._nodes.get(name)

    def node_label(self, node: str, key: str) -> str | None:
        """Return a label of a node; None if the label or the node does not exist."""
        found = self._nodes.get(node)
        return (found.metadata.labels or {}).get(key) if found else None

    def namespace_label(self, namespace: str, key: str) -> str | None:
        """Return a label of a namespace; None if the label or the namespace does not exist."""
        found = self._namespaces.get(namespace)
        return (found.metadata.labels or {}).get(key) if found else None

    def passed_by(self, namespace: str) -> str:
        """Return the configuration whose `namespaceSelector` excludes a namespace, so that the API
        server does not call this webhook for its pods; empty if it does, or if that is unknown.
        """
        if namespace not in self._passing:  # once for all its RayClusters
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
        """Return the result of `Ends.of`, cached."""
        key = namespace, name
        if key not in self._ended:  # once for all its replicas
            self._ended[key] = self._ends.of(namespace, name)
        return self._ended[key]

    def refusals(self, uid: str) -> Iterator[LiveEvent]:
        """Yield KubeRay's events for rejected pods of a RayCluster."""
        if self._refusals is None:
            self._refusals = {}
            for event in self._events:
                if event.reason in REFUSALS:
                    self._refusals.setdefault(event.involved_object.uid, []).append(event)
        yield from self._refusals.get(uid, ())


def _ends(events: Iterable[LiveEvent]) -> dict[tuple[str, str], dict[str, float]]:
    """Return the end times of pods by uid, by namespace and by both names. Each container of a pod
    may have an event.
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
