"""The cluster state for `migrate`: a snapshot, and both webhooks as installed."""

import asyncio
from typing import Final

import msgspec

from webhook.api.objects import Bare
from webhook.cache.cluster_cache import UserReads, read_cluster
from webhook.diagnostics.live_objects import WebhookConfiguration
from webhook.diagnostics.object_cache import PODS_WEBHOOK
from webhook.kubeclient.client import Api
from webhook.migrate.migration import SELECTOR, Installed

_VALIDATING: Final = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


async def read_installed(
    reader: Api, namespace: str, *, ignoring: bool = True
) -> tuple[Installed, dict[str, str]]:
    """Return both webhooks and the pods of a namespace, or of all if it is empty; and the kinds
    that could not be read, and why. Raises ApiError if RayClusters or pods cannot be read.
    """
    reads = UserReads(reader)
    deployments = [("labelSelector", SELECTOR)]
    (objects, more), validating, previous = await asyncio.gather(
        read_cluster(reader, namespace, ignoring=ignoring),
        reads.items("validatingwebhookconfigurations", _VALIDATING),
        reads.items("deployments", "/apis/apps/v1/deployments", deployments),
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
                found = await reads.ready_endpoints(service.namespace, service.name)
                ready = None if found is None else found > 0
    return Installed(
        objects,
        None if validating is None else msgspec.convert(validating, list[WebhookConfiguration]),
        None if previous is None else msgspec.convert(previous, list[Bare]),
        ready,
    ), more | reads.unread
