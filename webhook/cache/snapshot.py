"""A snapshot of the cluster state of `status`, read once. Kinds without permission are omitted, and
reported.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final, TypeVar

from webhook.api import names
from webhook.cache import resources
from webhook.diagnostics.live_objects import LiveEvent, LivePodGroup, Named
from webhook.diagnostics.observation import Observed
from webhook.kubeclient.client import Api, Query
from webhook.kubeclient.discovery import VERSIONS
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.wire import (
    Codec,
    Watched,
    decoded,
    read_pages,
)

T = TypeVar("T", bound=Watched)
R = TypeVar("R")

SECONDS: Final = 30.0
"""Deadline of a page."""

PAGE_ITEMS: Final = 1000


class Snapshot:
    """Reads a namespace, or all if it is empty. After `take`, `unread` contains the kinds that
    could not be read, and why. With `ignoring`, the `ignore` label of RayClusters is honoured.
    """

    def __init__(self, reader: Api, namespace: str, *, ignoring: bool = True) -> None:
        self.unread: dict[str, str] = {}
        self._reader = reader
        self._namespace = namespace
        self._ignoring = ignoring

    async def take(self) -> Observed:
        """Return the observed objects. Raises ApiError if RayClusters or pods cannot be read."""
        (clusters, pods), beside = await asyncio.gather(
            asyncio.gather(
                self._list(resources.CLUSTER, self._in("/apis/ray.io/v1", "rayclusters")),
                self._list(
                    resources.POD, self._in("/api/v1", "pods"), [("labelSelector", resources.PODS)]
                ),
            ),
            asyncio.gather(
                self._try("podgroups", self._pod_groups()),
                self._try("events", self._events()),
                self._try(
                    "services",
                    self._list(
                        resources.NAMED, self._in("/api/v1", "services"), metadata_only=True
                    ),
                ),
                self._try(
                    "nodes", self._list(resources.NAMED, "/api/v1/nodes", metadata_only=True)
                ),
                self._try("namespaces", self._namespaces()),
                self._try(
                    "mutatingwebhookconfigurations",
                    self._list(resources.CONFIGURATION, resources.CONFIGURATIONS),
                ),
            ),
        )
        return Observed(clusters, pods, *beside, ignoring=self._ignoring)

    async def probe(self) -> None:
        """Read a RayCluster and a pod. Raises ApiError if that is not possible."""
        one = ("limit", "1")
        await self._reader.get(self._in("/apis/ray.io/v1", "rayclusters"), [one], SECONDS)
        pods = [("labelSelector", resources.PODS), one]
        await self._reader.get(self._in("/api/v1", "pods"), pods, SECONDS)

    async def _try(self, name: str, reading: Awaitable[R]) -> R | None:
        """Return the result of a read, or None after recording the error."""
        try:
            return await reading
        except ApiError as error:
            self.unread[name] = error.reason if error.reason == "forbidden" else str(error)
            return None

    async def _pod_groups(self) -> Sequence[LivePodGroup] | None:
        """Return the PodGroups; None if they are not served, which is not an error."""
        for version in VERSIONS:
            try:
                return await self._list(
                    resources.POD_GROUP,
                    self._in(f"/apis/{names.SCHEDULING_GROUP}/{version}", "podgroups"),
                )
            except ApiError as error:
                if error.reason != "missing":
                    raise
        return None

    async def _events(self) -> list[LiveEvent]:
        path = self._in("/api/v1", "events")
        lists = [
            self._list(resources.EVENT, path, [("fieldSelector", f"reason={reason}")])
            for reason in resources.REASONS
        ]
        return [event for found in await asyncio.gather(*lists) for event in found]

    async def _namespaces(self) -> list[Named]:
        if not self._namespace:
            return await self._list(resources.NAMED, "/api/v1/namespaces", metadata_only=True)
        body = await self._reader.get(f"/api/v1/namespaces/{self._namespace}", (), SECONDS)
        return [decoded(body, Named, "a Namespace")]

    def _in(self, root: str, plural: str) -> str:
        return resources.within(root, self._namespace, plural)

    async def _list(
        self, codec: Codec[T], path: str, selection: Query = (), *, metadata_only: bool = False
    ) -> list[T]:
        """Return all objects of a list, page by page."""
        found, _ = await read_pages(
            lambda page: self._reader.get(path, page, SECONDS, metadata_only=metadata_only),
            codec.page,
            selection,
            PAGE_ITEMS,
        )
        return found
