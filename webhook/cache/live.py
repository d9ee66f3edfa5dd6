"""The cluster state of the process that answers reviews: watches, live reads of objects that a
watch may not have delivered yet, and the age of the known state.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any, Final
from weakref import WeakValueDictionary

from msgspec import Struct

from webhook.api import names
from webhook.api.objects import RayCluster
from webhook.api.review import ClusterUnreadable
from webhook.cache.informer import ListWatch
from webhook.cache.serve_stores import PodStore, RayClusterStore, pods_in, rayclusters_in
from webhook.cache.store import number
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity import GroupKey, Key
from webhook.groups.identity_index import Membership
from webhook.groups.identity_labels import WorkerPod
from webhook.groups.required_reads import (
    SILENCE_SECONDS,
    Read,
    ReadCluster,
    ReadClusters,
    ReadGroup,
)
from webhook.kubeclient.client import Api
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import Clock, Timing
from webhook.kubeclient.wire import read_list

READ_SECONDS: Final = 3.0
"""Deadline of a live read. The API server's default timeout for a webhook is 10 s, and it retries a
503 within that time.
"""

_AT_ONCE: Final = 8
"""Concurrent reads per namespace: bounds the cost of reviews for RayClusters that do not exist,
without delaying reads of other namespaces.
"""

_PODS_AT_ONCE: Final = 128
"""Pods of a live read that are handled in 1 ms, while reviews wait. A RayCluster may take 4 ms."""


class Stores(Struct, frozen=True):
    """The stores of RayClusters and pods of a namespace."""

    pods: PodStore
    clusters: RayClusterStore


_UNWATCHED: Final = Stores(PodStore(Membership()), RayClusterStore(ClusterIndex()))
"""The stores of a namespace that is not watched: the API server was never contacted."""


class LiveReader:
    """Reads a RayCluster, or the pods of a group with it, into the stores.

    A read is a list: it needs no other permission than the watches do, and the response has a
    version, even if it is empty, so that older events of the watch can be recognised.
    """

    def __init__(
        self, api: Api, stores: Mapping[str, Stores], deadline: float = READ_SECONDS
    ) -> None:
        self._api = api
        self.now = api.server_time.now
        self._stores = stores
        self._deadline = deadline
        self._flights = Flights()
        self._limits: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self.reads = 0
        """Reads that were started."""
        self.failures = 0

    async def read(self, what: Read) -> None:
        """Read a RayCluster, a group with its RayCluster, or all RayClusters of a namespace;
        objects that do not exist are removed from the stores. Raises ClusterUnreadable.
        """
        match what:
            case ReadGroup(cluster, key):
                await self._join(what, key.namespace, partial(self._group, cluster, key))
            case ReadClusters(namespace):
                await self._join(what, namespace, partial(self._clusters, namespace))
            case ReadCluster(namespace, name):
                reading = partial(self._cluster, name, namespace)
                await self._join((namespace, name), namespace, reading)

    async def relist(self, key: Key, cluster: str) -> None:
        """Read the pods of a worker group, or the RayClusters of a shard group. Raises
        ClusterUnreadable.
        """
        if isinstance(key, GroupKey):
            await self._join(key, key.namespace, partial(self._pods, cluster, key))
        else:
            await self.read(ReadClusters(key.namespace))

    def contact(self, key: Key) -> float:
        """Return the server's time of the last contact with the API server about a group."""
        stores = self._stores_of(key.namespace)
        if isinstance(key, GroupKey):
            return stores.pods.contact(key)
        return stores.clusters.contact((key.namespace, ""))

    def listed(self, key: Key) -> float:
        """Return the server's time of the start of the newest complete list of a group."""
        stores = self._stores_of(key.namespace)
        if isinstance(key, GroupKey):
            return stores.pods.listed(key)
        return stores.clusters.listed((key.namespace, ""))

    def fresh(self, namespace: str, name: str) -> bool:
        """Return whether the known state of a RayCluster, or of all of a namespace if `name` is
        empty, is at most SILENCE_SECONDS old.
        """
        contact = self._stores_of(namespace).clusters.contact((namespace, name))
        # Before the first response there is no time, and then nothing is fresh.
        return -inf < self.now() - SILENCE_SECONDS <= contact

    async def close(self) -> None:
        """Cancel the reads in progress."""
        await self._flights.close()

    async def _join(
        self, key: Hashable, namespace: str, read: Callable[[Stores], Awaitable[None]]
    ) -> None:
        await self._flights.join(key, partial(self._within, namespace, read))

    async def _within(self, namespace: str, read: Callable[[Stores], Awaitable[None]]) -> None:
        stores = self._stores_of(namespace)
        if stores is _UNWATCHED:
            msg = (
                f"namespace {namespace} is not watched: add it to the namespaces, or exclude it "
                "from the webhook configuration"
            )
            raise ClusterUnreadable(msg)
        self.reads += 1
        limit = self._limits.setdefault(namespace, asyncio.Semaphore(_AT_ONCE))
        msg = f"the API server did not answer a live read within {self._deadline:g} s"
        try:
            # The deadline includes the wait for the limit: the review has no more time than that.
            async with self._api.timeout(self._deadline), limit:
                return await read(stores)
        except TimeoutError:
            pass
        except ApiError as error:
            msg = f"a live read failed: {error}"
        self.failures += 1
        raise ClusterUnreadable(msg)

    async def _group(self, cluster: str, key: GroupKey, stores: Stores) -> None:
        await self._pods(cluster, key, stores)
        await self._cluster(cluster, key.namespace, stores)

    async def _pods(self, cluster: str, key: GroupKey, stores: Stores) -> None:
        labels = f",{names.LABEL_CLUSTER}={cluster},{names.LABEL_GROUP}={key.group}"
        resource, begun = pods_in(key.namespace, labels), self.now()
        pods, version = await read_list(self._api, resource, self._deadline)
        steps = stores.pods.read(key, pods, number(version), begun)
        await _run_steps(steps, _PODS_AT_ONCE)

    async def _cluster(self, name: str, namespace: str, stores: Stores) -> None:
        resource, begun = rayclusters_in(namespace, name), self.now()
        clusters, version = await read_list(self._api, resource, self._deadline, partial=True)
        await _run_steps(stores.clusters.read((namespace, name), clusters, number(version), begun))

    async def _clusters(self, namespace: str, stores: Stores) -> None:
        resource, begun = rayclusters_in(namespace), self.now()
        clusters, version = await read_list(self._api, resource, self._deadline)
        await _run_steps(stores.clusters.read_all(namespace, clusters, number(version), begun))

    def _stores_of(self, namespace: str) -> Stores:
        return self._stores.get(namespace) or self._stores.get("", _UNWATCHED)


