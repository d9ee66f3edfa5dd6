"""A worker group as described by the API server and its record, and the actions on its pods."""

from binascii import crc32
from typing import Final

from msgspec import Struct

from webhook.groups.identity import HostIdentity


class Host(Struct, frozen=True, gc=False):
    """A worker pod with its identity, at one resourceVersion.

    `ours`: admission assigned the identity. `ended`: the pod Failed or Succeeded. `restarts` and
    `runs` are of Ray's container. `marked`: the pod has the label that keeps admission from
    assigning further hosts of its replica. The label is no reason to delete a pod.
    """

    name: str
    uid: str
    version: str
    seat: HostIdentity
    ours: bool = False
    deleting: bool = False
    ended: bool = False
    runs: bool = False
    restarts: int = 0
    marked: bool = False

    @property
    def id(self) -> str:
        """The uid as a record has it: 8 hexadecimal digits."""
        return f"{crc32(self.uid.encode()):08x}"

    @property
    def lives(self) -> bool:
        """Whether the pod has neither ended nor is being deleted."""
        return not self.deleting and not self.ended


class Record(Struct, frozen=True, omit_defaults=True):
    """The repair state of one worker group, which only the controller can write.

    `whole` has, by replica name and id of the host, the restarts at the time when all hosts of the
    replica ran. `going` has the replicas that are being deleted, each with the reason. `replaced`
    has the deleted replicas, each with the time in seconds since the epoch.
    """

    whole: dict[str, dict[str, int]] = {}
    going: dict[str, str] = {}
    replaced: dict[str, float] = {}


EMPTY: Final = Record()


class Group(Struct, frozen=True):
    """A multi-host worker group of one RayCluster: its desired size, and its pods.

    `version` changes with the spec of the RayCluster. `leaving` are the names in `workersToDelete`,
    which may remain there after their pods are deleted. `repair` and `restart` are the opt-ins of
    the RayCluster. `head`: a head pod exists that has neither ended nor is being deleted.
    """

    version: str
    hosts: int
    desired: int
    pods: tuple[Host, ...]
    head: bool = False
    repair: bool = False
    restart: bool = False
    suspended: bool = False
    leaving: frozenset[str] = frozenset()


class Mark(Struct, frozen=True, gc=False):
    """Label a pod, so that admission assigns no further host of its replica."""

    host: Host
    reason: str


class Delete(Struct, frozen=True, gc=False):
    """Delete a pod, for a reason."""

    host: Host
    reason: str


class Unmark(Struct, frozen=True, gc=False):
    """Remove the label from a pod whose replica is not being deleted: another user wrote it."""

    host: Host


Action = Mark | Delete | Unmark
