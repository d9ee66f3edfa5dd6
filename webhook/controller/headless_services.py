"""The headless services of RayClusters with single-host groups that need DNS names.

KubeRay creates `<cluster>-headless` only for multi-host groups. The service created here is
identical, so that KubeRay keeps it when a multi-host group is added.

https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/service.go
(`BuildHeadlessServiceForRayCluster`)
"""

import logging
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct

from webhook.api import names
from webhook.cache.cluster_cache import Observing
from webhook.controller.failures import kind_of, log_failure, pause_of
from webhook.groups.group_config import ClusterIndex, RayClusterConfig
from webhook.groups.naming import headless_service
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import Clock

_log: Final = logging.getLogger("webhook.controller")
_SECONDS: Final = 10.0
"""Deadline of a request."""


class ServiceTiming(Struct, frozen=True):
    """Times in seconds."""

    poll: float = 1.0
    """The period between two checks of all RayClusters."""
    again: float = 600.0
    """The period after which a service is created again, which fails while the service exists."""
    delay: float = 30.0
    """The delay before a failed creation is retried."""


class HeadlessServices:
    """Creates the services, with only the `create` permission: an existing one is a conflict."""

    def __init__(
        self,
        observing: Observing,
        clusters: ClusterIndex,
        timing: ServiceTiming | None = None,
        world: Clock | None = None,
    ) -> None:
        self._observing = observing
        self._clusters = clusters
        self._timing = timing or ServiceTiming()
        self._world = world or Clock()
        self._due: dict[str, float] = {}
        self._failure = ""

    async def run(self) -> None:
        self._due.clear()
        while True:
            if self._observing.synced:
                wanted = [facts for facts in self._clusters if _wanted(facts)]
                self._due = {facts.uid: self._due.get(facts.uid, 0.0) for facts in wanted}
                for facts in wanted:
                    if self._world.clock() >= self._due[facts.uid]:
                        await self._create(facts)
            await self._world.sleep(self._timing.poll)

    async def _create(self, facts: RayClusterConfig) -> None:
        wait = self._timing.again
        try:
            path = f"/api/v1/namespaces/{quote(facts.namespace)}/services"
            await self._observing.api.create(path, service_of(facts), _SECONDS)
            _log.info("service %s/%s: created", facts.namespace, headless_service(facts.name))
        except ApiError as error:
            if error.reason != "conflict":
                wait = max(self._timing.delay, pause_of(error))
                if kind_of(error) != self._failure:
                    self._failure = kind_of(error)
                    text = "service %s/%s: %s (%s)"
                    log_failure(error, text, facts.namespace, headless_service(facts.name))
        else:
            self._failure = ""
        self._due[facts.uid] = self._world.clock() + wait


def _wanted(facts: RayClusterConfig) -> bool:
    return facts.lacks_service and not (facts.ignored or facts.deleting)


def service_of(facts: RayClusterConfig) -> dict[str, Any]:
    """Return the headless service of a RayCluster, as KubeRay creates it."""
    owner = {
        "apiVersion": f"{names.RAY_GROUP}/{names.RAY_VERSIONS[0]}",
        "kind": names.RAYCLUSTER_KIND,
        "name": facts.name,
        "uid": facts.uid,
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": headless_service(facts.name),
            "namespace": facts.namespace,
            "labels": {names.LABEL_HEADLESS_SERVICE: facts.name},
            "ownerReferences": [owner],
        },
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {
                names.LABEL_CLUSTER: facts.name,
                names.LABEL_NODE_TYPE: names.NODE_TYPE_WORKER,
            },
        },
    }
