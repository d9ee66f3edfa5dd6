"""Live reads of objects that the watch may not have delivered yet, and the age of the known
state.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from math import inf
from time import monotonic
from typing import Final, TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct

from webhook.api import names
from webhook.api.review import ClusterUnreadable
from webhook.cache.serve_stores import PodStore, RayClusterStore, pods_in, rayclusters_in
from webhook.groups.identity import GroupKey, Key
from webhook.groups.required_reads import SILENCE_SECONDS, Read, ReadClusters, ReadGroup
from webhook.kubeclient.client import Api, Query
from webhook.kubeclient.errors import ApiError, Garbled
from webhook.kubeclient.wire import Codec, ListMeta, Watched, number, read_pages

READ_SECONDS: Final = 3.0
"""Deadline of a live read. The API server's default timeout for a webhook is 10 s, and it retries a
503 within that time.
"""

_AT_ONCE: Final = 8
"""Concurrent reads per namespace: bounds the cost of reviews for RayClusters that do not exist,
without delaying reads of other namespaces.
"""

_AGAIN_SECONDS: Final = 1.0
"""Between two reads of a RayCluster; callers in between share the second read."""

_MEMOIZED: Final = 1024

_PAGE_ITEMS: Final = 500

T = TypeVar("T", bound=Watched)


class Stores(Struct, frozen=True):
    """The stores of RayClusters and pods of a namespace."""

    pods: PodStore
    clusters: RayClusterStore


class LiveReader:
    """Reads a RayCluster, or the pods of a group with it, into the stores.

    A read is a list: it needs no other permission than the watches do, and the response has a
    version, even if it is empty, so that older events of the watch can be recognised.
    """

    def __init__(
        self, api: Api, stores: Mapping[str, Stores], deadline: float = READ_SECONDS
    ) -> None:
        self._api = api
        self._server_time = api.server_time.now
        self._feeds = stores
        self._deadline = deadline
        self._flights = Flights()
        self._limits: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self._begun: dict[tuple[str, str], float] = {}
        self.reads = 0
        """Reads that were started."""
        self.failures = 0

    async def read(self, what: Read) -> None:
        """Read a RayCluster, a group with its RayCluster, or all RayClusters of a namespace;
        objects that do not exist are removed from the stores. Raises ClusterUnreadable.
        """
        if isinstance(what, ReadGroup):
            await self._flights.join(
                what.key,
                lambda: self._within(
                    what.key.namespace, lambda: self._group(what.cluster, what.key)
                ),
            )
        elif isinstance(what, ReadClusters):
            await self._read_clusters(what.namespace)
        else:
            namespace, name = what.namespace, what.name
            await self._flights.join((namespace, name), lambda: self._paced(namespace, name))

    async def _paced(self, namespace: str, name: str) -> None:
        """Read a RayCluster, with a delay after its previous read."""
        key = namespace, name
        wait = self._begun.get(key, -_AGAIN_SECONDS) + _AGAIN_SECONDS - monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
        if len(self._begun) >= _MEMOIZED:
            self._begun = {
                each: begun
                for each, begun in self._begun.items()
                if begun + _AGAIN_SECONDS > monotonic()
            }
        self._begun[key] = monotonic()
        await self._within(namespace, lambda: self._cluster(namespace, name))

    async def relist(self, key: Key, cluster: str) -> None:
        """Read the pods of a worker group, or the RayClusters of a shard group. Raises
        ClusterUnreadable.
        """
        if isinstance(key, GroupKey):
            await self._flights.join(
                (key, "pods"), lambda: self._within(key.namespace, lambda: self._pods(cluster, key))
            )
        else:
            await self._read_clusters(key.namespace)

    def contact(self, key: Key) -> float:
        """Return the server's time of the last contact with the API server about a group."""
        stores = self._feeds_of(key.namespace)
        if stores is None:
            return -inf
        if isinstance(key, GroupKey):
            return stores.pods.contact(key)
        return stores.clusters.contact((key.namespace, ""))

    def listed(self, key: Key) -> float:
        """Return the server's time of the start of the newest complete list of a group."""
        stores = self._feeds_of(key.namespace)
        if stores is None:
            return -inf
        if isinstance(key, GroupKey):
            return stores.pods.listed(key)
        return stores.clusters.listed((key.namespace, ""))

    def fresh(self, namespace: str, name: str) -> bool:
        """Return whether the known state of a RayCluster, or of all of a namespace if `name` is
        empty, is at most SILENCE_SECONDS old.
        """
        stores = self._feeds_of(namespace)
        if stores is None:
            return False
        oldest = self._server_time() - SILENCE_SECONDS
        return -inf < oldest <= stores.clusters.contact((namespace, name))

    async def _read_clusters(self, namespace: str) -> None:
        await self._flights.join(
            namespace, lambda: self._within(namespace, lambda: self._clusters(namespace))
        )

    async def close(self) -> None:
        """Cancel the reads in progress."""
        await self._flights.close()

    async def _within(self, namespace: str, read: Callable[[], Awaitable[None]]) -> None:
        self.reads += 1
        limit = self._limits.setdefault(namespace, asyncio.Semaphore(_AT_ONCE))
        try:
            async with asyncio.timeout(self._deadline), limit:
                await _when_asked(read, monotonic() + self._deadline)
        except TimeoutError as error:
            self.failures += 1
            msg = f"the API server did not answer a live read within {self._deadline:g} s"
            raise ClusterUnreadable(msg) from error
        except ApiError as error:
            self.failures += 1
            msg = f"a live read failed: {error}"
            raise ClusterUnreadable(msg) from error

    async def _cluster(self, namespace: str, name: str) -> None:
        stores = self._of(namespace)
        resource = rayclusters_in(namespace)
        begun = self._server_time()
        clusters, version = await self._all(
            resource.path, [("fieldSelector", f"metadata.name={name}")], resource.codec
        )
        stores.clusters.read((namespace, name), clusters, version, begun)

    async def _clusters(self, namespace: str) -> None:
        stores = self._of(namespace)
        resource = rayclusters_in(namespace)
        begun = self._server_time()
        clusters, version = await self._all(resource.path, [], resource.codec, absent=False)
        stores.clusters.read_all(namespace, clusters, version, begun)

    async def _group(self, name: str, key: GroupKey) -> None:
        await self._pods(name, key)
        await self._cluster(key.namespace, name)

    async def _pods(self, name: str, key: GroupKey) -> None:
        stores = self._of(key.namespace)
        resource = pods_in(key.namespace)
        selector = (
            f"{resource.selector},{names.LABEL_CLUSTER}={name},{names.LABEL_GROUP}={key.group}"
        )
        begun = self._server_time()
        pods, version = await self._all(
            resource.path, [("labelSelector", selector)], resource.codec, absent=False
        )
        stores.pods.read(key, pods, version, begun)

    async def _all(
        self, path: str, query: Query, codec: Codec[T], *, absent: bool = True
    ) -> tuple[list[T], int]:
        """Return all matching objects, and the version of the list. With `absent`, objects that
        cannot be decoded count as absent; otherwise, they are an error.
        """
        found, version = await read_pages(
            lambda page: self._api.get(path, page, self._deadline),
            codec.page if absent else _complete(codec),
            query,
            _PAGE_ITEMS,
        )
        return found, number(version)

    def _feeds_of(self, namespace: str) -> Stores | None:
        return self._feeds.get(namespace) or self._feeds.get("")

    def _of(self, namespace: str) -> Stores:
        stores = self._feeds_of(namespace)
        if stores is None:
            msg = (
                f"namespace {namespace} is not watched: add it to the namespaces, or exclude it "
                "from the webhook configuration"
            )
            raise ClusterUnreadable(msg)
        return stores


