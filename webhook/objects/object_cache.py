"""The object cache: all objects that reports are made of, and the RayClusters to examine again."""

import re
from collections.abc import Callable, Collection, Iterable
from typing import Final, Generic, Protocol, TypeVar

from msgspec import structs

from webhook.accelerators.devices import DEVICES, Devices
from webhook.accelerators.profiles import PROFILES, Profiles
from webhook.api import names
from webhook.api.objects import Bare, ObjectMeta
from webhook.groups.naming import headless_service, pod_prefix
from webhook.objects.live_objects import (
    EventObject,
    LiveCluster,
    LiveEvent,
    LiveJob,
    LiveNode,
    LivePod,
    LivePodGroup,
    LiveService,
    LiveWorkload,
    WebhookConfiguration,
    find,
)
from webhook.objects.readiness import ReadinessHistory, failing_since
from webhook.objects.transforms import (
    PodParts,
    compact_event,
    compact_job,
    compact_node,
    compact_object,
    compact_service,
)

PODS_WEBHOOK: Final = f"pods.{names.PREFIX.rstrip('/')}"
"""Name of the webhook of this program for pods, in each configuration."""
OPTIONAL_PODS_WEBHOOK: Final = f"optional-{PODS_WEBHOOK}"
"""Name of the one for pods that run without it, unless the first one is called for all."""

REFUSALS: Final = ("FailedToCreateWorkerPod", "FailedToCreateHeadPod")
"""Reasons of KubeRay's events for rejected pods.

https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/constant.go
"""
END: Final = "Killing"
"""Reason of kubelet's events for containers that it stops, as on deletion or eviction.

https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/events/event.go
"""
_PROBE: Final = re.compile(r"Container (\S+) failed (liveness|startup) probe")
"""kubelet's message for a container that it stops and starts again.

https://github.com/kubernetes/kubernetes/blob/master/pkg/kubelet/kuberuntime/kuberuntime_manager.go
"""
STARTS: Final = ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox")
"""Reasons of events for pods on a node whose containers cannot be started yet."""
PROBES: Final = "Unhealthy"
"""Reason of kubelet's events for probes that fail."""
EVENTS: Final = (*REFUSALS, END, *STARTS, PROBES)
"""Reasons of the events that are read."""
_EVENTS_MAX: Final = 10_000
"""Events of a namespace that are stored: everyone who works in one can create any number."""
OPEN_JOBS: Final = "open"
"""The key of RayJobs that are not complete."""
CORDONED: Final = "/cordoned"
"""The key of nodes that take no more pods."""
REPLICA_FAILURE: Final = "ReplicaFailure"
"""The condition of a RayCluster whose pod was rejected."""
_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
"""The label that every namespace has.

https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/#automatic-labelling
"""


class LiveObject(Protocol):
    """An object with metadata."""

    @property
    def metadata(self) -> ObjectMeta:
        """Its metadata."""


T = TypeVar("T", bound=LiveObject)
Handler = Callable[[str, T | None, T | None], None]
"""Receives a change: the uid, and the object before and after it; None before creation and after
deletion.
"""


