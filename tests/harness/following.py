"""A cluster state that watches a fake API server, with points at which tests can synchronize."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from operator import attrgetter

from tests.harness.fake_api import FakeApi
from webhook.app.informers import Connected
from webhook.cache.informer import Counters
from webhook.cache.live import ClusterState
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity import GroupKey, HostIdentity
from webhook.groups.identity_index import Membership
from webhook.kubeclient.access import Access, Load
from webhook.kubeclient.client import Api
from webhook.kubeclient.timeouts import Timing

SECONDS = 180
"""How long to wait: many times what a busy machine takes."""
QUICK = Timing(
    page_deadline=0.5, idle=1.0, watch=300.0, watch_interval=0.05, steady=0.0, first_delay=0.01,
    longest_delay=0.08, page_items=100,
)  # fmt: skip


@dataclass
class Following:
    """A running cluster state and what it keeps."""

    api: Api
    state: ClusterState
    clusters: ClusterIndex
    members: Membership

    @property
    def pods(self) -> Counters:
        return self.state.pods[0].counters

    @property
    def synced(self) -> bool:
        return self.state.pods_synced() and self.state.clusters_synced()

    def identities(self, key: GroupKey) -> list[HostIdentity]:
        identities = (each.identity for _, each in self.members.items() if each.key == key)
        return sorted(filter(None, identities), key=attrgetter("replica", "host", "name"))


def plain(api: FakeApi) -> Load:

    async def load() -> Access:
        return Access(api.url)

    return load


def client_of(load: Load) -> Api:
    """Return a client with a minute for a request, unless a test sets less than a second."""
    return Api(load, lambda seconds: asyncio.timeout(seconds if seconds < 1 else max(seconds, 60)))


@asynccontextmanager
async def beside(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Do endless work beside the block, and cancel it then; what it raised before is raised."""
    task = asyncio.create_task(work)
    try:
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def following(
    api: FakeApi,
    *,
    timing: Timing = QUICK,
    namespaces: Sequence[str] = (),
    load: Load | None = None,
) -> AsyncIterator[Following]:
    clusters, members = ClusterIndex(), Membership()
    connection = client_of(load or plain(api))
    state = ClusterState(connection, clusters, members, namespaces, timing)
    async with beside(Connected(connection, {"cluster": state}).run()):
        yield Following(connection, state, clusters, members)


async def eventually(condition: Callable[[], object]) -> None:
    try:
        async with asyncio.timeout(SECONDS):
            # A condition over many things, with no one to signal it
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"still not so after {SECONDS} s: {condition}") from None
