"""Requests to the API server for each pod without an identity: one process, and two by turns."""

import asyncio
from contextlib import AsyncExitStack

from tests.harness.fake_api import LEASES, FakeApi
from tests.harness.following import plain
from tests.harness.single_process import Lists
from webhook.groups.identity import MAX_REPLICAS, GroupKey, HostIdentity
from webhook.groups.identity_index import Member, Membership
from webhook.kubeclient.client import Api
from webhook.kubeclient.reservation_leases import LeaseStore
from webhook.reservation.allocation import Request

PODS = 256
KEY = GroupKey("default", "uid-of-ray", "tpu")
VERBS = {"create": "create", "update": "update", "get": "list"}
"""By name, as the API server of the tests calls them."""


class _Process:
    def __init__(self, api: Api) -> None:
        self.members = Membership()
        self.identities = Lists().identities(self.members, LeaseStore(api, "ray-webhook"))

    async def reserve(self, uid: str, hosts: int) -> Member:
        wanted = Request("ray", KEY, hosts, MAX_REPLICAS, uid)
        found = await self.identities.reserve(
            wanted, lambda identity, holder: Member(KEY, identity, holder)
        )
        assert isinstance(found, Member)
        return found


async def requests(processes: int, hosts: int, at_once: int = 1) -> dict[str, float]:
    """Return requests by name for each of 256 pods of one group. Processes take turns, each with
    `at_once` pods in progress; every process observes a pod before the next ones come.
    """
    async with FakeApi().serving() as fake, AsyncExitStack() as stack:
        all_of_them = []
        for _ in range(processes):
            api = await stack.enter_async_context(Api(plain(fake)))
            all_of_them.append(_Process(api))
        places: set[HostIdentity | None] = set()
        for first in range(0, PODS, at_once):
            uids = range(first, first + at_once)
            found = await asyncio.gather(
                *(all_of_them[uid % processes].reserve(f"r-{uid}", hosts) for uid in uids)
            )
            for uid, member in zip(uids, found, strict=True):
                places.add(member.identity)
                for each in all_of_them:
                    each.members.put(f"pod-{uid}", member)
        assert len(places) == PODS
        return {name: fake.count(verb, LEASES) / PODS for name, verb in VERBS.items()}


def main() -> None:
    print("\nreservations: requests a pod, 256 pods of one group")
    for hosts in (1, 4):
        for processes, at_once, what in (
            (1, 1, "one process"),
            (2, 1, "two by turns, one pod at a time"),
            (2, 8, "two by turns, eight pods at a time"),
        ):
            a_pod = asyncio.run(requests(processes, hosts, at_once))
            figures = ", ".join(f"{count:.2f} {verb}" for verb, count in a_pod.items())
            print(f"  {what}, hosts of a replica: {hosts}: {figures}")