class Table(Generic[T]):
    """Objects of one kind by uid, and by the keys that `index` returns.

    `changed` receives each created, deleted or modified object; a modified object twice, before and
    after the change. `transform` returns the object to store, and new objects are only stored if
    `has_room` returns true.
    """

    def __init__(
        self,
        index: Callable[[T], Iterable[str]],
        changed: Callable[[T], None],
        transform: Callable[[T], T] = lambda value: value,
        has_room: Callable[[T], bool] = lambda _: True,
    ) -> None:
        self.known = False
        """Whether they were ever listed."""
        self._index = index
        self._changed = changed
        self._transform = transform
        self._has_room = has_room
        self._handlers: list[Handler[T]] = []
        self._all: dict[str, T] = {}
        self._indexed: dict[str, dict[str, T]] = {}
        self.get = self._all.get
        self.items = self._all.items

    def subscribe(self, handler: Handler[T]) -> None:
        """Call `handler` for every later change."""
        self._handlers.append(handler)

    def load(self, values: Iterable[T] | None) -> None:
        """Add objects of a list; None stands for a kind that could not be read."""
        for value in values or ():
            self.put(value.metadata.uid or "", value)
        self.known = values is not None

    def clear(self) -> None:
        """Remove all objects, as of a kind that was never listed."""
        for uid in list(self._all):
            self.remove(uid)
        self.known = False

    def put(self, uid: str, value: T) -> None:
        """Add or replace an object."""
        value, old = self._transform(value), self._all.get(uid)
        # The API server sends every write of an object, also of fields that the transform removes.
        if not self._has_room(value) if old is None else _same(old, value):
            return
        if old is not None:
            self._discard(uid, old)
        self._all[uid] = value
        for key in self._index(value):
            self._indexed.setdefault(key, {})[uid] = value
        self._notify(uid, old, value)

    def remove(self, uid: str) -> None:
        """Remove an object, if it is known."""
        old = self._all.get(uid)
        if old is not None:
            self._discard(uid, old)
            self._notify(uid, old, None)

    def of(self, key: str) -> Collection[T]:
        """Return the objects with this key of `index`."""
        return self._indexed.get(key, {}).values()

    def one(self, key: str) -> T | None:
        """Return an object with this key of `index`, if there is one."""
        return next(iter(self.of(key)), None)

    @property
    def all(self) -> Collection[T]:
        return self._all.values()

    @property
    def listed(self) -> Collection[T] | None:
        """Return all objects; None if the kind was never listed."""
        return self.all if self.known else None

    def _discard(self, uid: str, old: T) -> None:
        del self._all[uid]
        for key in self._index(old):
            beside = self._indexed[key]
            del beside[uid]
            if not beside:
                del self._indexed[key]

    def _notify(self, uid: str, old: T | None, new: T | None) -> None:
        for value in (old, new):
            if value is not None:
                self._changed(value)
        for handle in self._handlers:
            handle(uid, old, new)


