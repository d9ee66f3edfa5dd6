"""The cluster as the webhook follows it: one connection, the feeds of each namespace, and live
reads.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from webhook.follow.access import Load
from webhook.follow.client import Api
from webhook.follow.listwatch import ListWatch
from webhook.follow.pods import PodFeed, WorkerPod, pods_in
from webhook.follow.rayclusters import LiveRayCluster, RayClusterFeed, rayclusters_in
from webhook.follow.reader import Feeds, LiveReader
from webhook.follow.timing import Timing, World
from webhook.groups.clusters import ClusterIndex
from webhook.groups.membership import Membership


class Runnable(Protocol):
    """Something that runs until it is cancelled."""

    async def run(self) -> None:
        """Run."""


class Known(Struct, frozen=True):
    """What is kept in step with the cluster."""

    clusters: ClusterIndex
    members: Membership


class ClusterState:
    """Keeps what is known in step with the cluster. Without namespaces, with all of them."""

    def __init__(
        self,
        load: Load,
        known: Known,
        namespaces: Sequence[str] = (),
        timing: Timing | None = None,
    ) -> None:
        self.api = Api(load)
        world = World(server_time=self.api.server_time.now)
        self.feeds = {
            namespace: Feeds(PodFeed(known.members, namespace), RayClusterFeed(known.clusters))
            for namespace in namespaces or ("",)
        }
        self.pods: list[ListWatch[WorkerPod]] = [
            ListWatch(self.api, pods_in(namespace), feeds.pods, timing, world)
            for namespace, feeds in self.feeds.items()
        ]
        self.clusters: list[ListWatch[LiveRayCluster]] = [
            ListWatch(self.api, rayclusters_in(namespace), feeds.clusters, timing, world)
            for namespace, feeds in self.feeds.items()
        ]
        self.reader = LiveReader(self.api, self.feeds)
        known.clusters.freshness = self.reader.fresh
        self.beside: dict[str, Runnable] = {}
        """What else runs, by name, while the connection is open."""

    def pods_synced(self) -> bool:
        """Tell whether the worker pods were listed: a condition of readiness."""
        return all(watch.synced for watch in self.pods)

    def clusters_synced(self) -> bool:
        """Tell whether the RayClusters were listed: a condition of readiness."""
        return all(watch.synced for watch in self.clusters)

    def synced(self) -> bool:
        """Tell whether both were listed."""
        return self.pods_synced() and self.clusters_synced()

    @property
    def watches(self) -> list[ListWatch[Any]]:
        """All list-watches, for metrics."""
        return [*self.pods, *self.clusters]

    @property
    def malformed(self) -> int:
        """How often a worker pod had labels that are no seat."""
        return sum(feeds.pods.malformed for feeds in self.feeds.values())

    async def run(self) -> None:
        """Follow the cluster until cancelled. Raises ConfigurationError when there is no connection
        to configure.
        """
        await self.api.open()
        try:
            async with asyncio.TaskGroup() as group:
                for pods in self.pods:
                    group.create_task(pods.run(), name=pods.name)
                for clusters in self.clusters:
                    group.create_task(clusters.run(), name=clusters.name)
                for name, runnable in self.beside.items():
                    group.create_task(runnable.run(), name=name)
        finally:
            await self.reader.close()
            await self.api.close()
