"""Observed live pods of worker groups, by identity and by holder of a reservation: which identities
are taken, which replicas are incomplete, and which index is free.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from webhook.groups.identity import MAX_REPLICAS, GroupKey, HostIdentity
from webhook.groups.indices import Indices

_GONE_MAX: Final = 1 << 14


class _ReplicaHolders(Struct, gc=False):
    """Holders of a replica index: `mask` has a bit for each host held under `name`.

    KubeRay may reuse an index while pods of the failed replica still exist, so a second generation,
    or a second holder of an identity, is counted in `others` by (host, name). `lacking`: the index
    is in the set of incomplete replicas. `lost`: a holder was released. `closed` counts the holders
    that are marked for deletion: while there are any, no identity is assigned. `ready` counts those
    that are Ready; a replica is `whole` if it has all hosts once, Ready and not marked.
    """

    name: str
    mask: int = 0
    others: dict[tuple[int, str], int] | None = None
    lacking: bool = False
    lost: bool = False
    closed: int = 0
    ready: int = 0
    whole: bool = False

    def take(self, host: int, name: str) -> None:
        if name == self.name and not self.mask >> host & 1:
            self.mask |= 1 << host
            return
        counts = self.others = self.others or {}
        counts[host, name] = counts.get((host, name), 0) + 1

    def release(self, host: int, name: str) -> None:
        if self.others and (host, name) in self.others:
            self._drop(host, name)
        elif name == self.name:
            self.mask &= ~(1 << host)
        if not self.mask and self.others:
            self._promote(self.others)

    def _promote(self, others: dict[tuple[int, str], int]) -> None:
        """Make a later generation the replica, after the first one is deleted: one holder of each
        of its identities.
        """
        _, self.name = next(iter(others))
        for host, name in [identity for identity in others if identity[1] == self.name]:
            self._drop(host, name)
            self.mask |= 1 << host

    def _drop(self, host: int, name: str) -> None:
        counts = self.others or {}
        counts[host, name] -= 1
        if not counts[host, name]:
            del counts[host, name]

    @property
    def taken(self) -> int:
        """Return the mask of all hosts with a holder."""
        mask = self.mask
        if self.others:
            for host, _ in self.others:
                mask |= 1 << host
        return mask


class Occupancy:
    """Taken identities of a group. An identity may have several holders; it is free when its last
    holder is deleted.
    """

    __slots__ = ("_full", "_lacking", "_names", "_occupied", "_replicas", "_whole", "hosts", "key")

    def __init__(self, key: GroupKey | None = None) -> None:
        self.key = key
        """The group, so that its members share one object."""
        self._replicas: dict[int, _ReplicaHolders] = {}
        self._names: dict[str, int] = {}
        self._occupied = Indices()
        self._lacking = Indices()
        self._whole = 0
        self.hosts = 1
        self._full = 1

    def __bool__(self) -> bool:
        return bool(self._replicas)

    def take(self, identity: HostIdentity) -> None:
        replica = self._replicas.get(identity.replica)
        if replica is None:
            replica = self._replicas[identity.replica] = _ReplicaHolders(identity.name)
            if identity.replica < MAX_REPLICAS:
                self._occupied.add(identity.replica)
        replica.take(identity.host, identity.name)
        self._names[identity.name] = self._names.get(identity.name, 0) + 1
        self._note(identity.replica, replica)

    def release(self, identity: HostIdentity) -> None:
        replica = self._replicas[identity.replica]
        replica.release(identity.host, identity.name)
        self._names[identity.name] -= 1
        if not self._names[identity.name]:
            del self._names[identity.name]
        if replica.mask:
            replica.lost = True
            self._note(identity.replica, replica)
            return
        del self._replicas[identity.replica]
        if identity.replica < MAX_REPLICAS:
            self._occupied.discard(identity.replica)
            self._lacking.discard(identity.replica)

    def close(self, index: int, by: int = 1) -> None:
        """Add a holder that is marked for deletion to a replica, or remove one with `by` -1."""
        replica = self._replicas[index]
        replica.closed += by
        self._note(index, replica)

    def ready(self, index: int, by: int = 1) -> None:
        """Add a holder that is Ready to a replica, or remove one with `by` -1."""
        replica = self._replicas[index]
        replica.ready += by
        self._note(index, replica)

    @property
    def occupied(self) -> Indices:
        """Return the indices of all replicas below MAX_REPLICAS."""
        return self._occupied

    def incomplete(self, hosts: int) -> Indices:
        """Return the indices of the replicas that lack a host, without those marked for deletion.
        Another number of hosts than before iterates over all replicas.
        """
        self._set_hosts(hosts)
        return self._lacking

    def whole(self, hosts: int) -> int:
        """Return the number of whole replicas, which have all hosts, Ready and not marked for
        deletion.
        """
        self._set_hosts(hosts)
        return self._whole

    def is_whole(self, index: int) -> bool:
        replica = self._replicas.get(index)
        return replica is not None and replica.whole

    def ready_of(self, index: int) -> int:
        """Return the number of pods of a replica that are Ready."""
        replica = self._replicas.get(index)
        return 0 if replica is None else replica.ready

    def broken(self) -> list[int]:
        """Return the indices of the replicas that are not whole, in order. Iterates over all."""
        return sorted(index for index, replica in self._replicas.items() if not replica.whole)

    def taken(self, index: int) -> int:
        """Return the taken hosts of a replica as a bit mask; -1 if it is marked for deletion."""
        replica = self._replicas.get(index)
        return 0 if replica is None else -1 if replica.closed else replica.taken

    def has_lost(self, index: int) -> bool:
        """Return whether a replica has lost a host since its first one was observed."""
        replica = self._replicas.get(index)
        return replica is not None and replica.lost

    def name_of(self, index: int) -> str:
        """Return the name of a replica: the first one that any of its pods has."""
        replica = self._replicas.get(index)
        if replica is None:
            return ""
        return replica.name or next((name for _, name in replica.others or () if name), "")

    def has_name(self, name: str) -> bool:
        return name in self._names

    @property
    def replica_names(self) -> frozenset[str]:
        """Return the names of all replicas with a taken identity; the name is empty for single
        hosts.
        """
        return frozenset(self._names)

    def _set_hosts(self, hosts: int) -> None:
        if hosts != self.hosts:
            self.hosts = hosts
            self._full = (1 << hosts) - 1
            for index, replica in self._replicas.items():
                self._note(index, replica)

    def _note(self, index: int, replica: _ReplicaHolders) -> None:
        whole = (
            not replica.closed
            and not replica.others
            and replica.mask & self._full == self._full
            and replica.ready == replica.mask.bit_count()
        )
        if whole != replica.whole:
            replica.whole = whole
            self._whole += 1 if whole else -1
        lacking = not replica.closed and replica.taken & self._full != self._full
        if lacking == replica.lacking or index >= MAX_REPLICAS:
            return
        replica.lacking = lacking
        (self._lacking.add if lacking else self._lacking.discard)(index)


def name_hash(namespace: str, name: str) -> int:
    """Return 60 bits that stand for the name of a pod, in a third of its memory."""
    return hash((namespace, name)) >> 4


class Member(Struct, frozen=True, gc=False):
    """A live pod: its worker group, its identity, and the holder of its reservation. `marked`: the
    pod is marked for deletion with its replica. `ready`: it has the condition Ready. `name`: its
    `name_hash`.
    """

    key: GroupKey
    identity: HostIdentity | None
    holder: str = ""
    marked: bool = False
    ready: bool = False
    name: int = 0


class Membership:
    """Live pods of all worker groups, by uid. Lookups for a review take constant time."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, Occupancy] = {}
        self._pods: dict[str, Member] = {}
        self._uids: dict[GroupKey, set[str]] = {}
        """The uids of the pods of each group."""
        self._names: dict[int, str] = {}
        """The uids of the pods by `Member.name`."""
        self._holders: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """Numbers of pods by namespace and holder; copied manifests have the same holder."""
        self._gone: dict[tuple[str, str], None] = {}
        """Holders whose pod was observed, and then its deletion; the oldest are dropped."""

    def __len__(self) -> int:
        return len(self._pods)

    def group(self, key: GroupKey) -> Occupancy:
        """Return the identities of a group; for an unknown group, a new and empty one."""
        group = self._groups.get(key)
        return Occupancy() if group is None else group

    def put(self, uid: str, value: Member) -> None:
        """Add a pod. No identity of a replica is assigned while a pod of the replica is marked for
        deletion.
        """
        old = self._pods.get(uid)
        if old == value:
            return
        if old is not None and old == replace(value, ready=old.ready):
            self._change_ready(uid, old, value)
            return
        if value.identity is not None:
            value = self._join(value, value.identity)
        self._pods[uid] = value
        self._names[value.name] = uid
        if value.holder:
            self._holders[value.key.namespace][value.holder] += 1
        if old is None or old.key != value.key:
            self._uids.setdefault(value.key, set()).add(uid)
        if old is not None:
            self._leave(old)
            if old.key != value.key:
                self._forget(uid, old.key)

    def get(self, uid: str) -> Member | None:
        return self._pods.get(uid)

    def items(self) -> Iterable[tuple[str, Member]]:
        return self._pods.items()

    def remove(self, uid: str) -> None:
        member = self._pods.pop(uid, None)
        if member is not None:
            self._leave(member)
            self._forget(uid, member.key)
            # A live read may show a new pod of that name before the watch delivers this deletion.
            if self._names.get(member.name) == uid:
                del self._names[member.name]

    def named(self, namespace: str, name: str) -> tuple[str, Member] | None:
        """Return the uid and the member of the pod with a name."""
        uid = self._names.get(name_hash(namespace, name), "")
        member = self._pods.get(uid)
        return None if member is None else (uid, member)

    def holders(self, namespace: str) -> Collection[str]:
        return self._holders.get(namespace, ())

    def is_gone(self, namespace: str, holder: str) -> bool:
        """Return whether the pod of this holder was observed, and then its deletion."""
        return (namespace, holder) in self._gone and holder not in self.holders(namespace)

    def uids_in(self, key: GroupKey) -> Collection[str]:
        """Return the uids of the pods of a group."""
        return self._uids.get(key, ())

    def pod_in(self, key: GroupKey, replica: int, host: int, holder: str) -> str:
        """Return the uid of a pod of another holder that has an identity, or an empty text.
        Iterates over the pods of the group.
        """
        for uid in self.uids_in(key):
            member = self._pods[uid]
            identity = member.identity if member.holder != holder else None
            if identity is not None and (identity.replica, identity.host) == (replica, host):
                return uid
        return ""

    def _join(self, value: Member, identity: HostIdentity) -> Member:
        """Add an identity to its group. Return the member with the key object of the group."""
        group = self._groups.get(value.key)
        if group is None:
            group = self._groups[value.key] = Occupancy(value.key)
        elif group.key is not value.key:
            value = replace(value, key=group.key or value.key)
        group.take(identity)
        if value.marked:
            group.close(identity.replica)
        if value.ready:
            group.ready(identity.replica)
        return value

    def _change_ready(self, uid: str, old: Member, value: Member) -> None:
        """Replace a pod by one that differs only in `ready`, so that no identity is released."""
        self._pods[uid] = replace(value, key=old.key)
        if old.identity is not None:
            self._groups[old.key].ready(old.identity.replica, 1 if value.ready else -1)

    def _forget(self, uid: str, key: GroupKey) -> None:
        uids = self._uids[key]
        uids.discard(uid)
        if not uids:
            del self._uids[key]

    def _leave(self, member: Member) -> None:
        key, identity, holder = member.key, member.identity, member.holder
        if identity is not None:
            group = self._groups[key]
            if member.marked:
                group.close(identity.replica, -1)
            if member.ready:
                group.ready(identity.replica, -1)
            group.release(identity)
            if not group:
                del self._groups[key]
        if holder:
            holders = self._holders[key.namespace]
            holders[holder] -= 1
            if not holders[holder]:
                del holders[holder]
                self._gone[key.namespace, holder] = None
                # A dropped one costs a list, after which the same entries are vacant by absence.
                if len(self._gone) > _GONE_MAX:
                    del self._gone[next(iter(self._gone))]
