"""The Secret of the self-signed certificate, and the webhook configurations whose `caBundle` must
contain it.
"""

import base64
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from math import inf
from typing import Final
from urllib.parse import quote

from msgspec import Struct, field

from webhook.api.objects import ObjectMeta
from webhook.kubeclient.client import Api, Operation
from webhook.kubeclient.errors import ApiError

_GROUP: Final = "/apis/admissionregistration.k8s.io/v1"
_KINDS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")

_log: Final = logging.getLogger("webhook.kubeclient")


class _ClientConfig(Struct, rename="camel"):
    ca_bundle: str = ""


class _Webhook(Struct, rename="camel"):
    client_config: _ClientConfig = field(default_factory=_ClientConfig)


class _Configuration(Struct):
    """A MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""

    metadata: ObjectMeta
    webhooks: list[_Webhook] | None = None


class _Secret(Struct):
    metadata: ObjectMeta
    data: dict[str, str] | None = None


class SecretStore:
    """Reads and writes objects by name: the Secret has to exist, and missing configurations are
    skipped, so that the right to create is not required. Both configurations have the name of the
    installation, the Secret `<name>-tls`.
    """

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self._api = api
        self._absent: set[str] = set()
        self._secret = f"/api/v1/namespaces/{quote(namespace)}/secrets/{quote(name)}-tls"
        self._configurations = [f"{_GROUP}/{kind}/{quote(name)}" for kind in _KINDS]

    def now(self) -> datetime:
        """Return the time of the API server; that of this machine if its responses have none."""
        seconds = self._api.server_time.now()
        return datetime.now(UTC) if seconds == -inf else datetime.fromtimestamp(seconds, UTC)

    async def read(self) -> tuple[Mapping[str, bytes], str]:
        """Return the data of the Secret and its resourceVersion. Raises ApiError."""
        secret = await self._api.read(self._secret, _Secret)
        try:
            data = {
                name: base64.b64decode(encoded, validate=True)
                for name, encoded in (secret.data or {}).items()
            }
        except ValueError as error:
            message = (
                "the API server sent a Secret whose data is not base64: is a proxy in between?"
            )
            raise ApiError("garbled", message) from error
        return data, secret.metadata.resource_version

    async def write(self, data: Mapping[str, bytes], version: str) -> bool:
        """Replace the data, and return True, unless the Secret has changed since `version`."""
        encoded = {name: base64.b64encode(content).decode() for name, content in data.items()}
        # `add` also replaces; an empty Secret has no data that could be replaced.
        operations = [{"op": "add", "path": "/data", "value": encoded}]
        return await self._patch(self._secret, version, operations)

    async def publish(self, bundle: bytes) -> bool:
        """Set the `caBundle` of the configurations to `bundle`; return whether all of them had it
        already. Raises ApiError.

        A configuration that does not exist is left to a later call, and so is one that has changed
        since it was read: most likely another process has set the same value.
        """
        ca_bundle, unchanged = base64.b64encode(bundle).decode(), True
        for path in self._configurations:
            configuration = await self._api.find(path, _Configuration)
            if configuration is None:
                if path not in self._absent:
                    self._absent.add(path)
                    message = (
                        "%s %s does not exist, so API servers ask nothing there; the CA bundle is "
                        "written when it appears"
                    )
                    _log.warning(message, *path.split("/")[-2:])
                continue
            self._absent.discard(path)
            bundles = [webhook.client_config.ca_bundle for webhook in configuration.webhooks or ()]
            operations = [
                _trust(place, ca_bundle)
                for place, current in enumerate(bundles)
                if current != ca_bundle
            ]
            if operations:
                unchanged = False
                await self._patch(path, configuration.metadata.resource_version, operations)
        return unchanged

    async def _patch(self, path: str, version: str, operations: Sequence[Operation]) -> bool:
        """Patch this version of an object, and return whether it still had that version."""
        try:
            await self._api.patch(path, operations, version)
        except ApiError as error:
            if error.reason == "conflict":
                return False
            raise
        return True


def _trust(place: int, bundle: str) -> Operation:
    return {"op": "add", "path": f"/webhooks/{place}/clientConfig/caBundle", "value": bundle}