class ObjectCache:
    """The tables of all kinds. Between `begin` and `end`, `take_changed` returns the uids of
    RayClusters whose report may have changed, and `installation` is true if that of the
    installation may have.

    With `ignoring`, the `ignore` label of RayClusters is honoured. `devices` and `profiles` are
    those that pods can request.
    """

    def __init__(
        self, *, ignoring: bool = True, devices: Devices = DEVICES, profiles: Profiles = PROFILES
    ) -> None:
        self.ignoring, self.devices, self.profiles = ignoring, devices, profiles
        self.installation = True
        self._examined = False
        self._changed: set[str] = set()
        self._places: set[str] = set()
        """Changed nodes by name, changed PodGroups and Services by namespace and name, and changed
        RayJobs and RayServices by uid.
        """
        self._ends: set[str] = set()
        """Pods that have ended, by namespace and name."""
        self.clusters: Table[LiveCluster] = Table(
            _index_cluster, lambda cluster: self._mark([cluster.metadata.uid or ""])
        )
        self.pods: Table[LivePod] = Table(
            lambda pod: (uid_key(pod.metadata.namespace, owner_of(pod)),),
            lambda pod: self._mark([owner_of(pod)]),
            PodParts().compact_pod,
        )
        self.pod_groups: Table[LivePodGroup] = Table(_place, lambda each: self._touch(_place(each)))
        self.ray_jobs: Table[LiveJob] = Table(
            _index_job, lambda each: self._touch([each.metadata.uid or ""]), compact_job
        )
        self.ray_services: Table[LiveService] = Table(
            _namespace, lambda each: self._touch([each.metadata.uid or ""]), compact_service
        )
        self.workloads: Table[LiveWorkload] = Table(
            _index_owners, lambda each: self._mark(_owner_uids(each))
        )
        self.events: Table[LiveEvent] = Table(
            _index_event, self._event_changed, compact_event, self._has_room
        )
        self.services: Table[Bare] = Table(
            _place, lambda each: self._touch(_place(each)), compact_object
        )
        self.nodes: Table[LiveNode] = Table(
            _index_node, lambda each: self._touch(_name(each)), compact_node
        )
        self.nodes.subscribe(self._node_changed)
        self._pods_ready = ReadinessHistory()
        self.pods.subscribe(self._pod_changed)
        self._nodes_ready = ReadinessHistory()
        self.clusters.subscribe(self._cluster_changed)
        self.namespaces: Table[Bare] = Table(_name, self._namespace_changed)
        self.configurations: Table[WebhookConfiguration] = Table(_name, self._installation_changed)
        self.forecasts: dict[str, str] = {}
        """Why missing pods do not fit into quotas, by namespace and name of RayClusters."""

    def begin(self) -> None:
        """Start tracking changes; all RayClusters count as changed."""
        self._examined = True
        self.installation = True
        self._changed = set(dict(self.clusters.items()))

    def end(self) -> None:
        """Stop tracking changes."""
        self._examined = False
        self.take_changed()

    def take_changed(self) -> set[str]:
        """Return the uids of RayClusters whose report may have changed since the last call."""
        places, self._places = self._places, set()
        named, self._ends = places | self._ends, set()
        if places:
            self._mark(owner_of(pod) for pod in self.pods.all if not places.isdisjoint(_uses(pod)))
        if named:
            self._mark(
                cluster.metadata.uid or ""
                for cluster in self.clusters.all
                if not named.isdisjoint(_own_names(cluster))
            )
        changed, self._changed = self._changed, set()
        return changed

    def events_about(self, meta: ObjectMeta) -> Collection[LiveEvent]:
        """Return the events about an object, other than those of the end of a pod."""
        return self.events.of(uid_key(meta.namespace, meta.uid))

    def pods_of(self, cluster: LiveCluster) -> Collection[LivePod]:
        """Return the pods that a RayCluster controls."""
        return self.pods.of(uid_key(cluster.metadata.namespace, cluster.metadata.uid))

    def cluster_of(self, pod: LivePod) -> LiveCluster | None:
        """Return the RayCluster that controls a pod."""
        cluster = self.clusters.get(owner_of(pod))
        if cluster is None or cluster.metadata.namespace != pod.metadata.namespace:
            return None
        return cluster

    def pod_group(self, namespace: str, name: str) -> LivePodGroup | None:
        return self.pod_groups.one(f"{namespace}/{name}")

    def passed_by(self, namespace: str) -> str:
        """Return the configuration whose `namespaceSelector` excludes a namespace, so that the API
        server does not call this webhook for its pods; empty if it does, or if that is unknown.
        """
        live_namespace = self.namespaces.one(namespace)
        selectors = [
            (configuration.metadata.name or "", webhook.namespace_selector)
            for configuration in self.configurations.all
            for webhook in configuration.webhooks or ()
            if webhook.name == PODS_WEBHOOK
        ]
        if live_namespace is None or not selectors:
            return ""
        labels = {**(live_namespace.metadata.labels or {}), _NAMESPACE_NAME: namespace}
        is_selected = any(selector.selects(labels) for _, selector in selectors)
        return "" if is_selected else selectors[0][0]

    def ends(self, namespace: str, name: str) -> list[float]:
        """Return the sorted end times of deleted pods with this name, or with this `generateName`
        and a suffix of the API server. Each container of a pod may have an event.
        """
        ends: dict[str, float] = {}
        for event in self.events.of(f"{namespace}/{name}"):
            uid, time = event.involved_object.uid, event.last
            if self.pods.get(uid) is None:
                ends[uid] = max(time, ends.get(uid, time))
        return sorted(ends.values())

    def failed_probe(self, pod: LivePod) -> tuple[str, str]:
        """Return the container that kubelet last stopped because of a probe, and the kind of the
        probe; empty texts if there is none.
        """
        events = self.events.of(f"{pod.metadata.namespace}/{pod.name}")
        pod_events = [event for event in events if event.involved_object.uid == pod.metadata.uid]
        for event in sorted(pod_events, key=lambda each: each.last, reverse=True):
            if (match := _PROBE.match(event.message)) is not None:
                return match[1], match[2]
        return "", ""

    def unsteady_pod_since(self, pod: LivePod, now: float) -> float | None:
        """Return since when a pod has not been ready for a minute, although it was ready in
        between; None if neither changes that were received nor events show that.
        """
        meta, ready = pod.metadata, pod.condition("Ready")
        since = self._pods_ready.unsteady_since(meta.uid or "", ready, now)
        return failing_since(self.events_about(meta), ready, now) if since is None else since

    def unsteady_node_since(self, node: LiveNode, now: float) -> float | None:
        """Return the same for a node, by changes that were received."""
        return self._nodes_ready.unsteady_since(node.metadata.uid or "", node.readiness, now)

    def _has_room(self, event: LiveEvent) -> bool:
        return len(self.events.of(event.metadata.namespace or "")) < _EVENTS_MAX

    def _event_changed(self, event: LiveEvent) -> None:
        """Mark the RayCluster of a rejection or of a pod. The end of a pod counts once the pod is
        deleted.
        """
        pod = self.pods.get(event.involved_object.uid)
        if event.reason in REFUSALS:
            self._mark([event.involved_object.uid])
        elif event.reason != END:
            self._mark([owner_of(pod)] if pod is not None else [])
        elif self._examined and pod is None:
            self._ends.update(_subjects(event))

    def _cluster_changed(self, _uid: str, old: LiveCluster | None, new: LiveCluster | None) -> None:
        """Store a rejection that KubeRay's condition no longer has, as an event: KubeRay deletes an
        incomplete replica, which ends the condition, and creates it again.
        """
        failed = find(old.status.conditions, REPLICA_FAILURE) if old is not None else None
        if old is None or failed is None or not failed.is_true:
            return
        meta, uid = old.metadata, f"{REPLICA_FAILURE} {old.metadata.uid}"
        still = find(new.status.conditions, REPLICA_FAILURE) if new is not None else None
        if new is None:
            self.events.remove(uid)
        elif still is None or not still.is_true:
            about = EventObject(names.RAYCLUSTER_KIND, meta.name or "", meta.uid or "")
            at = failed.last_transition_time
            time = still.last_transition_time if still is not None else at
            place = ObjectMeta(name=uid, namespace=meta.namespace, uid=uid)
            reason = REFUSALS["Head" in failed.reason]
            self.events.put(
                uid,
                LiveEvent(
                    place,
                    about,
                    reason=reason,
                    message=failed.message,
                    first_timestamp=at,
                    last_timestamp=time,
                ),
            )

    def _pod_changed(self, uid: str, old: LivePod | None, new: LivePod | None) -> None:
        before = old.condition("Ready") if old is not None else None
        self._pods_ready.follow(uid, before, new.condition("Ready") if new is not None else None)

    def _node_changed(self, uid: str, old: LiveNode | None, new: LiveNode | None) -> None:
        before = old.readiness if old is not None else None
        self._nodes_ready.follow(uid, before, new.readiness if new is not None else None)

    def _namespace_changed(self, namespace: Bare) -> None:
        clusters = self.clusters.of(namespace.metadata.name or "")
        self._mark(cluster.metadata.uid or "" for cluster in clusters)

    def _installation_changed(self, _configuration: WebhookConfiguration) -> None:
        self.installation = True
        self._mark(dict(self.clusters.items()))

    def _mark(self, uids: Iterable[str]) -> None:
        if self._examined:
            self._changed.update(uids)

    def _touch(self, places: Iterable[str]) -> None:
        if self._examined:
            self._places.update(places)


