"""The store of the product over Leases in memory, without delays."""

import json
from collections.abc import Callable

from tests.webhook.reservation.server import Server, ServerApi
from webhook.api import names
from webhook.kubeclient.reservation_leases import LeaseStore


class Direct(ServerApi):
    """An API server that answers at once."""

    def __init__(self) -> None:
        self.server = Server()

    async def ask(self, carry_out: Callable[[Server], bytes], seconds: float) -> bytes:
        del seconds
        return carry_out(self.server)

    def entries(self, group: str) -> dict[tuple[int, int], str]:
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
