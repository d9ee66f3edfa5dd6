"""The repair plan: the next record and the next actions, from a worker group and its record.

A replica with all hosts running is recorded with the uids of the hosts. A recorded replica without
one of them has lost a host, even if another pod has its identity; a replica that was never recorded
has lost nothing. A replica to delete is recorded first, then its pods are marked, so that admission
assigns no further host of it, and then deleted. Another process continues from the record; nothing
that other users can write on a pod is a reason to delete a pod.
"""

from binascii import crc32
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from webhook.groups.identity import HostIdentity

HOUR: Final = 3600.0

LOST: Final = "host-lost"
RESTARTED: Final = "container-restarted"
INCOMPLETE: Final = "replica-incomplete"
"""Reasons to delete a replica; they are label values."""
DUPLICATE: Final = "host-duplicate"
"""The reason to delete one pod: a recorded, live pod has the same identity."""

CHANGING: Final = "the RayCluster has just changed"
SUSPENDED: Final = "the RayCluster or the group is suspended"
SCALING: Final = "the group scales down"
HEADLESS: Final = "the RayCluster has no head pod that lasts"
SPENT: Final = "the budget of this hour is spent"
DELETING: Final = "another replica of the group is being deleted"
TOO_NEW: Final = "it has not been broken long enough"


class RepairHost(Struct, frozen=True, gc=False):
    """A worker pod with its identity, at one resourceVersion.

    `ours`: admission assigned the identity. `ended`: the pod Failed or Succeeded. `restarts` and
    `runs` are of Ray's container. `marked`: the pod has the label that keeps admission from
    assigning further hosts of its replica. The label is no reason to delete a pod.
    """

    name: str
    uid: str
    version: str
    identity: HostIdentity
    ours: bool
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
        return not self.deleting and not self.ended


class Record(Struct, frozen=True, omit_defaults=True):
    """The repair state of one worker group, which only the controller can write.

    `whole` has, by replica name and id of the host, the restarts at the time when all hosts of the
    replica ran. `deleting` has the replicas that are being deleted, each with the reason.
    `replaced` has the deleted replicas, each with the time in seconds since the epoch.
    """

    whole: dict[str, dict[str, int]] = {}
    deleting: dict[str, str] = {}
    replaced: dict[str, float] = {}


EMPTY: Final = Record()


class RepairGroup(Struct, frozen=True):
    """A worker group of one RayCluster: its desired size, and its pods.

    `version` changes with the spec of the RayCluster. `workers_to_delete` are the names in
    `workersToDelete`, which may remain there after their pods are deleted. `repair` and `restart`
    are the opt-ins of the RayCluster. `head`: a head pod exists that has neither ended nor is being
    deleted.
    """

    version: str
    hosts: int
    desired: int
    pods: tuple[RepairHost, ...]
    head: bool = False
    repair: bool = False
    restart: bool = False
    suspended: bool = False
    workers_to_delete: frozenset[str] = frozenset()


MARK: Final = "mark"
"""Label a pod, so that admission assigns no further host of its replica."""
DELETE: Final = "delete"
UNMARK: Final = "unmark"
"""Remove the label from a pod whose replica is not being deleted: another user wrote it."""


class Action(Struct, frozen=True, gc=False):
    """One of the above on a pod, with the reason to delete its replica."""

    kind: str
    host: RepairHost
    reason: str = ""


class RepairLimits(Struct, frozen=True, gc=False):
    """The delay before a broken replica is replaced, in seconds, and the replacements per hour."""

    wait: float = 30.0
    per_hour: int = 6


LIMITS: Final = RepairLimits()


class Memory(Struct):
    """Times that one process remembers of a group; empty after a restart."""

    version: str | None = None
    since: float = 0.0
    broken: dict[str, float] = field(default_factory=dict)
    """The time when each replica was first observed broken, by name."""


class Plan(Struct, frozen=True):
    """The record to write first, the actions after it, and why broken replicas have to wait."""

    record: Record
    actions: list[Action]
    waiting: dict[str, str]


