"""The object cache of `status`, updated by watches."""

import asyncio
from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import Any, Final, TypeVar

from webhook.api import names
from webhook.cache import resources
from webhook.cache.informer import ListWatch, Resource
from webhook.cache.store import Store
from webhook.diagnostics.live_objects import LiveEvent, Named
from webhook.diagnostics.object_cache import Live, ObjectCache, Table
from webhook.kubeclient.client import Api
from webhook.kubeclient.discovery import Discovery, PodGroupsServed
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import Timing
from webhook.kubeclient.wire import decoded

T = TypeVar("T", bound=Live)

_NAMESPACE_SECONDS: Final = 60.0
"""Interval of reads of a namespace, if namespaces may not be listed."""
_DEADLINE: Final = 10.0

INSTALLATION: Final = ("podgroups", "nodes", "namespaces", resources.CONFIGURATION_PLURAL)
"""Kinds that diagnoses read in addition to RayClusters and pods, and that rarely change."""
ALL: Final = (*INSTALLATION, "events", "services")


class Observing:
    """Keeps an object cache up to date, for some namespaces, or for all if none are given:
    RayClusters and pods, and the kinds in `beside`.

    The accounts of an installation may list namespaces. A user, `person`, often may only get their
    namespace, so that it is read periodically.
    """

    def __init__(
        self,
        api: Api,
        world: ObjectCache,
        namespaces: Sequence[str] = (),
        timing: Timing | None = None,
        beside: Collection[str] = ALL,
        *,
        person: bool = False,
    ) -> None:
        self.api = api
        self.namespaces = namespaces or ("",)
        """The watched namespaces; an empty name stands for all of them."""
        self._world = world
        self._timing = timing or Timing()
        self._beside = beside
        self._person = person
        self._needed: list[ListWatch[Any]] = []
        self._watches: dict[str, list[ListWatch[Any]]] = {}
        self._unreadable: dict[str, str] = {}
        self.discovery = Discovery(PodGroupsServed(api), self._timing.discovery)
        for namespace in self.namespaces:
            self._follow(namespace)
        if "nodes" in beside:
            nodes = Resource("nodes", "", "/api/v1/nodes", resources.NAMED, metadata_only=True)
            self._watch("nodes", nodes, world.nodes)
        if (webhooks := resources.CONFIGURATION_PLURAL) in beside:
            every = Resource(webhooks, "", resources.CONFIGURATIONS, resources.CONFIGURATION)
            self._watch(webhooks, every, world.configurations)

    @property
    def synced(self) -> bool:
        """Return whether RayClusters and pods were listed."""
        return all(watch.synced for watch in self._needed)

    def has_listed(self, plural: str) -> bool:
        return all(watch.synced for watch in self._watches[plural])

    @property
    def listed(self) -> bool:
        """Return whether everything that can be read was listed."""
        return self.synced and all(watch.synced or watch.trouble for watch in self.watches)

    @property
    def trouble(self) -> str:
        """Return the failure reason of the watches of RayClusters and pods, or an empty text."""
        return next((watch.trouble for watch in self._needed if watch.trouble), "")

    @property
    def watches(self) -> list[ListWatch[Any]]:
        return [watch for found in self._watches.values() for watch in found]

    @property
    def unread(self) -> dict[str, str]:
        """Return the kinds that cannot be read, and why."""
        found = {
            name: watch.trouble
            for name, watches in self._watches.items()
            for watch in watches
            if watch.trouble and not watch.synced
        }
        return {**found, **self._unreadable}

    async def run(self) -> None:
        """Run the watches until cancelled. The client has to be open."""
        async with asyncio.TaskGroup() as group:
            for watch in self.watches:
                group.create_task(watch.run(), name=watch.name)
            for namespace in filter(None, self.namespaces if self._person else ()):
                group.create_task(self._read_namespace(namespace), name=f"namespace {namespace}")
            if "podgroups" in self._beside:
                group.create_task(self._follow_pod_groups(group), name="PodGroups")
            group.create_task(self.discovery.run(), name="discovery of PodGroups")

    def _follow(self, namespace: str) -> None:
        world = self._world
        clusters = resources.within(f"/apis/{names.RAY_GROUP}/v1", namespace, "rayclusters")
        self._needed += [
            self._watch(
                "rayclusters",
                Resource("rayclusters", namespace, clusters, resources.CLUSTER),
                world.clusters,
            ),
            self._watch(
                "pods",
                Resource(
                    "pods",
                    namespace,
                    resources.within("/api/v1", namespace, "pods"),
                    resources.POD,
                    selector=resources.PODS,
                ),
                world.pods,
            ),
        ]
        events = resources.within("/api/v1", namespace, "events")
        for reason in resources.REASONS if "events" in self._beside else ():
            chosen = Resource(
                f"events-{reason}", namespace, events, resources.EVENT, fields=f"reason={reason}"
            )
            self._watch("events", chosen, world.events, _of_reason(namespace, reason))
        if "services" in self._beside:
            path = resources.within("/api/v1", namespace, "services")
            services = Resource("services", namespace, path, resources.NAMED, metadata_only=True)
            self._watch("services", services, world.services)
        if "namespaces" in self._beside and not (namespace and self._person):
            found = Resource(
                "namespaces",
                namespace,
                "/api/v1/namespaces",
                resources.NAMED,
                fields=f"metadata.name={namespace}" if namespace else "",
                metadata_only=True,
            )
            self._watch("namespaces", found, world.namespaces, _named(namespace))

    def _watch(
        self,
        name: str,
        resource: Resource[T],
        table: Table[T],
        own: Callable[[T], bool] | None = None,
    ) -> ListWatch[T]:
        mirror = _Mirror(table, own or _within(resource.namespace))
        watch = ListWatch(self.api, resource, mirror, self._timing)
        self._watches.setdefault(name, []).append(watch)
        return watch

    async def _read_namespace(self, namespace: str) -> None:
        """Read a namespace periodically: accounts that may list its objects may not be allowed to
        list namespaces.
        """
        while True:
            try:
                body = await self.api.get(f"/api/v1/namespaces/{namespace}", (), _DEADLINE)
                found = decoded(body, Named, "a Namespace")
                self._world.namespaces.put(found.metadata.uid or "", found)
                self._world.namespaces.known = True
                self._unreadable.pop("namespaces", None)
            except ApiError as error:
                self._unreadable["namespaces"] = error.reason
            await asyncio.sleep(_NAMESPACE_SECONDS)

    async def _follow_pod_groups(self, group: asyncio.TaskGroup) -> None:
        """Watch PodGroups in the served version, if any."""
        served: asyncio.Queue[str | None] = asyncio.Queue()
        self.discovery.subscribe(served.put_nowait)
        table = self._world.pod_groups
        stores = {each: _Mirror(table, _within(each)) for each in self.namespaces}
        watching: list[asyncio.Task[None]] = []
        while True:
            version = await served.get()
            for task in watching:
                task.cancel()
            for store in stores.values():
                store.begin(0)
                store.end()
            table.known = False
            self._watches.pop("podgroups", None)
            for namespace, store in stores.items() if version is not None else ():
                root = f"/apis/{names.SCHEDULING_GROUP}/{version}"
                path = resources.within(root, namespace, "podgroups")
                resource = Resource("podgroups", namespace, path, resources.POD_GROUP)
                watch = ListWatch(self.api, resource, store, self._timing)
                self._watches.setdefault("podgroups", []).append(watch)
                watching.append(group.create_task(watch.run(), name=watch.name))


class _Mirror(Store[T, str, T]):
    """The objects of a list-watch, in a table."""

    def __init__(self, table: Table[T], own: Callable[[T], bool]) -> None:
        super().__init__(table, lambda value, _: value, lambda _: "", own)
        self._table = table

    def end(self, begun: float = -inf) -> int:
        self._table.known = True
        return super().end(begun)


def _within(namespace: str) -> Callable[[Live], bool]:
    return lambda value: namespace in ("", value.metadata.namespace)


def _named(name: str) -> Callable[[Live], bool]:
    return lambda value: name in ("", value.metadata.name)


def _of_reason(namespace: str, reason: str) -> Callable[[LiveEvent], bool]:
    return lambda event: event.reason == reason and namespace in ("", event.metadata.namespace)
