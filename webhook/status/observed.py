"""What was read of a cluster at one moment; what could not be read is None."""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from webhook.status.objects import (
    LiveCluster,
    LiveEvent,
    LivePod,
    LivePodGroup,
    Named,
    WebhookConfiguration,
)

_ENDS: Final = ("Killing", "Preempted", "Evicted", "TaintManagerEviction")
"""Reasons of events about pods that end."""


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


class Lookups:
    """The observed objects by what they are looked up by, and the time of looking."""

    def __init__(self, observed: Observed, now: float) -> None:
        self.now = now
        self.events_known = observed.events is not None
        self._services = _names(observed.services)
        self._pod_groups = _by_name(observed.pod_groups)
        self._nodes = {node.metadata.name or "": node for node in observed.nodes or ()}
        self.nodes_known = observed.nodes is not None
        self._namespaces = {each.metadata.name or "": each for each in observed.namespaces or ()}
        self._events: dict[str, list[LiveEvent]] = {}
        self._ends: dict[str, list[LiveEvent]] = {}
        live = {pod.metadata.uid for pod in observed.pods}
        for event in observed.events or ():
            self._events.setdefault(event.involved_object.uid, []).append(event)
            if event.reason in _ENDS and event.involved_object.uid not in live:
                self._ends.setdefault(event.metadata.namespace or "", []).append(event)

    def has_service(self, namespace: str, name: str) -> bool | None:
        """Tell whether a Service exists; None when nobody could look."""
        return None if self._services is None else (namespace, name) in self._services

    @property
    def pod_groups_known(self) -> bool:
        """Tell whether PodGroups could be looked at."""
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

    def last_end(self, namespace: str, prefix: str) -> float | None:
        """Return when a pod that is gone by now, and whose name began like this, ended last."""
        ends = self._ends.get(namespace, ())
        times = [event.last for event in ends if event.involved_object.name.startswith(prefix)]
        return max((time for time in times if time is not None), default=None)

    def events_about(self, uid: str) -> Iterator[LiveEvent]:
        """Yield the events about the object of a uid."""
        yield from self._events.get(uid, ())


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
