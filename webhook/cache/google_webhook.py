"""The cluster state for `migrate`: a snapshot, and both webhooks as installed."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from webhook.cache.cluster_cache import read_cluster
from webhook.diagnostics.live_objects import Named, WebhookConfiguration
from webhook.diagnostics.object_cache import PODS_WEBHOOK
from webhook.kubeclient.client import Api, Query
from webhook.kubeclient.errors import ApiError
from webhook.migrate.migration import SELECTOR, Installed

_SECONDS: Final = 30.0
_VALIDATING: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


async def read_installed(
    reader: Api, namespace: str, *, ignoring: bool = True
) -> tuple[Installed, dict[str, str]]:
    """Return both webhooks and the pods of a namespace, or of all if it is empty; and the kinds
    that could not be read, and why. Raises ApiError if RayClusters or pods cannot be read.
    """
    unread: dict[str, str] = {}

    async def items(what: str, path: str, query: Query) -> list[Any] | None:
        try:
            found: dict[str, Any] = msgspec.json.decode(await reader.get(path, query, _SECONDS))
        except ApiError as error:
            unread[what] = error.reason if error.reason == "forbidden" else str(error)
            return None
        return found.get("items") or []

    deployments = [("labelSelector", SELECTOR)]
    (objects, more), validating, previous = await asyncio.gather(
        read_cluster(reader, namespace, ignoring=ignoring),
        items("validatingwebhookconfigurations", _VALIDATING, ()),
        items("deployments", "/apis/apps/v1/deployments", deployments),
    )
    ready = None
    for configuration in objects.configurations.all:
        for webhook in configuration.webhooks or ():
            service = webhook.client_config.service
            if webhook.name != PODS_WEBHOOK:
                continue
            if service is None:
                ready = True
            else:
                path = f"/apis/discovery.k8s.io/v1/namespaces/{service.namespace}/endpointslices"
                selected = [("labelSelector", f"kubernetes.io/service-name={service.name}")]
                found = await items("endpointslices", path, selected)
                ready = None if found is None else ready_endpoints(found) > 0
    return Installed(
        objects,
        None if validating is None else msgspec.convert(validating, list[WebhookConfiguration]),
        None if previous is None else msgspec.convert(previous, list[Named]),
        ready,
    ), more | unread


def ready_endpoints(slices: Iterable[Any]) -> int:
    """Return the number of ready endpoints of EndpointSlices; an endpoint without that field counts
    as ready.
    """
    endpoints = [each for found in slices for each in found.get("endpoints") or ()]
    return sum((each.get("conditions") or {}).get("ready") is not False for each in endpoints)
