"""Allocation: from a reservation table, the cached objects and the time to an identity and the next
table.

docs/contributing/reservation.md has the proof. This module does no I/O and reads no clock.

See docs/contributing/decisions/0021-reservations-in-tables-of-their-own.md.
"""

from collections.abc import Collection
from hashlib import blake2b
from itertools import count, filterfalse
from typing import Final, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from webhook.api.review import FORBIDDEN, Cause, Denied, NotNow
from webhook.groups.annotations import read_index
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity import MAX_REPLICAS, GroupKey, HostIdentity, Key, ShardKey
from webhook.groups.identity_index import Membership, Occupancy, lowest_bit
from webhook.groups.naming import replica_name
from webhook.reservation.stores import Reserved, Table

K_co = TypeVar("K_co", bound=Key, covariant=True)

BLOCK: Final = 16
"""Consecutive replica indices of a worker group that share a table."""

VACANT_SECONDS: Final = 60.0
"""The API server stores an object at most 34 s after the start of its admission."""

RENEW_SECONDS: Final = 5.0
"""An older entry is written again before it is returned."""


class Request(Struct, Generic[K_co], frozen=True, gc=False):
    """A request of a review for an identity in a worker group, or for an index in a shard group.

    `cluster` is the name of the RayCluster, empty if it is not generated yet. `hosts` are those of
    a replica, and `desired` is the number of replicas or shards. `given` is the only acceptable
    identity, and `pod` the name of its pod for messages. `read`: the pods of the group were read
    live for this review.
    """

    cluster: str
    key: K_co
    hosts: int
    desired: int
    uid: str
    read: bool = False
    given: HostIdentity | None = None
    pod: str = ""

    @property
    def index(self) -> bool:
        """Return whether the request is for a shard index."""
        return isinstance(self.key, ShardKey)


AnyRequest = Request[Key]


class Place(Struct, frozen=True, gc=False):
    """A replica and host index, and the table to write first; None if it is written already.

    `opens`: the replica has no other object or entry.
    """

    index: int
    host: int
    name: str
    holder: str
    opens: bool = False
    table: Table | None = None


class Taken(Struct, frozen=True, gc=False):
    """The given indices are reserved for another object: a pod by its uid, empty until it appears,
    or a RayCluster by its name, empty until it is generated.
    """

    index: int
    host: int
    holder: str


class Pods:
    """The pods of a worker group. `listed` is the start time of the newest complete list."""

    def __init__(self, members: Membership, key: GroupKey, listed: float) -> None:
        self.listed = listed
        self.group = members.group(key)
        self._members = members
        self._key = key

    def taken(self, index: int) -> int:
        """Return the hosts with an object as a bit mask; -1 for all."""
        return self.group.taken(index)

    def absent(self, index: int, entry: Reserved) -> Collection[str]:
        """Return the holders in the entry of an index whose object does not exist."""
        del index  # labels may have been edited
        live = self._members.holders(self._key.namespace)
        return list(filterfalse(live.__contains__, entry.hosts.values()))

    def gone(self, holder: str) -> bool:
        """Return whether the object of a holder was observed, and then its deletion."""
        return self._members.is_gone(self._key.namespace, holder)

    def other(self, index: int, host: int, holder: str) -> str:
        """Return the object of a host other than the request's, a pod by its uid and a RayCluster
        by its name; empty if there is none.
        """
        taken = self.group.taken(index) >> host & 1
        return self._members.pod_in(self._key, index, host, holder) if taken else ""


class Shards:
    """The RayClusters of a shard group for a request of RayCluster `cluster`: replicas of 1 host
    without a name.
    """

    def __init__(self, clusters: ClusterIndex, key: ShardKey, cluster: str, listed: float) -> None:
        self.listed = listed
        self.group = Occupancy()
        self._cluster = cluster
        self._holders: dict[int, list[str]] = {}
        for facts in clusters.shards(key):
            if (index := read_index(facts.shard_index)) is not None:
                self._holders.setdefault(index, []).append(facts.name)

    def taken(self, index: int) -> int:
        return int(bool(self.other(index, 0, "")))

    def absent(self, index: int, entry: Reserved) -> Collection[str]:
        holders = self._holders.get(index, ())  # RayClusters are identified by name
        exists = entry.name in holders if entry.name else bool(holders)
        return () if exists else entry.hosts.values()

    def gone(self, holder: str) -> bool:
        del holder  # of two creations with the same name, the API server may still store the second
        return False

    def other(self, index: int, host: int, holder: str) -> str:
        del host, holder
        return next((each for each in self._holders.get(index, ()) if each != self._cluster), "")


Objects = Pods | Shards


def holder_of(uid: str, block: int) -> str:
    """Return the holder of the entries of a request in a block: 12 characters."""
    return blake2b(f"{uid}/{block}".encode(), digest_size=6).hexdigest()


