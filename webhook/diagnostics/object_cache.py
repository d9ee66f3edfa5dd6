"""The object cache: all objects that reports are made of, and the RayClusters to examine again."""

from collections.abc import Callable, Collection, Iterable
from typing import Generic, Protocol, TypeVar

from msgspec import structs

from webhook.api import names
from webhook.diagnostics.live_objects import (
    LiveCluster,
    LiveEvent,
    LiveMeta,
    LivePod,
    LivePodGroup,
    Named,
    WebhookConfiguration,
)
from webhook.diagnostics.observation import REFUSALS, Ends, Observed
from webhook.diagnostics.transforms import kept, kept_node
from webhook.groups.naming import headless_service


class Live(Protocol):
    """An object with metadata."""

    @property
    def metadata(self) -> LiveMeta:
        """Its metadata."""


T = TypeVar("T", bound=Live)
Handler = Callable[[T | None, T | None], None]
"""Receives a change: the object before and after it; None before creation and after deletion."""


class Table(Generic[T]):
    """Objects of one kind by uid, and by the key that `index` returns.

    `changed` receives each created, deleted or modified object; a modified object twice, before and
    after the change. `transform` returns the object to store.
    """

    def __init__(
        self,
        index: Callable[[T], str],
        changed: Callable[[T], None],
        transform: Callable[[T], T] = lambda value: value,
    ) -> None:
        self.known = False
        """Whether they were ever listed."""
        self._index = index
        self._changed = changed
        self._transform = transform
        self._handlers: list[Handler[T]] = []
        self._all: dict[str, T] = {}
        self._indexed: dict[str, dict[str, T]] = {}

    def subscribe(self, handler: Handler[T]) -> None:
        """Call `handler` for every later change."""
        self._handlers.append(handler)

    def put(self, uid: str, value: T) -> None:
        """Add or replace an object."""
        value, old = self._transform(value), self._all.get(uid)
        if old is not None and _same(old, value):
            return
        if old is not None:
            self._forget(uid, old)
        self._all[uid] = value
        self._indexed.setdefault(self._index(value), {})[uid] = value
        self._notify(old, value)

    def remove(self, uid: str) -> None:
        old = self._all.get(uid)
        if old is not None:
            self._forget(uid, old)
            self._notify(old, None)

    def get(self, uid: str) -> T | None:
        """Return an object; None if it does not exist."""
        return self._all.get(uid)

    def items(self) -> Iterable[tuple[str, T]]:
        """Return all objects with their uids."""
        return self._all.items()

    def of(self, key: str) -> Collection[T]:
        """Return the objects with this key of `index`."""
        return self._indexed.get(key, {}).values()

    @property
    def all(self) -> Collection[T]:
        return self._all.values()

    def asked(self, values: Collection[T]) -> list[T] | None:
        """Return the objects as a list; None if the kind was never listed."""
        return list(values) if self.known else None

    def _forget(self, uid: str, old: T) -> None:
        del self._all[uid]
        key = self._index(old)
        beside = self._indexed[key]
        del beside[uid]
        if not beside:
            del self._indexed[key]

    def _notify(self, old: T | None, new: T | None) -> None:
        for value in (old, new):
            if value is not None:
                self._changed(value)
        for handle in self._handlers:
            handle(old, new)