async def _when_asked(read: Callable[[], Awaitable[None]], deadline: float) -> None:
    """Read, and retry after a `Retry-After`: after a restart the API server lists custom resources
    about a second later than it answers. Raises ApiError if that exceeds the deadline.
    """
    while True:
        try:
            return await read()
        except ApiError as error:
            if error.retry_after is None or monotonic() + error.retry_after >= deadline:
                raise
            await asyncio.sleep(error.retry_after)


def _complete(codec: Codec[T]) -> Callable[[bytes], tuple[ListMeta, list[T]]]:
    def read(body: bytes) -> tuple[ListMeta, list[T]]:
        meta, items = codec.page(body)
        if meta.unreadable:
            text = f"{len(meta.unreadable)} objects of a list are not of the expected shape"
            raise Garbled("garbled", text)
        return meta, items

    return read


class _Flight(Struct, eq=False):
    task: "asyncio.Task[None]"
    begun: bool = False


class Flights:
    """Deduplicates work that several callers need at once.

    A caller joins only work that has not started: work in progress may have read a state from
    before the caller's reason. So for each key at most one run is in progress and one is queued,
    for any number of callers.
    """

    def __init__(self) -> None:
        self._latest: dict[Hashable, _Flight] = {}

    async def join(self, key: Hashable, work: Callable[[], Awaitable[None]]) -> None:
        """Return after `work` was run for this key, started after this call. Raises its
        exceptions.
        """
        latest = self._latest.get(key)
        if latest is None or latest.begun:
            latest = self._depart(key, work, latest)
        await asyncio.shield(latest.task)

    async def close(self) -> None:
        """Cancel all work, and await its end."""
        tasks = [flight.task for flight in self._latest.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _depart(
        self, key: Hashable, work: Callable[[], Awaitable[None]], previous: _Flight | None
    ) -> _Flight:
        async def fly() -> None:
            if previous is not None:
                await asyncio.wait([previous.task])
            flight.begun = True
            await work()

        def landed(task: "asyncio.Task[None]") -> None:
            if self._latest.get(key) is flight:
                del self._latest[key]
            if not task.cancelled():
                task.exception()  # all callers may have been cancelled

        flight = self._latest[key] = _Flight(asyncio.create_task(fly()))
        flight.task.add_done_callback(landed)
        return flight
