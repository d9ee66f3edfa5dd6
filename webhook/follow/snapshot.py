"""A snapshot: everything that `status` looks at, read once. What may not be read is left out, and named."""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from webhook.follow.client import Query
from webhook.follow.discovery import VERSIONS
from webhook.follow.errors import ApiError
from webhook.follow.wire import Codec, Event, Page, Watched
from webhook.kube import names
from webhook.status.objects import (
    LiveCluster,
    LiveEvent,
    LivePod,
    LivePodGroup,
    Named,
    WebhookConfiguration,
)
from webhook.status.observed import Observed

T = TypeVar("T", bound=Watched)
R = TypeVar("R")

SECONDS: Final = 30.0
"""Deadline of one page."""

PAGE_ITEMS: Final = 1000
PODS: Final = f"{names.LABEL_NODE_TYPE} in ({names.NODE_TYPE_HEAD},{names.NODE_TYPE_WORKER})"
REASONS: Final = ("FailedToCreateWorkerPod", "FailedToCreateHeadPod", "Killing")
"""Of the events, those that a diagnosis reads."""

_CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


class Reader(Protocol):
    """Who is asked."""

    async def get(self, path: str, query: Query, deadline: float, *, metadata_only: bool = False) -> bytes:
        """Return the body of a successful GET. Raises ApiError."""


def _codec(kind: type[T]) -> Codec[T]:
    # mypy takes no variable for a type; msgspec does.
    page: type[Page[T]] = Page[kind]  # type: ignore[valid-type]
    event: type[Event[T]] = Event[kind]  # type: ignore[valid-type]
    return Codec(msgspec.json.Decoder(kind), msgspec.json.Decoder(page), msgspec.json.Decoder(event))


_CLUSTERS: Final = _codec(LiveCluster)
_PODS: Final = _codec(LivePod)
_EVENTS: Final = _codec(LiveEvent)
_POD_GROUPS: Final = _codec(LivePodGroup)
_NAMED: Final = _codec(Named)
_WEBHOOKS: Final = _codec(WebhookConfiguration)


class Snapshot:
    """Reads one namespace, or all when it is empty. After `take`, `unread` says what could not be read, and why."""

    def __init__(self, reader: Reader, namespace: str) -> None:
        self.unread: dict[str, str] = {}
        self._reader = reader
        self._namespace = namespace

    async def take(self) -> Observed:
        """Return what there is. Raises ApiError when not even RayClusters and pods can be read."""
        (clusters, pods), beside = await asyncio.gather(
            asyncio.gather(
                self._list(_CLUSTERS, self._in("/apis/ray.io/v1", "rayclusters")),
                self._list(_PODS, self._in("/api/v1", "pods"), [("labelSelector", PODS)]),
            ),
            asyncio.gather(
                self._try("podgroups", self._pod_groups()),
                self._try("events", self._events()),
                self._try("services", self._list(_NAMED, self._in("/api/v1", "services"), metadata_only=True)),
                self._try("nodes", self._list(_NAMED, "/api/v1/nodes", metadata_only=True)),
                self._try("namespaces", self._namespaces()),
                self._try("mutatingwebhookconfigurations", self._list(_WEBHOOKS, _CONFIGURATIONS)),
            ),
        )
        return Observed(clusters, pods, *beside)

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
                return await self._list(_POD_GROUPS, self._in(f"/apis/{names.SCHEDULING_GROUP}/{version}", "podgroups"))
            except ApiError as error:
                if error.reason != "missing":
                    raise
        return None

    async def _events(self) -> list[LiveEvent]:
        path = self._in("/api/v1", "events")
        lists = [self._list(_EVENTS, path, [("fieldSelector", f"reason={reason}")]) for reason in REASONS]
        return [event for found in await asyncio.gather(*lists) for event in found]

    async def _namespaces(self) -> list[Named]:
        if not self._namespace:
            return await self._list(_NAMED, "/api/v1/namespaces", metadata_only=True)
        body = await self._reader.get(f"/api/v1/namespaces/{self._namespace}", (), SECONDS)
        return [msgspec.json.decode(body, type=Named)]

    def _in(self, root: str, plural: str) -> str:
        return f"{root}/namespaces/{self._namespace}/{plural}" if self._namespace else f"{root}/{plural}"

    async def _list(self, codec: Codec[T], path: str, selection: Query = (), *, metadata_only: bool = False) -> list[T]:
        """Return all objects of a list, page by page."""
        items: list[T] = []
        token: str | None = None
        while True:
            query = [("limit", str(PAGE_ITEMS)), *selection, *([("continue", token)] if token else ())]
            body = await self._reader.get(path, query, SECONDS, metadata_only=metadata_only)
            meta, page = codec.page(body)
            items += page
            token = meta.token
            if not token:
                return items
