"""Allocation: from a reservation table, the cached objects and the time to an identity and the next
table.

docs/contributing/reservation.md has the proof. This module does no I/O and reads no clock.

See docs/contributing/decisions/0021-reservations-in-tables-of-their-own.md.
"""

from collections.abc import Collection
from hashlib import blake2b
from itertools import count, filterfalse
from typing import Final, Generic, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from webhook.api.review import FORBIDDEN, Cause, Denied, NotNow
from webhook.groups.annotations import read_index
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity import MAX_REPLICAS, GroupKey, HostIdentity, Key, ShardKey
from webhook.groups.identity_index import Membership
from webhook.groups.indices import Indices, lowest_bit
from webhook.groups.naming import replica_name
from webhook.reservation.stores import Reserved, Stored, Table

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

    def block_of(self, index: int) -> int:
        """Return the block of an index; a shard group has only block 0."""
        return 0 if self.index else index // BLOCK


AnyRequest = Request[Key]


class Allocation(Struct, frozen=True, gc=False):
    """A replica and host index, and the table to write first; None if it is written already.

    `unconfirmed`: by the cached objects, KubeRay lacks no such pod, so a live list has to confirm
    that it does.
    """

    index: int
    host: int
    name: str
    holder: str
    unconfirmed: bool = False
    table: Table | None = None


class Taken(Struct, frozen=True, gc=False):
    """The given indices are reserved for another object: a pod by its uid, empty until it appears,
    or a RayCluster by its name, empty until it is generated.
    """

    index: int
    host: int
    holder: str


Found = Allocation | Taken


class Choice(Struct, frozen=True, gc=False):
    """The indices for a request, and the block of their table.

    `waiting`: the indices are those of a replica beyond the desired number, and this many entries
    have no object yet. `overdue`: a list that begins now can prove that entries are vacant.
    """

    found: Found
    block: int
    waiting: int = 0
    overdue: bool = False


class Pods:
    """The pods of a worker group. `listed` is the start time of the newest complete list."""

    def __init__(self, members: Membership, key: GroupKey, listed: float) -> None:
        self.listed = listed
        self._group = members.group(key)
        self._members = members
        self._key = key

    @property
    def occupied(self) -> Indices:
        """Return the indices with an object."""
        return self._group.occupied

    def incomplete(self, hosts: int) -> Indices:
        """Return those of them that lack an object, and may get it."""
        return self._group.incomplete(hosts)

    def taken(self, index: int) -> int:
        """Return the hosts with an object as bits; -1 for all."""
        return self._group.taken(index)

    def has_lost(self, index: int) -> bool:
        """Return whether an object of a replica was deleted, while others of it exist."""
        return self._group.has_lost(index)

    def name_of(self, index: int) -> str:
        """Return the name of a replica, or an empty text."""
        return self._group.name_of(index)

    def has_name(self, name: str) -> bool:
        return self._group.has_name(name)

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
        taken = self._group.taken(index) >> host & 1
        return self._members.pod_in(self._key, index, host, holder) if taken else ""


class Shards:
    """The RayClusters of a shard group for a request of RayCluster `cluster`: replicas of 1 host
    without a name.
    """

    def __init__(self, clusters: ClusterIndex, key: ShardKey, cluster: str, listed: float) -> None:
        self.listed = listed
        self._cluster = cluster
        self._holders: dict[int, list[str]] = {}
        for cluster_config in clusters.shards(key):
            if (index := read_index(cluster_config.shard_index)) is not None:
                self._holders.setdefault(index, []).append(cluster_config.name)

    @property
    def occupied(self) -> Indices:
        return Indices(filter(self.taken, self._holders))

    def incomplete(self, hosts: int) -> Indices:
        del hosts
        return Indices()

    def taken(self, index: int) -> int:
        return int(bool(self._others(index)))

    def has_lost(self, index: int) -> bool:
        del index
        return False

    def name_of(self, index: int) -> str:
        del index
        return ""

    def has_name(self, name: str) -> bool:
        del name
        return False

    def absent(self, index: int, entry: Reserved) -> Collection[str]:
        holders = self._holders.get(index, ())  # RayClusters are identified by name
        exists = entry.name in holders if entry.name else bool(holders)
        return () if exists else entry.hosts.values()

    def gone(self, holder: str) -> bool:
        del holder  # of two creations with the same name, the API server may still store the second
        return False

    def other(self, index: int, host: int, holder: str) -> str:
        del host, holder
        return next(iter(self._others(index)), "")

    def _others(self, index: int) -> list[str]:
        return [name for name in self._holders.get(index, ()) if name != self._cluster]


Objects = Pods | Shards


