"""The cluster state of the webhook server: stores of each namespace, and live reads."""

import asyncio
from collections.abc import Sequence
from typing import Any

from webhook.api.objects import RayCluster
from webhook.cache.informer import ListWatch
from webhook.cache.live import LiveReader, Stores
from webhook.cache.serve_stores import PodStore, RayClusterStore, pods_in, rayclusters_in
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity_index import Membership
from webhook.groups.identity_labels import WorkerPod
from webhook.kubeclient.client import Api
from webhook.kubeclient.timeouts import Clock, Timing


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
            ListWatch(api, pods_in(namespace), stores.pods, timing, time_source)
            for namespace, stores in self.stores.items()
        ]
        self.clusters: list[ListWatch[RayCluster]] = [
            ListWatch(api, rayclusters_in(namespace), stores.clusters, timing, time_source)
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