class ObjectCache:
    """The tables of all kinds. Between `begin` and `end`, `take_changed` returns the uids of
    RayClusters whose report may have changed, and `installation` is true if that of the
    installation may have.

    With `ignoring`, the `ignore` label of RayClusters is honoured.
    """

    def __init__(self, *, ignoring: bool = True) -> None:
        self.ignoring = ignoring
        self._changed: set[str] = set()
        self._nodes_changed: set[str] = set()
        self._groups_changed: set[str] = set()
        self._services_changed: set[str] = set()
        self.installation = True
        self._examined = False
        self.clusters: Table[LiveCluster] = Table(_namespace, self._cluster_changed)
        self.pods: Table[LivePod] = Table(owner_of, self._pod_changed, kept)
        self.pod_groups: Table[LivePodGroup] = Table(_place, self._pod_group_changed)
        self.events: Table[LiveEvent] = Table(_namespace, self._event_changed)
        self._ends: dict[str, Ends] = {}
        self.services: Table[Named] = Table(_place, self._service_changed)
        self.nodes: Table[Named] = Table(_name, self._node_changed, kept_node)
        self.namespaces: Table[Named] = Table(_name, self._namespace_changed)
        self.configurations: Table[WebhookConfiguration] = Table(_name, self._installation_changed)

    def begin(self) -> None:
        """Start tracking changes; all RayClusters count as changed."""
        self._examined = True
        self.installation = True
        self._changed = {each.metadata.uid or "" for each in self.clusters.all}

    def end(self) -> None:
        """Stop tracking changes."""
        self._examined = False
        self.take_changed()

    def take_changed(self) -> set[str]:
        """Return the uids of RayClusters whose report may have changed since the last call."""
        nodes, groups, services = self._nodes_changed, self._groups_changed, self._services_changed
        if nodes or groups or services:
            self._mark(
                owner_of(pod)
                for pod in self.pods.all
                if pod.spec.node_name in nodes
                or (pod.pod_group and _pod_group(pod) in groups)
                or _subdomain(pod) in services
            )
        if services:
            self._mark(
                each.metadata.uid or "" for each in self.clusters.all if _service(each) in services
            )
        for places in (nodes, groups, services):
            places.clear()
        changed, self._changed = self._changed, set()
        return changed

    def around(self, cluster: LiveCluster) -> Observed:
        """Return all objects that the report of a RayCluster depends on, apart from `ends`."""
        namespace = cluster.metadata.namespace or ""
        pods = list(self.pods.of(cluster.metadata.uid or ""))
        refusals = [event for event in self.events.of(namespace) if event.reason in REFUSALS]
        groups = sorted({_pod_group(pod) for pod in pods if pod.pod_group})
        services = sorted({_service(cluster), *map(_subdomain, pods)})
        on = sorted({pod.spec.node_name for pod in pods if pod.spec.node_name})
        return Observed(
            [cluster],
            pods,
            self.pod_groups.asked([each for name in groups for each in self.pod_groups.of(name)]),
            self.events.asked(refusals),
            self.services.asked([each for name in services for each in self.services.of(name)]),
            self.nodes.asked([node for name in on for node in self.nodes.of(name)]),
            self.namespaces.asked(self.namespaces.of(namespace)),
            self.configurations.asked(self.configurations.all),
            ignoring=self.ignoring,
        )

    def ends(self, cluster: LiveCluster) -> Ends:
        """Return the end times of pods in a RayCluster's namespace, cached until its next event."""
        namespace = cluster.metadata.namespace or ""
        if namespace not in self._ends:
            events = list(self.events.of(namespace))
            self._ends[namespace] = Ends(events, lambda uid: self.pods.get(uid) is not None)
        return self._ends[namespace]

    def beside(self) -> Observed:
        """Return the objects that belong to no RayCluster."""
        every = self.configurations
        return Observed([], [], configurations=every.asked(every.all))

    def occupied(self) -> set[str]:
        """Return the namespaces with RayClusters."""
        return {each.metadata.namespace or "" for each in self.clusters.all}

    def load(self, observed: Observed) -> None:
        """Add all objects of a snapshot."""
        _fill(self.clusters, observed.clusters)
        _fill(self.pods, observed.pods)
        _fill(self.pod_groups, observed.pod_groups)
        _fill(self.events, observed.events)
        _fill(self.services, observed.services)
        _fill(self.nodes, observed.nodes)
        _fill(self.namespaces, observed.namespaces)
        _fill(self.configurations, observed.configurations)

    def _cluster_changed(self, cluster: LiveCluster) -> None:
        self._mark([cluster.metadata.uid or ""])

    def _pod_changed(self, pod: LivePod) -> None:
        self._mark([owner_of(pod)])

    def _event_changed(self, event: LiveEvent) -> None:
        self._ends.pop(_namespace(event), None)
        self._all_in(_namespace(event))

    def _pod_group_changed(self, group: LivePodGroup) -> None:
        if self._examined:
            self._groups_changed.add(_place(group))

    def _service_changed(self, service: Named) -> None:
        if self._examined:
            self._services_changed.add(_place(service))

    def _namespace_changed(self, namespace: Named) -> None:
        self._all_in(_name(namespace))

    def _node_changed(self, node: Named) -> None:
        if self._examined:
            self._nodes_changed.add(_name(node))

    def _installation_changed(self, _configuration: WebhookConfiguration) -> None:
        self.installation = True
        self._mark(each.metadata.uid or "" for each in self.clusters.all)

    def _all_in(self, namespace: str) -> None:
        self._mark(each.metadata.uid or "" for each in self.clusters.of(namespace))

    def _mark(self, uids: Iterable[str]) -> None:
        if self._examined:
            self._changed.update(uids)


def owner_of(pod: LivePod) -> str:
    """Return the uid of the RayCluster that controls a pod; empty for any other pod."""
    owner = pod.controller
    return owner.uid if owner is not None and owner.kind == names.RAYCLUSTER_KIND else ""


def _fill(table: Table[T], values: Iterable[T] | None) -> None:
    for value in values or ():
        table.put(value.metadata.uid or "", value)
    table.known = values is not None


def _namespace(value: Live) -> str:
    return value.metadata.namespace or ""


def _place(value: Live) -> str:
    return f"{value.metadata.namespace or ''}/{value.metadata.name or ''}"


def _pod_group(pod: LivePod) -> str:
    """Return `namespace/name` of the PodGroup of a pod."""
    return f"{pod.metadata.namespace or ''}/{pod.pod_group}"


def _subdomain(pod: LivePod) -> str:
    """Return `namespace/name` of the Service that resolves host names of a pod and its peers."""
    return f"{pod.metadata.namespace or ''}/{pod.spec.subdomain or ''}"


def _service(cluster: LiveCluster) -> str:
    """Return `namespace/name` of the headless Service that KubeRay creates."""
    return f"{cluster.metadata.namespace or ''}/{headless_service(cluster.metadata.name or '')}"


def _name(value: Live) -> str:
    return value.metadata.name or ""


def _same(old: T, new: T) -> bool:
    """Return whether two versions of an object differ in `resourceVersion` only."""
    meta = structs.replace(new.metadata, resource_version=old.metadata.resource_version)
    return bool(structs.replace(new, metadata=meta) == old)  # type: ignore[type-var]  # a Struct
