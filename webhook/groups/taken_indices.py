"""The identities of a worker group: which are taken, which replicas are incomplete, and which index
is free.
"""

from typing import Final

from msgspec import Struct

from webhook.groups.identity import MAX_REPLICAS, HostIdentity

_BITS: Final = 1024
_FULL: Final = (1 << _BITS) - 1


class IndexSet:
    """A bitset of two levels: words of 1,024 bits, and which words have any bit, and which have
    all.

    Operations take constant time below a million members; with a flat integer, they would take
    linear time.
    """

    __slots__ = ("_any", "_full", "_words")

    def __init__(self) -> None:
        self._words: list[int] = []
        self._any = 0
        self._full = 0

    def add(self, index: int) -> None:
        number, bit = divmod(index, _BITS)
        words = self._words
        if number >= len(words):
            words.extend([0] * (number + 1 - len(words)))
        word = words[number] = words[number] | 1 << bit
        self._any |= 1 << number
        if word == _FULL:
            self._full |= 1 << number

    def discard(self, index: int) -> None:
        number, bit = divmod(index, _BITS)
        words = self._words
        if number >= len(words) or not words[number] >> bit & 1:
            return
        word = words[number] = words[number] & ~(1 << bit)
        self._full &= ~(1 << number)
        if not word:
            self._any &= ~(1 << number)

    def lowest(self) -> int | None:
        if not self._any:
            return None
        number = lowest_bit(self._any)
        return number * _BITS + lowest_bit(self._words[number])

    def lowest_absent(self) -> int:
        number = lowest_bit(~self._full)
        if number >= len(self._words):
            return number * _BITS
        return number * _BITS + lowest_bit(~self._words[number])


def lowest_bit(bits: int) -> int:
    """Return the position of the lowest bit that is set."""
    return (bits & -bits).bit_length() - 1


class _Replica(Struct, gc=False):
    """Holders of a replica index: `mask` has a bit for each host held under `name`.

    KubeRay may reuse an index while pods of the failed replica still exist, so a second generation,
    or a second holder of an identity, is counted in `others` by (host, name). `lacking`: the index
    is in the set of incomplete replicas. `closed` counts the holders that are marked for deletion:
    while there are any, no identity is assigned.
    """

    name: str
    mask: int = 0
    others: dict[tuple[int, str], int] | None = None
    lacking: bool = False
    closed: int = 0

    def take(self, host: int, name: str) -> None:
        if name == self.name and not self.mask >> host & 1:
            self.mask |= 1 << host
            return
        others = self.others = self.others or {}
        others[host, name] = others.get((host, name), 0) + 1

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
        for host, name in [seat for seat in others if seat[1] == self.name]:
            self._drop(host, name)
            self.mask |= 1 << host

    def _drop(self, host: int, name: str) -> None:
        others = self.others or {}
        others[host, name] -= 1
        if not others[host, name]:
            del others[host, name]

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

    __slots__ = ("_full", "_lacking", "_names", "_occupied", "_replicas", "hosts")

    def __init__(self) -> None:
        self._replicas: dict[int, _Replica] = {}
        self._names: dict[str, int] = {}
        self._occupied = IndexSet()
        self._lacking = IndexSet()
        self.hosts = 1
        self._full = 1

    def __bool__(self) -> bool:
        return bool(self._replicas)

    def take(self, seat: HostIdentity) -> None:
        """Add a holder of `seat`."""
        replica = self._replicas.get(seat.replica)
        if replica is None:
            replica = self._replicas[seat.replica] = _Replica(seat.name)
            if seat.replica < MAX_REPLICAS:
                self._occupied.add(seat.replica)
        replica.take(seat.host, seat.name)
        self._names[seat.name] = self._names.get(seat.name, 0) + 1
        self._note(seat.replica, replica)

    def release(self, seat: HostIdentity) -> None:
        replica = self._replicas[seat.replica]
        replica.release(seat.host, seat.name)
        self._names[seat.name] -= 1
        if not self._names[seat.name]:
            del self._names[seat.name]
        if replica.mask:
            self._note(seat.replica, replica)
            return
        del self._replicas[seat.replica]
        if seat.replica < MAX_REPLICAS:
            self._occupied.discard(seat.replica)
            self._lacking.discard(seat.replica)

    def close(self, index: int, by: int = 1) -> None:
        """Add a holder that is marked for deletion to a replica, or remove one with `by` -1."""
        replica = self._replicas[index]
        replica.closed += by
        self._note(index, replica)

    def lowest(self, hosts: int) -> tuple[int, int | None]:
        """Return the lowest index without a complete replica, and that of an incomplete replica, or
        None. Another number of hosts than before iterates over all replicas.
        """
        if hosts != self.hosts:
            self.hosts = hosts
            self._full = (1 << hosts) - 1
            for index, replica in self._replicas.items():
                self._note(index, replica)
        free, lacking = self._occupied.lowest_absent(), self._lacking.lowest()
        return free if lacking is None else min(free, lacking), lacking

    def taken(self, index: int) -> int:
        """Return the taken hosts of a replica as a bit mask; -1 if it is marked for deletion."""
        replica = self._replicas.get(index)
        return 0 if replica is None else -1 if replica.closed else replica.taken

    def name_of(self, index: int) -> str:
        """Return the name of a replica: the first one that any of its pods has."""
        replica = self._replicas.get(index)
        if replica is None:
            return ""
        return replica.name or next((name for _, name in replica.others or () if name), "")

    def has_name(self, name: str) -> bool:
        """Return whether a taken identity has this replica name."""
        return name in self._names

    @property
    def replica_names(self) -> frozenset[str]:
        """Return the names of all replicas with a taken identity; the name is empty for single
        hosts.
        """
        return frozenset(self._names)

    def _note(self, index: int, replica: _Replica) -> None:
        lacking = not replica.closed and replica.taken & self._full != self._full
        if lacking == replica.lacking or index >= MAX_REPLICAS:
            return
        replica.lacking = lacking
        if lacking:
            self._lacking.add(index)
        else:
            self._lacking.discard(index)
