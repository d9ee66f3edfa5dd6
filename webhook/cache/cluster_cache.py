"""The object cache of the controller, the dashboard and `status`, read from the API server: all
kinds in one table, listed once, and watched where changes are followed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from functools import partial
from math import inf
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct, structs

from webhook.api import names
from webhook.api.objects import (
    OBJECT_BYTES_MAX,
    RAYCLUSTER_BYTES_MAX,
    Bare,
    NamedOutline,
    RayClusterOutline,
)
from webhook.cache.informer import ListWatch
from webhook.cache.store import Store
from webhook.groups.identity_labels import WORKER_POD_BYTES_MAX
from webhook.kubeclient.client import Api, Query, decode_response
from webhook.kubeclient.discovery import Discovery, PodGroupsServed, Question, WorkloadsServed
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import Timing
from webhook.kubeclient.wire import Codec, Resource, path_of
from webhook.objects.live_objects import (
    LiveCluster,
    LiveEvent,
    LiveJob,
    LiveNode,
    LivePod,
    LivePodGroup,
    LiveService,
    LiveWorkload,
    WebhookConfiguration,
)
from webhook.objects.object_cache import EVENTS, LiveObject, ObjectCache, Table
from webhook.objects.outlines import JobOutline, LivePodOutline, ServiceOutline

T = TypeVar("T", bound=LiveObject)
V = TypeVar("V")

_NAMESPACE_SECONDS: Final = 60.0
"""Interval of reads of a namespace, if namespaces may not be listed."""
_USER_SECONDS: Final = 30.0
_RAY_PODS: Final = f"{names.LABEL_NODE_TYPE} in ({names.NODE_TYPE_HEAD},{names.NODE_TYPE_WORKER})"


class UserReads:
    """Reads on behalf of a user, who may lack rights. `unread` has the reasons of failures, by
    kind.
    """

    def __init__(self, api: Api) -> None:
        self.api = api
        self.unread: dict[str, str] = {}

    async def attempt(self, kind: str, reading: Awaitable[V]) -> V | None:
        """Return the result, or None after a failure."""
        try:
            return await reading
        except ApiError as error:
            self.unread[kind] = error.reason if error.reason == "forbidden" else str(error)
            return None

    async def get(self, path: str, query: Query = ()) -> dict[str, Any]:
        """Return a response. Raises ApiError."""
        return decode_response(await self.api.get(path, query, _USER_SECONDS), dict[str, Any])

    async def items(self, kind: str, path: str, query: Query = ()) -> list[Any] | None:
        response = await self.attempt(kind, self.get(path, query))
        return None if response is None else response.get("items") or []

    async def ready_endpoints(self, namespace: str, service: str) -> int | None:
        """Return the number of ready endpoints of a Service; one without that field is ready."""
        path = f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"
        selector = [("labelSelector", f"kubernetes.io/service-name={service}")]
        slices = await self.items("endpointslices", path, selector)
        if slices is None:
            return None
        endpoints = [
            endpoint
            for endpoint_slice in slices
            for endpoint in endpoint_slice.get("endpoints") or ()
        ]
        return sum(
            (endpoint.get("conditions") or {}).get("ready") is not False for endpoint in endpoints
        )


class Kind(Struct, Generic[T], frozen=True):
    """A kind: its plural, the root of its path, its codec and its table. Of Events, those with one
    of the `reasons` are read.
    """

    plural: str
    root: str
    codec: Codec[T]
    table: Callable[[ObjectCache], Table[T]]
    query: Query = ()
    reasons: tuple[str, ...] = ("",)
    metadata_only: bool = False
    namespaced: bool = True


_NAMED: Final = Codec(Bare, NamedOutline, OBJECT_BYTES_MAX)
RAYCLUSTERS: Final = Kind(
    "rayclusters",
    f"/apis/{names.RAY_GROUP}/v1",
    Codec(LiveCluster, RayClusterOutline, RAYCLUSTER_BYTES_MAX),
    lambda each: each.clusters,
)
PODS: Final = Kind(
    "pods",
    "/api/v1",
    codec=Codec(LivePod, LivePodOutline, WORKER_POD_BYTES_MAX),
    table=lambda each: each.pods,
    query=[("labelSelector", _RAY_PODS)],
)
OTHERS: Final[tuple[Kind[Any], ...]] = (
    Kind(
        "events",
        "/api/v1",
        Codec(LiveEvent, limit=OBJECT_BYTES_MAX),
        lambda each: each.events,
        reasons=EVENTS,
    ),
    Kind("services", "/api/v1", _NAMED, lambda each: each.services, metadata_only=True),
    Kind(
        "nodes",
        "/api/v1",
        Codec(LiveNode, limit=OBJECT_BYTES_MAX),
        lambda each: each.nodes,
        namespaced=False,
    ),
    Kind(
        "rayjobs",
        RAYCLUSTERS.root,
        Codec(LiveJob, JobOutline, OBJECT_BYTES_MAX),
        lambda each: each.ray_jobs,
    ),
    Kind(
        "rayservices",
        RAYCLUSTERS.root,
        Codec(LiveService, ServiceOutline, OBJECT_BYTES_MAX),
        lambda each: each.ray_services,
    ),
    Kind(
        "namespaces",
        "/api/v1",
        Codec(Bare, limit=OBJECT_BYTES_MAX),
        lambda each: each.namespaces,
        metadata_only=True,
        namespaced=False,
    ),
    Kind(
        "mutatingwebhookconfigurations",
        "/apis/admissionregistration.k8s.io/v1",
        Codec(WebhookConfiguration, limit=OBJECT_BYTES_MAX),
        lambda each: each.configurations,
        namespaced=False,
    ),
)
POD_GROUPS: Final = Kind(
    "podgroups",
    f"/apis/{names.SCHEDULING_GROUP}",
    Codec(LivePodGroup, NamedOutline, OBJECT_BYTES_MAX),
    lambda each: each.pod_groups,
)
WORKLOADS: Final = Kind(
    "workloads",
    f"/apis/{names.KUEUE_GROUP}",
    Codec(LiveWorkload, limit=OBJECT_BYTES_MAX),
    lambda each: each.workloads,
)
"""Like PodGroups, of a version that depends on the API server, which the root lacks."""

REPORTED: Final = (
    POD_GROUPS.plural,
    "nodes",
    "namespaces",
    "mutatingwebhookconfigurations",
    "services",
    "rayjobs",
    "rayservices",
)
"""Kinds that errors are about in addition to RayClusters and pods."""
ALL: Final = (*REPORTED, "events")


class Observing:
    """Fills an object cache, for some namespaces, or for all if none are given: with RayClusters
    and pods, and the kinds in `other_kinds`; once with `read`, and from then on with `run`.

    The accounts of an installation may list namespaces. A user, `person`, often may only get their
    namespace, so that it is read periodically; Workloads are read for users only.
    """

    def __init__(
        self,
        api: Api,
        object_cache: ObjectCache,
        namespaces: Sequence[str] = (),
        timing: Timing | None = None,
        other_kinds: Collection[str] = ALL,
        *,
        person: bool = False,
    ) -> None:
        self.api = api
        self.namespaces = namespaces or ("",)
        """The watched namespaces; an empty name stands for all of them."""
        self._object_cache = object_cache
        self._timing = timing or Timing()
        self._other_kinds = other_kinds
        self._gets = [
            namespace_name for namespace_name in self.namespaces if namespace_name and person
        ]
        self._watches: dict[str, list[ListWatch[Any]]] = {}
        self._reads = UserReads(api)
        self._person = person
        self._served: dict[str, str] = {}
        """The versions of the kinds whose version depends on the API server."""
        self.discovery = Discovery(PodGroupsServed(api), self._timing.discovery)
        followed: list[Kind[Any]] = [RAYCLUSTERS, PODS]
        for kind in followed + [kind for kind in OTHERS if kind.plural in other_kinds]:
            if kind.namespaced:
                for namespace in self.namespaces:
                    for reason in kind.reasons:
                        self._follow(kind, namespace, f"reason={reason}" if reason else "")
            elif kind.plural != "namespaces":
                self._follow(kind)
            else:
                for name in self.namespaces if not self._gets else ():
                    self._follow(kind, name, f"metadata.name={name}" if name else "")
        self._needed = [*self._watches["rayclusters"], *self._watches["pods"]]

    @property
    def synced(self) -> bool:
        """Return whether RayClusters and pods were listed."""
        return all(watch.synced for watch in self._needed)

    def has_listed(self, plural: str) -> bool:
        return all(watch.synced for watch in self._watches[plural])

    @property
    def listed(self) -> bool:
        """Return whether everything that can be read was listed."""
        return self.synced and all(watch.synced or watch.problem for watch in self.watches)

    @property
    def problem(self) -> str:
        """Return the failure reason of the watches of RayClusters and pods, or an empty text."""
        return next((watch.problem for watch in self._needed if watch.problem), "")

    @property
    def watches(self) -> list[ListWatch[Any]]:
        return [watch for kind_watches in self._watches.values() for watch in kind_watches]

    @property
    def unread(self) -> dict[str, str]:
        """Return the kinds that cannot be read, and why."""
        problems = {
            name: watch.problem
            for name, watches in self._watches.items()
            for watch in watches
            if watch.problem and not watch.synced
        }
        return {**problems, **self._reads.unread}

    async def read(self) -> None:
        """List all kinds once. Raises ApiError if RayClusters or pods cannot be read."""
        attempts = [
            self._reads.attempt(name, watch.list())
            for name, watches in self._watches.items()
            for watch in watches
            if watch not in self._needed
        ]
        attempts += [
            self._reads.attempt("namespaces", self._get_namespace(namespace))
            for namespace in self._gets
        ]
        attempts += [
            self._reads.attempt(kind.plural, self._list_served(kind, question))
            for kind, question in self._questions()
        ]
        await asyncio.gather(*(watch.list() for watch in self._needed), *attempts)

    async def run(self) -> None:
        """Run the watches until cancelled. The client has to be open."""
        self._reads.unread.clear()
        async with asyncio.TaskGroup() as group:
            running: dict[ListWatch[Any], asyncio.Task[None]] = {}

            def update() -> None:
                """Run the current watches, and no others."""
                watches = self.watches
                for watch in running.keys() - watches:
                    running.pop(watch).cancel()
                for watch in watches:
                    if watch not in running:
                        running[watch] = group.create_task(watch.run(), name=watch.name)

            def serve(kind: Kind[Any], version: str | None) -> None:
                self._serve(kind, version)
                update()

            update()
            for namespace in self._gets:
                group.create_task(self._poll_namespace(namespace), name=f"namespace {namespace}")
            if POD_GROUPS.plural in self._other_kinds:
                self.discovery.subscribe(partial(serve, POD_GROUPS))
            if self._person:
                workloads = Discovery(WorkloadsServed(self.api), self._timing.discovery)
                workloads.subscribe(partial(serve, WORKLOADS))
                group.create_task(workloads.run(), name="discovery of Workloads")
            group.create_task(self.discovery.run(), name="discovery of PodGroups")

    def _follow(self, kind: Kind[T], scope: str = "", fields: str = "") -> None:
        table, by_name = kind.table(self._object_cache), kind.plural == "namespaces"
        path = path_of(kind.root, scope if kind.namespaced else "", kind.plural)
        reason = fields.removeprefix("reason=") if kind.plural == "events" else ""

        def own(value: T) -> bool:
            meta = value.metadata
            if scope not in ("", meta.name if by_name else meta.namespace):
                return False
            return not reason or getattr(value, "reason", "") == reason

        query = [*kind.query, *([("fieldSelector", fields)] if fields else ())]
        name = f"{kind.plural}-{reason}" if reason else kind.plural
        resource = Resource(
            name, scope, path=path, codec=kind.codec, query=query, metadata_only=kind.metadata_only
        )
        watch = ListWatch(self.api, resource, _StoreAdapter(table, own), self._timing)
        self._watches.setdefault(kind.plural, []).append(watch)

    async def _get_namespace(self, name: str) -> None:
        namespace = await self.api.read(f"/api/v1/namespaces/{name}", Bare)
        self._object_cache.namespaces.load([namespace])
        self._reads.unread.pop("namespaces", None)

    async def _poll_namespace(self, name: str) -> None:
        while True:
            await self._reads.attempt("namespaces", self._get_namespace(name))
            await asyncio.sleep(_NAMESPACE_SECONDS)

    def _questions(self) -> Iterator[tuple[Kind[Any], Question[str]]]:
        """Yield the kinds to read whose version depends on the API server."""
        if POD_GROUPS.plural in self._other_kinds:
            yield POD_GROUPS, PodGroupsServed(self.api)
        if self._person:
            yield WORKLOADS, WorkloadsServed(self.api)

    async def _list_served(self, kind: Kind[Any], question: Question[str]) -> None:
        self._serve(kind, await question.ask())
        await asyncio.gather(*(watch.list() for watch in self._watches.get(kind.plural, ())))

    def _serve(self, kind: Kind[Any], version: str | None) -> None:
        """Replace the list-watches of a kind, if another version is served than before."""
        if version == self._served.get(kind.plural):
            return
        self._watches.pop(kind.plural, None)
        kind.table(self._object_cache).clear()
        if version is None:
            del self._served[kind.plural]
            return
        self._served[kind.plural] = version
        for namespace in self.namespaces:
            self._follow(structs.replace(kind, root=f"{kind.root}/{version}"), namespace)


class _StoreAdapter(Store[T, str, T]):
    """The objects of a list-watch, in a table."""

    def __init__(self, table: Table[T], own: Callable[[T], bool]) -> None:
        super().__init__(table, lambda value, _: value, lambda _: "", own)
        self._table = table

    def end(self, begun: float = -inf) -> int:
        self._table.known = True
        return super().end(begun)


async def read_cluster(
    api: Api, namespace: str, *, ignoring: bool = True
) -> tuple[ObjectCache, dict[str, str]]:
    """Return the objects of a namespace, or of all if it is empty, as a user may read them, and the
    kinds that cannot be read with the reason. Raises ApiError if RayClusters or pods cannot be
    read.
    """
    objects = ObjectCache(ignoring=ignoring)
    observing = Observing(api, objects, [namespace] if namespace else [], person=True)
    await observing.read()
    return objects, observing.unread


async def probe(api: Api, namespace: str) -> None:
    """Read a RayCluster and a pod. Raises ApiError if that is not possible."""
    for kind in (RAYCLUSTERS, PODS):
        path = path_of(kind.root, namespace, kind.plural)
        await api.get(path, [*kind.query, ("limit", "1")], _USER_SECONDS)