def uid_key(namespace: str | None, uid: str | None) -> str:
    """Return the key of objects in a namespace that refer to a uid: anyone can create an object
    that refers to the uid of another namespace.
    """
    return f"{namespace or ''}/{uid or ''}"


def owner_of(pod: LivePod) -> str:
    """Return the uid of the RayCluster that controls a pod; empty for any other pod."""
    owner = pod.controller
    return owner.uid if owner is not None and owner.kind == names.RAYCLUSTER_KIND else ""


def _namespace(value: LiveObject) -> Iterable[str]:
    yield value.metadata.namespace or ""


def _index_cluster(value: LiveObject) -> Iterable[str]:
    yield value.metadata.namespace or ""
    yield from _index_owners(value)


def _index_job(job: LiveJob) -> Iterable[str]:
    """Yield `OPEN_JOBS` for a RayJob that is not complete: those are few, even if all are kept."""
    if job.status.job_deployment_status != "Complete":
        yield OPEN_JOBS


def _index_node(node: LiveNode) -> Iterable[str]:
    yield node.metadata.name or ""
    if node.spec.unschedulable:
        yield CORDONED


def _name(value: LiveObject) -> Iterable[str]:
    yield value.metadata.name or ""


def _place(value: LiveObject) -> Iterable[str]:
    yield f"{value.metadata.namespace or ''}/{value.metadata.name or ''}"


