"""The world: every live object that the page is about, and which RayClusters have to be looked at
again.
"""

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
    """An object that lives."""

    @property
    def metadata(self) -> LiveMeta:
        """The metadata."""


T = TypeVar("T", bound=Live)
Handler = Callable[[T | None, T | None], None]
"""Receives a change: the object before and after, None where it did not or does not exist."""


class Table(Generic[T]):
    """Objects of one kind by uid, and by what `index` says of them.

    `changed` receives each object that is created, deleted, or differs from what it was; the latter
    twice, as it was and as it is. `transform` returns what is kept of an object.
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
        """Call `handler` for every change from now on."""
        self._handlers.append(handler)

    def put(self, uid: str, value: T) -> None:
        """Take in an object that came or changed."""
        value, old = self._transform(value), self._all.get(uid)
        if old is not None and _same(old, value):
            return
        if old is not None:
            self._forget(uid, old)
        self._all[uid] = value
        self._indexed.setdefault(self._index(value), {})[uid] = value
        self._notify(old, value)

    def remove(self, uid: str) -> None:
        """Take in that an object is gone."""
        old = self._all.get(uid)
        if old is not None:
            self._forget(uid, old)
            self._notify(old, None)

    def get(self, uid: str) -> T | None:
        """Return an object, if it is there."""
        return self._all.get(uid)

    def items(self) -> Iterable[tuple[str, T]]:
        """Return all objects with their uids."""
        return self._all.items()

    def of(self, key: str) -> Collection[T]:
        """Return the objects of which `index` says this."""
        return self._indexed.get(key, {}).values()

    @property
    def all(self) -> Collection[T]:
        """Every object."""
        return self._all.values()

    def asked(self, values: Collection[T]) -> list[T] | None:
        """Return objects; None when none of this kind were ever listed."""
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
    """All tables. From `begin` to `end`, `take_changed` returns the uids of RayClusters that may
    look different by now, and `installation` says that of what belongs to no RayCluster.

    With `ignoring`, RayClusters may be left alone by their label.
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
        """Note that changes are examined from now on: everything is new."""
        self._examined = True
        self.installation = True
        self._changed = {each.metadata.uid or "" for each in self.clusters.all}

    def end(self) -> None:
        """Note that changes are not examined any more: none is kept."""
        self._examined = False
        self.take_changed()

    def take_changed(self) -> set[str]:
        """Return the uids of the RayClusters that may look different since the call before."""
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
        """Return all that says something about a RayCluster: with `ends`, enough to examine it
        alone.
        """
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
        """Return when pods of the namespace of a RayCluster ended; it is sorted out once for all
        looks between two events.
        """
        namespace = cluster.metadata.namespace or ""
        if namespace not in self._ends:
            events = list(self.events.of(namespace))
            self._ends[namespace] = Ends(events, lambda uid: self.pods.get(uid) is not None)
        return self._ends[namespace]

    def beside(self) -> Observed:
        """Return what belongs to no RayCluster."""
        every = self.configurations
        return Observed([], [], configurations=every.asked(every.all))

    def occupied(self) -> set[str]:
        """Return the namespaces that have RayClusters."""
        return {each.metadata.namespace or "" for each in self.clusters.all}

    def load(self, observed: Observed) -> None:
        """Take in all that was read at once."""
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
    """Return the uid of the RayCluster that controls a pod; nothing for any other pod."""
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
    """Return the place of the PodGroup of a pod that has one."""
    return f"{pod.metadata.namespace or ''}/{pod.pod_group}"


def _subdomain(pod: LivePod) -> str:
    """Return the place of the service that resolves the names of a pod and its peers."""
    return f"{pod.metadata.namespace or ''}/{pod.spec.subdomain or ''}"


def _service(cluster: LiveCluster) -> str:
    """Return the place of the service that KubeRay creates for that."""
    return f"{cluster.metadata.namespace or ''}/{headless_service(cluster.metadata.name or '')}"


def _name(value: Live) -> str:
    return value.metadata.name or ""


def _same(old: T, new: T) -> bool:
    """Return whether an object has only another version: what we read of it is as it was."""
    meta = structs.replace(new.metadata, resource_version=old.metadata.resource_version)
    return bool(structs.replace(new, metadata=meta) == old)  # type: ignore[type-var]  # a Struct
