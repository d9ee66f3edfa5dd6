"""A snapshot: everything that `status` looks at, read once. What may not be read is left out, and
named.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final, TypeVar

from webhook.follow import live
from webhook.follow.client import Api, Query
from webhook.follow.discovery import VERSIONS
from webhook.follow.errors import ApiError
from webhook.follow.wire import Codec, Watched, decoded, read_pages
from webhook.kube import names
from webhook.status.objects import LiveEvent, LivePodGroup, Named
from webhook.status.observed import Observed

T = TypeVar("T", bound=Watched)
R = TypeVar("R")

SECONDS: Final = 30.0
"""Deadline of one page."""

PAGE_ITEMS: Final = 1000


class Snapshot:
    """Reads one namespace, or all when it is empty. After `take`, `unread` says what could not be
    read, and why. With `ignoring`, RayClusters may be left alone by their label.
    """

    def __init__(self, reader: Api, namespace: str, *, ignoring: bool = True) -> None:
        self.unread: dict[str, str] = {}
        self._reader = reader
        self._namespace = namespace
        self._ignoring = ignoring

    async def take(self) -> Observed:
        """Return what there is. Raises ApiError when not even RayClusters and pods can be read."""
        (clusters, pods), beside = await asyncio.gather(
            asyncio.gather(
                self._list(live.CLUSTER, self._in("/apis/ray.io/v1", "rayclusters")),
                self._list(live.POD, self._in("/api/v1", "pods"), [("labelSelector", live.PODS)]),
            ),
            asyncio.gather(
                self._try("podgroups", self._pod_groups()),
                self._try("events", self._events()),
                self._try(
                    "services",
                    self._list(live.NAMED, self._in("/api/v1", "services"), metadata_only=True),
                ),
                self._try("nodes", self._list(live.NAMED, "/api/v1/nodes", metadata_only=True)),
                self._try("namespaces", self._namespaces()),
                self._try(
                    "mutatingwebhookconfigurations",
                    self._list(live.CONFIGURATION, live.CONFIGURATIONS),
                ),
            ),
        )
        return Observed(clusters, pods, *beside, ignoring=self._ignoring)

    async def probe(self) -> None:
        """Read one RayCluster and one pod. Raises ApiError when that is not possible."""
        one = ("limit", "1")
        await self._reader.get(self._in("/apis/ray.io/v1", "rayclusters"), [one], SECONDS)
        pods = [("labelSelector", live.PODS), one]
        await self._reader.get(self._in("/api/v1", "pods"), pods, SECONDS)

    async def _try(self, name: str, reading: Awaitable[R]) -> R | None:
        """Return what is read, or None, and note why."""
        try:
            return await reading
        except ApiError as error:
            self.unread[name] = error.reason if error.reason == "forbidden" else str(error)
            return None

    async def _pod_groups(self) -> Sequence[LivePodGroup] | None:
        """Return the PodGroups; None where they are not served, which is nothing to complain of."""
        for version in VERSIONS:
            try:
                return await self._list(
                    live.POD_GROUP,
                    self._in(f"/apis/{names.SCHEDULING_GROUP}/{version}", "podgroups"),
                )
            except ApiError as error:
                if error.reason != "missing":
                    raise
        return None

    async def _events(self) -> list[LiveEvent]:
        path = self._in("/api/v1", "events")
        lists = [
            self._list(live.EVENT, path, [("fieldSelector", f"reason={reason}")])
            for reason in live.REASONS
        ]
        return [event for found in await asyncio.gather(*lists) for event in found]

    async def _namespaces(self) -> list[Named]:
        if not self._namespace:
            return await self._list(live.NAMED, "/api/v1/namespaces", metadata_only=True)
        body = await self._reader.get(f"/api/v1/namespaces/{self._namespace}", (), SECONDS)
        return [decoded(body, Named, "a Namespace")]

    def _in(self, root: str, plural: str) -> str:
        return live.within(root, self._namespace, plural)

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