async def _run_steps(steps: Iterator[None], at_once: int = 1) -> None:
    """Run the steps of a live read. Other tasks run after each `at_once` of them."""
    for number_of_steps, _ in enumerate(steps, 1):
        if number_of_steps % at_once == 0:
            await asyncio.sleep(0)


class ClusterState:
    """Keeps the stores up to date with the cluster; without namespaces, for all of them."""

    def __init__(
        self,
        api: Api,
        clusters: ClusterIndex,
        members: Membership,
        namespaces: Sequence[str] = (),
        timing: Timing | None = None,
    ) -> None:
        time_source = Clock(server_time=api.server_time.now)
        self.stores = {
            namespace: Stores(PodStore(members, namespace), RayClusterStore(clusters))
            for namespace in namespaces or ("",)
        }
        self.pods: list[ListWatch[WorkerPod]] = [
            ListWatch(
                api, pods_in(namespace), store=stores.pods, timing=timing, time_source=time_source
            )
            for namespace, stores in self.stores.items()
        ]
        self.clusters: list[ListWatch[RayCluster]] = [
            ListWatch(
                api,
                rayclusters_in(namespace),
                store=stores.clusters,
                timing=timing,
                time_source=time_source,
            )
            for namespace, stores in self.stores.items()
        ]
        self.reader = LiveReader(api, self.stores)
        clusters.freshness = self.reader.fresh

    def pods_synced(self) -> bool:
        return all(watch.synced for watch in self.pods)

    def clusters_synced(self) -> bool:
        return all(watch.synced for watch in self.clusters)

    @property
    def watches(self) -> list[ListWatch[Any]]:
        return [*self.pods, *self.clusters]

    @property
    def malformed(self) -> int:
        """Return the number of worker pods with invalid identity labels."""
        return sum(stores.pods.malformed for stores in self.stores.values())

    async def run(self) -> None:
        """Watch the cluster until cancelled. The client has to be open."""
        try:
            async with asyncio.TaskGroup() as group:
                for watch in self.watches:
                    group.create_task(watch.run(), name=watch.name)
        finally:
            await self.reader.close()


class Flights:
    """Deduplicates work that several callers need at once.

    A caller joins only work that has not started: work in progress may have read a state from
    before the caller's reason. So for each key at most one run is in progress and one is queued,
    for any number of callers.
    """

    def __init__(self) -> None:
        self._queued: dict[Hashable, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()

    async def join(self, key: Hashable, work: Callable[[], Awaitable[None]]) -> None:
        """Return after `work` was run for this key, started after this call. Raises its
        exceptions.
        """
        task = self._queued.get(key)
        if task is None:
            task = self._queued[key] = asyncio.create_task(self._run(key, work))
            self._tasks.add(task)
            task.add_done_callback(self._done)
        # A caller that gives up must not cancel the read of the others.
        await asyncio.shield(task)

    async def close(self) -> None:
        """Cancel all work, and await its end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, key: Hashable, work: Callable[[], Awaitable[None]]) -> None:
        async with self._turns.setdefault(key, asyncio.Lock()):
            del self._queued[key]
            await work()

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # all callers may have been cancelled