def plan(
    group: RepairGroup,
    record: Record,
    memory: Memory,
    limits: RepairLimits,
    now: float,
    date: float,
) -> Plan:
    """Return the next record and actions of a group; times are stored in `memory`.

    `now` is monotonic; `date`, in seconds since the epoch, is comparable across processes.
    """
    # KubeRay acts on a changed spec for some time, in which replicas are incomplete.
    if memory.version != group.version:
        memory.version, memory.since = group.version, now
    extra = [Action(DELETE, host, DUPLICATE) for host in _duplicates(group, record)]
    if extra:
        duplicate_uids = {deletion.host.uid for deletion in extra}
        group = replace(
            group, pods=tuple(pod for pod in group.pods if pod.uid not in duplicate_uids)
        )
        repair_plan = plan(group, record, memory=memory, limits=limits, now=now, date=date)
        # An extra pod is no reason to replace the replica, which is complete without it.
        return replace(repair_plan, actions=[*extra, *repair_plan.actions])
    replicas = _replicas(group.pods)
    record = _update_record(record, replicas, date)
    broken = _broken(group, record, replicas=replicas, memory=memory, now=now)
    # One replica at a time: identities are free again only once all of its pods are being deleted.
    if record.deleting or _has_terminating(record, replicas):
        waiting = {name: DELETING for name in broken if name not in record.deleting}
        return Plan(record, _actions(record, replicas), waiting)
    record = replace(record, whole={**record.whole, **_whole(group, record, replicas)})
    ripe = [name for name in broken if now - memory.broken[name] >= limits.wait]
    hold = broken and _hold(group, record, memory=memory, limits=limits, now=now, date=date)
    if hold or not ripe:
        return Plan(record, _actions(record, replicas), dict.fromkeys(broken, hold or TOO_NEW))
    # An incomplete replica may still be filled by pods of another replica that is deleted first.
    first = min(
        ripe,
        key=lambda name: (
            broken[name] == INCOMPLETE,
            memory.broken[name],
            len(replicas[name]),
            name,
        ),
    )
    record = replace(record, deleting={first: broken[first]})
    waiting = {name: DELETING if name in ripe else TOO_NEW for name in broken if name != first}
    return Plan(record, _actions(record, replicas), waiting)


def _duplicates(group: RepairGroup, record: Record) -> list[RepairHost]:
    """Return the unrecorded pods that have the identity of a recorded, live pod."""
    owners = {
        host.identity
        for host in group.pods
        if host.lives and host.id in record.whole.get(host.identity.name, ())
    }
    return [
        host
        for host in group.pods
        if group.repair
        and not host.deleting
        and host.identity in owners
        and host.id not in record.whole[host.identity.name]
    ]


def _replicas(pods: Iterable[RepairHost]) -> dict[str, list[RepairHost]]:
    ordered = sorted(pods, key=lambda host: (host.identity.name, host.identity.host, host.uid))
    return {name: list(hosts) for name, hosts in groupby(ordered, lambda host: host.identity.name)}


def _update_record(
    record: Record, replicas: Mapping[str, Sequence[RepairHost]], date: float
) -> Record:
    """Return a record without obsolete entries, with deleted replicas as replaced."""
    # Not when the deletion begins: one that fails uses nothing of the budget.
    gone = {name for name in record.deleting if _all_deleting(replicas.get(name, ()))}
    replaced = {**record.replaced, **dict.fromkeys(sorted(gone), date)}
    return Record(
        {name: hosts for name, hosts in record.whole.items() if name in replicas},
        {name: reason for name, reason in record.deleting.items() if name not in gone},
        # Older ones are needed as long as their pods terminate.
        {name: at for name, at in replaced.items() if _recent(at, date) or name in replicas},
    )


def _all_deleting(pods: Sequence[RepairHost]) -> bool:
    return all(host.deleting for host in pods)


def _recent(at: float, date: float) -> bool:
    """Return whether a time is in the last hour, or an hour ahead after a clock change."""
    return abs(date - at) < HOUR


def _has_terminating(record: Record, replicas: Mapping[str, Sequence[RepairHost]]) -> bool:
    """Return whether pods of a replaced replica still exist, all of them being deleted."""
    return any(name in replicas and _all_deleting(replicas[name]) for name in record.replaced)