class Tables(Struct):
    """Copies of the tables of a group by block, and the indices with an entry."""

    stored: dict[int, Stored] = field(default_factory=dict)
    indices: Indices = field(default_factory=Indices)

    def table(self, block: int) -> Table:
        stored = self.stored.get(block)
        return stored.table if stored else {}

    def put(self, block: int, stored: Stored) -> None:
        self.pop(block)
        self.stored[block] = stored
        for index in stored.table:
            self.indices.add(index)

    def pop(self, block: int) -> Stored | None:
        """Remove and return a copy."""
        stored = self.stored.pop(block, None)
        for index in stored.table if stored else ():
            self.indices.discard(index)
        return stored


class _ReplicaEntry(Struct, gc=False):
    """A replica: its entry without what is vacant, the number of entries whose object has not
    appeared, and the hosts with an entry or object as bits. `opened`: one of its objects exists.
    """

    entry: Reserved
    pending: int
    mask: int
    opened: bool


class Replicas:
    """The replicas of a group by its objects and tables, for a request. Those that lack an object
    are walked, once; the others are complete.
    """

    def __init__(self, tables: Tables, objects: Objects, request: AnyRequest) -> None:
        self.walked: dict[int, _ReplicaEntry] = {}
        self._tables = tables
        self._objects = objects
        self._request = request
        occupied, full = objects.occupied, (1 << request.hosts) - 1
        self._used = used = occupied | tables.indices
        missing, best, incomplete = 0, 2, None
        for index in objects.incomplete(request.hosts) | tables.indices - occupied:
            replica = self.walked[index] = self._read(index)
            lacking = full & ~replica.mask
            if not replica.mask:
                used.discard(index)
            elif lacking:
                missing += lacking.bit_count()
                if best > (rank := 0 if replica.opened else 1):
                    # A replica with entries only comes last: its pods may never appear.
                    best, incomplete = rank, (index, lowest_bit(lacking))
        self._identities = len(used) * request.hosts - missing
        self._free = incomplete or (used.lowest_absent, 0)

    def _read(self, index: int) -> _ReplicaEntry:
        entry = self._tables.table(self._request.block_of(index)).get(index)
        mask = taken = self._objects.taken(index)
        if entry is None:
            return _ReplicaEntry(Reserved(), 0, mask, mask != 0)
        entry, pending = without_vacant(entry, self._objects, index)
        for host in entry.hosts:
            mask |= 1 << host
        return _ReplicaEntry(entry, pending, mask, taken != 0 or pending < len(entry.hosts))

    def read(self, index: int) -> _ReplicaEntry:
        return self.walked.get(index) or self._read(index)

    @property
    def pending(self) -> int:
        """Return the number of entries whose object has not appeared."""
        return sum(replica.pending for replica in self.walked.values())

    def overdue(self, now: float) -> bool:
        """Return whether a list that begins now can prove that entries are vacant."""
        return any(
            replica.pending and replica.entry.made + VACANT_SECONDS <= now
            for replica in self.walked.values()
        )

    def free(self) -> tuple[int, int]:
        """Return the lowest free host of the lowest incomplete replica, of those with an object
        before those with entries only; otherwise of the lowest index without a replica. Raises
        Denied if all indices are taken.
        """
        if self._free[0] >= MAX_REPLICAS and not self._request.index:
            message = (
                f"all {MAX_REPLICAS} replica indices of group {self._request.key.group} are taken"
            )
            raise Denied(Cause(FORBIDDEN, f"{message}: use more worker groups", ""))
        return self._free

    def own(self) -> tuple[int, int] | None:
        """Return the indices in an entry of this request, in the blocks of the walked replicas and
        of the free one.
        """
        request, identity = self._request, self._request.given
        if not self._tables.stored:
            return None
        indices = [*self.walked, identity.replica if identity else self._free[0]]
        for block in sorted(set(map(request.block_of, indices))):
            own_indices = own_entry(self._tables.table(block), request, block)
            if own_indices is not None:
                return own_indices
        return None

    def _others(self, index: int) -> int:
        return len(self._used) - (index in self._used)

    def exceeds(self, index: int) -> bool:
        """Return whether a replica without objects is beyond the desired number."""
        return self._others(index) >= self._request.desired and not self.read(index).opened

    def unconfirmed(self, index: int) -> bool:
        """Return whether the cached objects may be too old to choose a replica by them: none of its
        pods is lacking; it has lost one, and may be losing the others; or it is the last of several
        tables, and other processes may have opened it.
        """
        hosts, desired = self._request.hosts, self._request.desired
        if self.read(index).opened:
            # KubeRay creates no pod beyond the desired number, so the cached pods or that number
            # are old.
            surplus = len(self._used) > desired or self._identities >= desired * hosts
            return surplus or self._objects.has_lost(index)
        last = max(desired - 1, index, self._used.highest, self._tables.indices.highest)
        return self._others(index) >= desired - (hosts > 1 and last >= BLOCK)

    def place(self, index: int, host: int) -> Allocation:
        """Return the indices with the name of the replica, which is the same for all hosts: that of
        its entries, otherwise of its objects, otherwise a new one.
        """
        request, objects, block = self._request, self._objects, self._request.block_of(index)
        identity = request.given
        if request.index:
            name = request.cluster
        else:
            # The entry first: labels of live pods can be edited, and all hosts need one name.
            name = self.read(index).entry.name or objects.name_of(index) or (identity or _NONE).name
            if not name and request.hosts > 1:
                name = _new_name(self._tables.table(block), objects, request, block)
        unconfirmed = identity is None and self.unconfirmed(index)
        return Allocation(
            index, host, name=name, holder=holder_of(request.uid, block), unconfirmed=unconfirmed
        )

    def written(self, place: Allocation, now: float) -> Allocation:
        """Return a place with the next table, which has an entry for it, and no vacant ones of the
        walked replicas.
        """
        index, block_of = place.index, self._request.block_of
        table = dict(self._tables.table(block_of(index)))
        for other, replica in self.walked.items():
            if other in table:
                table[other] = replica.entry
                if not replica.entry.hosts:
                    del table[other]
        entry = self.read(index).entry
        hosts = {**entry.hosts, place.host: place.holder}
        # Never earlier than before: 60 s after `made`, no pod of any of these hosts can appear.
        table[index] = Reserved(place.name, max(now, entry.made), hosts)
        return replace(place, table=table)


