"""The cluster as the webhook follows it: one connection, the feeds of each namespace, and live
reads.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from webhook.follow.claimed_objects import ClaimedObjects
from webhook.follow.claims import LeaseClaims
from webhook.follow.client import Api, Load
from webhook.follow.leases import Lease, LeaseStore
from webhook.follow.listwatch import ListWatch
from webhook.follow.pods import PodFeed, WorkerPod, pods_in
from webhook.follow.rayclusters import LiveRayCluster, RayClusterFeed, rayclusters_in
from webhook.follow.reader import Feeds, LiveReader
from webhook.follow.timing import ClaimTiming, Timing
from webhook.groups.clusters import ClusterIndex
from webhook.groups.ledger import Key, Value
from webhook.groups.membership import Membership
from webhook.groups.shards import Shards


class Runnable(Protocol):
    """Something that runs until it is cancelled."""

    async def run(self) -> None:
        """Run."""


class Known(Struct, frozen=True):
    """What is kept in step with the cluster."""

    clusters: ClusterIndex
    members: Membership
    shards: Shards


class Leases(Struct, frozen=True):
    """The Leases through which processes agree: in which namespace, and how many."""

    namespace: str
    count: int
    timing: ClaimTiming = ClaimTiming()


class ClusterState:
    """Keeps what is known in step with the cluster. Without namespaces, with all of them."""

    def __init__(
        self,
        load: Load,
        known: Known,
        namespaces: Sequence[str] = (),
        timing: Timing | None = None,
        leases: Leases | None = None,
    ) -> None:
        self.api = Api(load)
        clusters, members, shards = known.clusters, known.members, known.shards
        self.claims: LeaseClaims | None = None
        saw = self._saw if leases else None
        self.feeds = {
            namespace: Feeds(
                PodFeed(members, namespace, saw), RayClusterFeed(clusters, shards, namespace, saw)
            )
            for namespace in namespaces or ("",)
        }
        self.pods: list[ListWatch[WorkerPod]] = [
            ListWatch(self.api, pods_in(namespace), feeds.pods, timing)
            for namespace, feeds in self.feeds.items()
        ]
        self.clusters: list[ListWatch[LiveRayCluster]] = [
            ListWatch(self.api, rayclusters_in(namespace), feeds.clusters, timing)
            for namespace, feeds in self.feeds.items()
        ]
        self.reader = LiveReader(self.api, self.feeds)
        self.beside: dict[str, Runnable] = {}
        """What else runs, by name, while the connection is open."""
        self.leases: list[ListWatch[Lease]] = []
        if leases:
            store = LeaseStore(self.api, leases.namespace, leases.count)
            objects = ClaimedObjects(members, shards, clusters, self.feeds, self.reader)
            self.claims = LeaseClaims(store, objects, leases.timing)
            self.leases = [ListWatch(self.api, store.resource, self.claims, timing)]
            self.beside["claims"] = self.claims

    def _saw(self, key: Key, value: Value, version: int) -> None:
        if self.claims is not None:
            self.claims.saw(key, value, version)

    def leases_known(self) -> bool:
        """Tell whether the Leases are there and known: a condition of readiness."""
        return self.claims is None or self.claims.known

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
        return [*self.pods, *self.clusters, *self.leases]

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
                for leases in self.leases:
                    group.create_task(leases.run(), name=leases.name)
                for name, runnable in self.beside.items():
                    group.create_task(runnable.run(), name=name)
        finally:
            await self.reader.close()
            await self.api.close()