def _owner_uids(value: LiveObject) -> list[str]:
    """Return the uid of the controller, if there is one."""
    owner = value.metadata.controller
    return [] if owner is None else [owner.uid]


def _index_owners(value: LiveObject) -> Iterable[str]:
    return [uid_key(value.metadata.namespace, uid) for uid in _owner_uids(value)]


def _index_event(event: LiveEvent) -> Iterable[str]:
    yield event.metadata.namespace or ""
    yield from _subjects(event)


def _subjects(event: LiveEvent) -> Iterable[str]:
    """Yield the `uid_key` of the object that an event is about; for the end of a pod,
    `namespace/name`, and the same with its `generateName`.
    """
    about, namespace = event.involved_object, event.metadata.namespace or ""
    if event.reason == END:
        yield f"{namespace}/{about.name}"
        yield f"{namespace}/{''.join(about.name.rpartition('-')[:2])}"
    else:
        yield uid_key(namespace, about.uid)


def _uses(pod: LivePod) -> Iterable[str]:
    """Yield the node, PodGroup and Service of a pod, as in `_places`."""
    namespace = pod.metadata.namespace
    yield pod.spec.node_name or ""
    yield f"{namespace}/{pod.pod_group}"
    yield f"{namespace}/{pod.spec.subdomain}"


def _own_names(cluster: LiveCluster) -> Iterable[str]:
    """Yield the owner of a RayCluster, its headless Service, the `generateName` of all its pods,
    and the name that its head may have without a suffix, as in `_places` and `_ends`.
    """
    namespace, name = cluster.metadata.namespace or "", cluster.metadata.name or ""
    owner = cluster.metadata.controller
    if owner is not None:
        yield owner.uid
    yield f"{namespace}/{headless_service(name)}"
    yield f"{namespace}/{pod_prefix(name, None).removesuffix('-')}"
    for group in (None, *(worker_group.group_name for worker_group in cluster.groups)):
        yield f"{namespace}/{pod_prefix(name, group)}"


def _same(old: T, new: T) -> bool:
    """Return whether two versions of an object differ in `resourceVersion` only."""
    meta = structs.replace(new.metadata, resource_version=old.metadata.resource_version)
    return bool(structs.replace(new, metadata=meta) == old)  # type: ignore[type-var]  # a Struct