def _actions(record: Record, replicas: Mapping[str, Sequence[RepairHost]]) -> list[Action]:
    """Return the next actions on each replica: mark the pods of a replica to delete, or delete them
    when all are marked; remove the mark elsewhere.
    """
    actions: list[Action] = []
    for name, pods in replicas.items():
        left = [host for host in pods if not host.deleting]
        unmarked = [host for host in left if not host.marked]
        reason = record.deleting.get(name)
        # Any user who may patch pods can write the label; only the record counts.
        if reason is None:
            actions += [Action(UNMARK, host) for host in left if host.marked]
        elif unmarked:
            actions += [Action(MARK, host, reason) for host in unmarked]
        else:
            actions += [Action(DELETE, host, reason) for host in left]
    return actions


def _whole(
    group: RepairGroup, record: Record, replicas: Mapping[str, Sequence[RepairHost]]
) -> dict[str, dict[str, int]]:
    """Return the complete replicas that are not recorded, or have fully restarted since."""
    return {
        name: {host.id: host.restarts for host in pods}
        for name, pods in replicas.items()
        if _runs(group, pods)
        and (
            name not in record.whole
            # All hosts have restarted, so they have joined again and the slice is complete.
            or _count_restarted_hosts(record.whole[name], pods) == len(pods)
        )
    }


def _count_restarted_hosts(whole: Mapping[str, int], pods: Iterable[RepairHost]) -> int:
    """Return the number of recorded hosts that have restarted since."""
    return sum(host.restarts > whole.get(host.id, host.restarts) for host in pods)


def _runs(group: RepairGroup, pods: Sequence[RepairHost]) -> bool:
    hosts = {host.identity.host for host in pods}
    return len(pods) == group.hosts == len(hosts) and all(host.lives and host.runs for host in pods)


def _broken(
    group: RepairGroup,
    record: Record,
    replicas: Mapping[str, Sequence[RepairHost]],
    memory: Memory,
    now: float,
) -> dict[str, str]:
    """Return the replicas to repair with reasons, and remember the first observation."""
    reasons_by_replica = {
        name: reason
        for name, pods in replicas.items()
        if (reason := _fault(group, record.whole.get(name), pods))
    }
    memory.broken = {name: memory.broken.get(name, now) for name in reasons_by_replica}
    return reasons_by_replica


def _fault(group: RepairGroup, whole: Mapping[str, int] | None, pods: Sequence[RepairHost]) -> str:
    """Return the fault of a replica with repair enabled, or an empty string."""
    live = {host.id: host for host in pods if host.lives}
    if _all_deleting(pods):
        return ""
    # KubeRay itself replaces a replica whose identities it assigned.
    is_repairable = group.repair and all(host.ours for host in pods)
    if whole is None:
        lacks = 0 < len(live) < group.hosts
        return INCOMPLETE if is_repairable and lacks and _full(group) else ""
    # If all have restarted, they start again together.
    if group.restart and 0 < _count_restarted_hosts(whole, live.values()) < len(live):
        return RESTARTED
    return LOST if is_repairable and not whole.keys() <= live.keys() else ""


def _full(group: RepairGroup) -> bool:
    """Return whether a group has all its pods, so that KubeRay creates no more."""
    return sum(host.lives for host in group.pods) >= group.desired * group.hosts


def _hold(
    group: RepairGroup,
    record: Record,
    memory: Memory,
    limits: RepairLimits,
    now: float,
    date: float,
) -> str:
    """Return the reason why no replica of a group is replaced now, or an empty string."""
    # Workers cannot start without a head, so a replacement would not help.
    if not group.head:
        return HEADLESS
    if group.suspended:
        return SUSPENDED
    if now - memory.since < limits.wait:
        return CHANGING
    surplus = sum(not host.deleting for host in group.pods) > group.desired * group.hosts
    if not surplus and any(host.name in group.workers_to_delete for host in group.pods):
        return SCALING
    spent = sum(_recent(at, date) for at in record.replaced.values())
    return SPENT if spent >= limits.per_hour else ""
