"""Reservations of one process with a clock that a test sets."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity import MAX_REPLICAS, GroupKey, HostIdentity, Key
from webhook.groups.identity_index import Membership
from webhook.reservation.allocation import Request
from webhook.reservation.identities import Identities, StandaloneIdentities
from webhook.reservation.reservations import Reservations
from webhook.reservation.stores import MemoryStore, TableStore


@dataclass
class Lists:
    """Lists and watches as of the time that a test sets; `reads` are the live lists."""

    time: float = 1000.0
    listed_at: float = -inf
    stopped: float = 0.0
    """For how long the clock of the machine stood still."""
    reads: list[Key] = field(default_factory=list)
    finds: Callable[[], None] = lambda: None

    def now(self) -> float:
        return self.time + self.stopped

    def contact(self, key: Key) -> float:
        del key
        return self.now()

    def listed(self, key: Key) -> float:
        """Return when the last list began."""
        del key
        return self.listed_at

    async def relist(self, key: Key, cluster: str) -> None:
        del cluster
        self.reads.append(key)
        self.listed_at = self.time
        self.finds()

    def reservations(
        self, members: Membership, clusters: ClusterIndex, store: TableStore | None = None
    ) -> Reservations:
        made = Reservations(store or MemoryStore(), self, members, clusters)
        made.clock = lambda: self.time
        return made

    def identities(self, members: Membership, store: TableStore | None = None) -> Identities:
        return Identities(self.reservations(members, ClusterIndex(), store))


def next_identity(members: Membership, key: GroupKey, hosts: int, uid: str) -> HostIdentity:
    """Return the identity that the next pod of a group gets, by the pods alone."""
    wanted = Request("ray", key, hosts, MAX_REPLICAS, uid)
    found = StandaloneIdentities(members).preview(wanted, lambda identity, _: identity)
    assert isinstance(found, HostIdentity)
    return found
