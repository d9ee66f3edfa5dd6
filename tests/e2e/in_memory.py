"""`serve` with reservations in memory, as allowed for a single process: the baseline of
`tests.e2e.figures`. `python -m tests.e2e.in_memory serve …`.
"""

import asyncio
import sys

from webhook.app import serve
from webhook.cli.main import main
from webhook.kubeclient.client import Api
from webhook.reservation.stores import MemoryStore


class UnsharedStore(MemoryStore):
    """A store of one process, which asks no one."""

    accepted = True

    def __init__(self, _api: Api, _namespace: str) -> None:
        super().__init__()

    async def run(self) -> None:
        await asyncio.Event().wait()


if __name__ == "__main__":
    vars(serve).update(LeaseStore=UnsharedStore)
    sys.exit(main(sys.argv[1:]))