_NONE: Final = HostIdentity(0, 0, "")


def holder_of(uid: str, block: int) -> str:
    """Return the holder of the entries of a request in a block: 12 characters."""
    return blake2b(f"{uid}/{block}".encode(), digest_size=6).hexdigest()


def allocate(tables: Tables, objects: Objects, request: AnyRequest, now: float) -> Choice:
    """Return the indices for a request. Raises NotNow if another pod has the identity in the
    request's own entry, and Denied if all indices are taken.
    """
    replicas, identity = Replicas(tables, objects, request), request.given
    own_indices = replicas.own()
    if own_indices is not None:
        index, host = own_indices
        block = request.block_of(index)
        holder, entry = holder_of(request.uid, block), tables.table(block)[index]
        other = objects.other(*own_indices, holder)
        if not other:
            place = replace(replicas.place(*own_indices), unconfirmed=False)
            # An older entry may become vacant at another process before this answer reaches the API
            # server.
            fresh = now - entry.made <= RENEW_SECONDS and entry.name == place.name
            # Several creations of a RayCluster have one name: the entry may be that of another
            # request.
            written = fresh and not request.index
            return Choice(place if written else replicas.written(place, now), block)
        if host in replicas.read(index).entry.hosts:
            # Not dropped: another process may have answered this request with the identity.
            raise NotNow(f"replica {index} host {host} of this request is {other}'s")
    index, host = (identity.replica, identity.host) if identity else replicas.free()
    block, overdue = request.block_of(index), replicas.overdue(now)
    if identity and (replica := replicas.read(index)).mask >> host & 1:
        name = replica.entry.name if request.index else ""
        other = objects.other(index, host, holder_of(request.uid, block)) or name
        return Choice(Taken(index, host, other), block, overdue=overdue)
    waiting = replicas.pending if replicas.exceeds(index) else 0
    place = replicas.written(replicas.place(index, host), now)
    return Choice(place, block, waiting, overdue)


def own_entry(table: Table, request: AnyRequest, block: int) -> tuple[int, int] | None:
    """Return the indices in the entry of this request, or, for a shard index, in the entry of its
    RayCluster.
    """
    holder, identity = holder_of(request.uid, block), request.given
    for index, entry in table.items():
        named = request.index and request.cluster == entry.name != ""
        if named or holder in entry.hosts.values():
            for host, entry_holder in entry.hosts.items():
                only = identity is None or (identity.replica, identity.host) == (index, host)
                if (named or entry_holder == holder) and only and host < request.hosts:
                    return index, host
    return None


def pending(objects: Objects, index: int, entry: Reserved) -> list[str]:
    """Return the holders in an entry whose object was not observed yet."""
    return [holder for holder in objects.absent(index, entry) if not objects.gone(holder)]


def without_vacant(entry: Reserved, objects: Objects, index: int) -> tuple[Reserved, int]:
    """Return an entry without its vacant hosts: those whose object was observed and then deleted,
    or is absent from a list that began late enough; and the number of the other hosts without an
    object.
    """
    absent = objects.absent(index, entry)
    if not absent:
        return entry, 0
    late = entry.made + VACANT_SECONDS <= objects.listed
    vacant = {holder for holder in absent if late or objects.gone(holder)}
    if not vacant:
        return entry, len(absent)
    hosts = {host: holder for host, holder in entry.hosts.items() if holder not in vacant}
    if not hosts:
        return Reserved(), 0
    return replace(entry, hosts=hosts), len(absent) - len(vacant)


def _new_name(table: Table, objects: Objects, request: AnyRequest, block: int) -> str:
    used_names = {entry.name for entry in table.values()}
    names = (
        replica_name(request.key.group, f"{request.uid}/{block}", number) for number in count()
    )
    return next(name for name in names if name not in used_names and not objects.has_name(name))
