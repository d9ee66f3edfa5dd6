"""The Lease for leader election.

https://kubernetes.io/docs/concepts/architecture/leases/
"""

from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from msgspec import Struct, field
from msgspec.structs import asdict

from webhook.api.objects import ObjectMeta
from webhook.kubeclient.client import Api
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.wire import decoded

_API: Final = "coordination.k8s.io/v1"


class Holding(Struct, rename="camel", frozen=True):
    """The `spec` of a Lease: the leader, the times of acquisition and renewal, and the duration."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Lease(Struct):
    metadata: ObjectMeta
    spec: Holding = field(default_factory=Holding)


class Lease:
    """One Lease. All methods raise ApiError, with reason `conflict` after another write."""

    def __init__(self, api: Api, namespace: str, name: str) -> None:
        self.name = f"{namespace}/{name}"
        self._api = api
        self._metadata = {"namespace": namespace, "name": name}
        self._collection = f"/apis/{_API}/namespaces/{quote(namespace)}/leases"
        self._path = f"{self._collection}/{quote(name)}"

    async def read(self, seconds: float) -> tuple[Holding, str]:
        """Return the holder and the resourceVersion, which is empty if the Lease does not exist."""
        try:
            body = await self._api.get(self._path, (), seconds)
        except ApiError as error:
            if error.reason == "missing":
                return Holding(), ""
            raise
        lease = decoded(body, _Lease, "a Lease")
        return lease.spec, lease.metadata.resource_version

    async def write(self, holding: Holding, version: str, seconds: float) -> None:
        """Write the holder if the resourceVersion is unchanged, or create the Lease."""
        spec = _spec(holding)
        if not version:
            body = {"apiVersion": _API, "kind": "Lease", "metadata": self._metadata, "spec": spec}
            await self._api.create(self._collection, body, seconds)
            return
        pinned = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
        await self._api.patch(
            self._path, [pinned, {"op": "add", "path": "/spec", "value": spec}], seconds
        )


def timestamp() -> str:
    """Return the time of day as a MicroTime, for people: it is never compared."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _spec(holding: Holding) -> dict[str, Any]:
    renamed = zip(Holding.__struct_encode_fields__, asdict(holding).values(), strict=True)
    return {name: value for name, value in renamed if value is not None}
