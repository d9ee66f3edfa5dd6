"""The headless services of RayClusters with single-host groups that need DNS names.

KubeRay creates `<cluster>-headless` only for multi-host groups. The service created here is
identical, so that KubeRay keeps it when a multi-host group is added.

https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/service.go
(`BuildHeadlessServiceForRayCluster`)
"""

import logging
from typing import Any, Final
from urllib.parse import quote

from webhook.api import names
from webhook.cache.cluster_cache import Observing
from webhook.controller.group_index import GroupIndex
from webhook.controller.podgroups.podgroup_api import metadata
from webhook.controller.requests import SECONDS
from webhook.controller.work_queue import ALL, Key, WorkQueue
from webhook.groups.group_config import RayClusterConfig
from webhook.groups.naming import headless_service
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import QueueTiming

_log: Final = logging.getLogger("webhook.controller")
TIMING: Final = QueueTiming(resync=600.0, first_delay=30.0, longest_delay=60.0)
"""At a resync every service is created again, which fails while the service exists."""


class HeadlessServices:
    """Creates the services, with only the `create` permission: an existing one is a conflict."""

    def __init__(
        self, observing: Observing, index: GroupIndex, timing: QueueTiming = TIMING
    ) -> None:
        self._api = observing.api
        self._clusters = index.clusters
        self._created: dict[Key, str] = {}
        """The uid of each RayCluster whose service was created since the last resync."""
        self.queue = WorkQueue(
            "headless Services", self._reconcile, lambda: observing.synced, timing
        )
        index.subscribe(self.queue)

    async def _reconcile(self, key: Key) -> bool:
        if key == ALL:
            self._created.clear()
            for each in self._clusters:
                self.queue.add((each.namespace, each.name))
            return False
        facts = self._clusters.get(*key)
        if facts is None or not _wanted(facts):
            self._created.pop(key, None)
        elif self._created.get(key) != facts.uid:
            await self._create(facts)
            self._created[key] = facts.uid
        return False

    async def _create(self, facts: RayClusterConfig) -> None:
        """Create a service, unless it exists. Raises ApiError."""
        try:
            path = f"/api/v1/namespaces/{quote(facts.namespace)}/services"
            await self._api.create(path, service_of(facts), SECONDS)
            _log.info("service %s/%s: created", facts.namespace, headless_service(facts.name))
        except ApiError as error:
            if error.reason != "conflict":
                raise


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
