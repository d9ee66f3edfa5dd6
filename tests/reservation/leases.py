"""The store of the product over Leases in memory, without delays."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from tests.reservation.server import Server
from webhook.api import names
from webhook.kubeclient.client import Api, Query
from webhook.kubeclient.reservation_leases import LeaseStore


@dataclass
class Direct:
    """An API server that answers at once."""

    server: Server = field(default_factory=Server)

    async def get(self, path: str, query: Query, _deadline: float) -> bytes:
        return self.server.get(path, dict(query))

    async def create(self, _path: str, body: Mapping[str, Any], _deadline: float) -> bytes:
        return self.server.create(dict(body))

    async def replace(self, path: str, body: Mapping[str, Any], _deadline: float) -> bytes:
        return self.server.replace(path.rpartition("/")[2], dict(body))

    def entries(self, group: str) -> dict[tuple[int, int], str]:
        """Return the holders of a group by replica and host, as Leases contain them."""
        found: dict[tuple[int, int], str] = {}
        for lease in self.server.leases.values():
            text = lease["metadata"]["annotations"][names.ANNOTATION_RESERVATIONS]
            content = json.loads(text)
            if content["group"] == group:
                for index, entry in content["entries"].items():
                    for host, holder in entry["hosts"].items():
                        found[int(index), int(host)] = holder
        return found


def lease_store(api: Direct) -> LeaseStore:
    return LeaseStore(cast("Api", api), "system")