def allocate(
    table: Table, objects: Objects, request: AnyRequest, block: int, now: float
) -> Place | Taken | None:
    """Return the identity for a request in a block, or None if the block has none that is free.
    Raises NotNow if another pod has the identity in the request's own entry, and Denied if all
    indices are taken.
    """
    if not request.index and block >= block_of(MAX_REPLICAS):
        text = f"all {MAX_REPLICAS} replica indices of group {request.key.group} are taken"
        raise Denied(Cause(FORBIDDEN, f"{text}: use more worker groups", ""))
    holder, given = holder_of(request.uid, block), request.given
    own = own_entry(table, request, block)
    if own is not None and not objects.other(*own, holder):
        place, entry = _place(table, objects, request, own, block), table[own[0]]
        fresh = now - entry.made <= RENEW_SECONDS and entry.name == place.name and not request.index
        return place if fresh else _written(table, place, now)
    table = without_vacant(table, objects)
    if own is not None and own_entry(table, request, block) == own:
        index, host = own
        other = objects.other(*own, holder)
        raise NotNow(f"replica {index} host {host} of this request is {other}'s")
    found = (given.replica, given.host) if given else vacancy(table, objects, request, block)
    if found is None:
        return None
    if given and _mask(table, objects, given.replica) >> given.host & 1:
        name = table[given.replica].name if request.index and given.replica in table else ""
        return Taken(*found, objects.other(*found, holder) or name)
    return _written(table, _place(table, objects, request, found, block), now)


def own_entry(table: Table, request: AnyRequest, block: int) -> tuple[int, int] | None:
    """Return the indices in the entry of this request, or, for a shard index, in the entry of its
    RayCluster.
    """
    holder, given = holder_of(request.uid, block), request.given
    for index, entry in table.items():
        named = request.index and request.cluster == entry.name != ""
        if named or holder in entry.hosts.values():
            for host, found in entry.hosts.items():
                only = given is None or (given.replica, given.host) == (index, host)
                if (named or found == holder) and only and host < request.hosts:
                    return index, host
    return None


def pending(objects: Objects, index: int, entry: Reserved) -> list[str]:
    """Return the holders in an entry whose object was not observed yet."""
    return [each for each in objects.absent(index, entry) if not objects.gone(each)]


def overdue(table: Table, objects: Objects, now: float) -> bool:
    """Return whether a list that begins now can prove that entries are vacant."""
    return any(
        objects.listed < entry.made + VACANT_SECONDS <= now and pending(objects, index, entry)
        for index, entry in table.items()
    )


def without_vacant(table: Table, objects: Objects) -> Table:
    """Return the table without its vacant entries: those whose object was observed and then
    deleted, or is absent from a list that began late enough.
    """
    kept = {}
    for index, entry in table.items():
        hosts = entry.hosts
        if absent := objects.absent(index, entry):
            late = entry.made + VACANT_SECONDS <= objects.listed
            vacant = {each for each in absent if late or objects.gone(each)}
            hosts = {host: each for host, each in hosts.items() if each not in vacant}
        if hosts:
            kept[index] = entry if hosts is entry.hosts else replace(entry, hosts=hosts)
    return kept


def vacancy(
    table: Table, objects: Objects, request: AnyRequest, block: int, *, open_new: bool = True
) -> tuple[int, int] | None:
    """Return the lowest free host of the lowest incomplete replica of a block; with `open_new`,
    otherwise the lowest index without a replica.
    """
    everything, hosts = (1 << request.hosts) - 1, frozenset(range(request.hosts))
    opened: int | None = None
    # A shard group has only 1 block.
    for index in count() if request.index else range(block * BLOCK, (block + 1) * BLOCK):
        if index in table and hosts.issubset(table[index].hosts):
            continue
        mask = _mask(table, objects, index)
        if not mask:
            if opened is None:
                opened = index
            if request.index:
                break
        elif mask & everything != everything:
            return index, lowest_bit(~mask)
    return (opened, 0) if open_new and opened is not None else None


def block_of(index: int) -> int:
    """Return the block of a replica index."""
    return index // BLOCK


def _mask(table: Table, objects: Objects, index: int) -> int:
    """Return the hosts of an index with an entry or an object, as a bit mask."""
    mask = objects.taken(index)
    for host in table[index].hosts if index in table else ():
        mask |= 1 << host
    return mask


def _place(
    table: Table, objects: Objects, request: AnyRequest, place: tuple[int, int], block: int
) -> Place:
    """Return the indices with the name of the replica, which is the same for all hosts: that of its
    entries, otherwise of its objects, otherwise a new one.
    """
    index, _ = place
    if request.index:
        name = request.cluster
    else:
        known = table[index].name if index in table else ""
        name = (
            known or objects.group.name_of(index) or (request.given.name if request.given else "")
        )
        if not name and request.hosts > 1:
            name = _new_name(table, objects, request, block)
    opens = not _mask(table, objects, index)
    return Place(*place, name, holder_of(request.uid, block), opens)


def _written(table: Table, place: Place, now: float) -> Place:
    entry = table.get(place.index) or Reserved()
    hosts = {**entry.hosts, place.host: place.holder}
    made = Reserved(place.name, max(now, entry.made), hosts)
    return replace(place, table={**table, place.index: made})


def _new_name(table: Table, objects: Objects, request: AnyRequest, block: int) -> str:
    known = {entry.name for entry in table.values()}
    names = (replica_name(request.key.group, f"{request.uid}/{block}", each) for each in count())
    return next(each for each in names if each not in known and not objects.group.has_name(each))
