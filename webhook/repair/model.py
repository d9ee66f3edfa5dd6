"""A worker group as a look at the API server shows it, and what may be done to its pods."""

from binascii import crc32
from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from webhook.groups.seat import Seat

_DIGITS: Final = len(str(2**31))
"""Of a number of restarts, which has 32 bits; Python itself reads no number of more than 4,300."""


class Host(Struct, frozen=True, gc=False):
    """A worker pod in its seat, at a version of the API server.

    `ours` tells that admission gave it the seat. `ended` is a pod that Failed or Succeeded;
    `restarts` are those of Ray's container, which `runs` or does not. `sealed` is what was
    written into it when its replica was whole, with the restarts by then; empty before. `condemned`
    is the reason for which its replica is to go. `annotated` tells that it has annotations at all.
    """

    name: str
    uid: str
    version: str
    seat: Seat
    ours: bool = False
    deleting: bool = False
    ended: bool = False
    runs: bool = False
    restarts: int = 0
    sealed: str = ""
    condemned: str = ""
    annotated: bool = True

    @property
    def lives(self) -> bool:
        """Tell whether it neither ended nor is being deleted."""
        return not self.deleting and not self.ended

    @property
    def restarted(self) -> bool:
        """Tell whether Ray's container restarted since its replica was whole."""
        known = _restarts_of(self.sealed)
        return known is not None and self.restarts > known


class Head(Struct, frozen=True):
    """The head pod of a RayCluster, at a version of the API server.

    `replaced` was written on it: when replicas were replaced, in seconds since the epoch, by worker
    group. `annotated` tells that it has annotations at all.
    """

    name: str
    version: str
    replaced: dict[str, tuple[float, ...]] = field(default_factory=dict)
    annotated: bool = True


class Group(Struct, frozen=True):
    """A worker group of several hosts of one RayCluster: what it should have, and what is there.

    `version` changes with the spec of the RayCluster. `leaving` are the names in `workersToDelete`,
    where they may stay when their pods are gone. `repair` and `restart` are what its RayCluster
    asks for.
    """

    version: str
    hosts: int
    desired: int
    pods: tuple[Host, ...]
    name: str = ""
    head: Head | None = None
    repair: bool = False
    restart: bool = False
    suspended: bool = False
    leaving: frozenset[str] = frozenset()


class Seal(Struct, frozen=True, gc=False):
    """Write into a pod that its replica was whole, with these hosts."""

    host: Host
    text: str


class Note(Struct, frozen=True):
    """Write on the head pod when replicas were replaced, by worker group, in seconds since the
    epoch.
    """

    host: Head
    replaced: dict[str, tuple[float, ...]]


class Condemn(Struct, frozen=True, gc=False):
    """Mark a pod with the reason, so that no seat of its replica is given any more."""

    host: Host
    reason: str


class Delete(Struct, frozen=True, gc=False):
    """Delete a pod, for a reason."""

    host: Host
    reason: str


Action = Seal | Note | Condemn | Delete


def seal_of(hosts: Sequence[Host], host: Host) -> str:
    """Return what one of the hosts of a whole replica is sealed with: who they all are, and its
    restarts.
    """
    return f"{_digest(hosts)}.{host.restarts}"


def agrees(hosts: Sequence[Host], host: Host) -> bool:
    """Tell whether a host was sealed with just these hosts."""
    return host.sealed.partition(".")[0] == _digest(hosts)


def _digest(hosts: Sequence[Host]) -> str:
    return f"{crc32(','.join(sorted(host.uid for host in hosts)).encode()):08x}"


def _restarts_of(sealed: str) -> int | None:
    text = sealed.partition(".")[2]
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else None
