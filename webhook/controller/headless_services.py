"""The headless services of RayClusters with single-host groups that need DNS names.

KubeRay creates `<cluster>-headless` only for multi-host groups. The service created here is
identical, so that KubeRay keeps it when a multi-host group is added.

https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/service.go
(`BuildHeadlessServiceForRayCluster`)
"""

import logging
from collections.abc import Callable
from time import monotonic
from typing import Any, Final
from urllib.parse import quote

from webhook.api import names
from webhook.cache.cluster_cache import Observing
from webhook.controller.group_index import GroupIndex
from webhook.controller.podgroups.podgroup_api import metadata
from webhook.controller.work_queue import ALL, Key, WorkQueue
from webhook.groups.group_config import RayClusterConfig
from webhook.groups.naming import headless_service
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import QueueTiming

_log: Final = logging.getLogger("webhook.controller")
TIMING: Final = QueueTiming(resync=600.0, first_delay=10.0, longest_delay=20.0)
"""At a resync every service is created again, which fails while the service exists."""
CONFLICT_SECONDS: Final = 60.0
"""Seconds of conflicts after which the service of a RayCluster counts as existing. At first, it may
belong to a deleted RayCluster of the same name, until garbage collection deletes it."""


class HeadlessServices:
    """Creates the services, with only the `create` permission: an existing one is a conflict."""

    def __init__(
        self,
        observing: Observing,
        index: GroupIndex,
        timing: QueueTiming = TIMING,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._api = observing.api
        self._clusters = index.clusters
        self._clock = clock
        self._existing: set[str] = set()
        """The uids of RayClusters whose service exists, since the last resync."""
        self._conflicts: dict[str, float] = {}
        """The time of the first conflict, by uid of the RayCluster."""
        self.queue = WorkQueue(
            "headless Services", self._reconcile, lambda: observing.synced, timing
        )
        index.subscribe(self.queue)

    async def _reconcile(self, key: Key) -> bool:
        if key == ALL:
            self._existing.clear()
            for uid in self._conflicts.keys() - {each.uid for each in self._clusters}:
                del self._conflicts[uid]
            for each in self._clusters:
                self.queue.add((each.namespace, each.name))
            return False
        facts = self._clusters.get(*key)
        if facts is None or not _wanted(facts) or facts.uid in self._existing:
            return False
        if not await self._create(facts):
            now = self._clock()
            if now - self._conflicts.setdefault(facts.uid, now) < CONFLICT_SECONDS:
                return True
        self._existing.add(facts.uid)
        return False

    async def _create(self, facts: RayClusterConfig) -> bool:
        """Create a service; return whether there was none. Raises ApiError."""
        try:
            path = f"/api/v1/namespaces/{quote(facts.namespace)}/services"
            await self._api.create(path, service_of(facts))
        except ApiError as error:
            if error.reason != "conflict":
                raise
            return False
        _log.info("service %s/%s: created", facts.namespace, headless_service(facts.name))
        return True


def _wanted(facts: RayClusterConfig) -> bool:
    return facts.lacks_service and not (facts.ignored or facts.deleting)


def service_of(facts: RayClusterConfig) -> dict[str, Any]:
    """Return the headless service of a RayCluster, as KubeRay creates it."""
    name = headless_service(facts.name)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**metadata(facts, name), "labels": {names.LABEL_HEADLESS_SERVICE: facts.name}},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {
                names.LABEL_CLUSTER: facts.name,
                names.LABEL_NODE_TYPE: names.NODE_TYPE_WORKER,
            },
        },
    }
