"""The store of the product over Leases in memory, without delays."""

import json

from tests.reservation.server import Server
from webhook.api import names
from webhook.kubeclient.client import Api, Body, Query
from webhook.kubeclient.reservation_leases import LeaseStore


class Direct(Api):
    """An API server that answers at once."""

    def __init__(self) -> None:
        self.server = Server()

    async def get(
        self, path: str, query: Query = (), deadline: float = 0.0, accept: str = ""
    ) -> bytes:
        del deadline, accept
        return self.server.get(path, dict(query))

    async def create(
        self, path: str, body: Body, deadline: float = 0.0, query: Query = ()
    ) -> bytes:
        del path, deadline, query
        return self.server.create(dict(body))

    async def replace(
        self, path: str, body: Body, deadline: float = 0.0, query: Query = ()
    ) -> bytes:
        del deadline, query
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
    return LeaseStore(api, "system")
