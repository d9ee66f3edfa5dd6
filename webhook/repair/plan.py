"""The plan: from a look at a worker group, and what earlier looks showed, the next actions.

A replica that is whole is *sealed*: each of its pods learns who all of them are. A sealed replica
whose pods are others by now has lost a host, even if another one has taken its seat; one that was
never whole has lost nothing. All of that is in the pods, so any process goes on where another
stopped. A replica that is to go is first condemned, pod by pod, so that seating gives no seat of it
away, and then deleted.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from msgspec import Struct, field

from webhook.repair.model import Action, Condemn, Delete, Group, Host, Note, Seal, agrees, seal_of

HOUR: Final = 3600.0

LOST: Final = "host-lost"
RESTARTED: Final = "container-restarted"
TORN: Final = "replica-torn"
"""Reasons for which a replica goes; they are label values."""

CHANGING: Final = "the RayCluster has just changed"
SUSPENDED: Final = "the RayCluster or the group is suspended"
SCALING: Final = "pods are leaving the group"
HEADLESS: Final = "the RayCluster has no head pod that lasts"
SPENT: Final = "the budget of this hour is spent"
GOING: Final = "another replica of the group is going"
TOO_NEW: Final = "it has not been broken long enough"


class Limits(Struct, frozen=True, gc=False):
    """How long a replica is broken before it is replaced, in seconds, and how many are in an
    hour.
    """

    wait: float = 30.0
    per_hour: int = 6


class Memory(Struct):
    """What is remembered of a group from look to look; a process that begins remembers nothing."""

    version: str | None = None
    since: float = 0.0
    broken: dict[str, float] = field(default_factory=dict)
    """By replica, since when it was seen broken."""
    spent: tuple[float, ...] = ()
    """When replicas were replaced, within the last hour, in seconds since the epoch. The head pod
    has it too: this outlives a head pod, and that outlives a process.
    """
    partly: set[str] = field(default_factory=set)
    """Replicas of which one host was deleted, in the hope that KubeRay takes the rest."""


class Plan(Struct, frozen=True):
    """What to do now. `waiting` tells of each broken replica that is left why."""

    actions: list[Action]
    waiting: dict[str, str]


def plan(group: Group, memory: Memory, limits: Limits, now: float, date: float) -> Plan:
    """Return what to do next with a group. What has to be remembered is noted in `memory`.

    `now` is of a clock that nobody sets; `date`, in seconds since the epoch, is what processes
    share.
    """
    if memory.version != group.version:
        memory.version, memory.since = group.version, now
    memory.spent = _spent(group, memory, date)
    replicas = _replicas(group.pods)
    going = [pods for pods in replicas.values() if any(host.condemned for host in pods)]
    if going:
        return _finish(going, _broken(group, replicas, memory, now))
    seals = [seal for pods in replicas.values() for seal in _seals(group, pods)]
    broken = _broken(group, replicas, memory, now)
    if not broken:
        return Plan([*seals], {})
    head, hold = group.head, _hold(group, memory, limits, now)
    if head is None or hold:
        return Plan([*seals], dict.fromkeys(broken, hold or HEADLESS))
    ripe = [name for name in broken if now - memory.broken[name] >= limits.wait]
    if not ripe:
        return Plan([*seals], dict.fromkeys(broken, TOO_NEW))
    # What is left of a torn one may yet be filled, in place of one that goes before it.
    first = min(
        ripe,
        key=lambda name: (broken[name] == TORN, memory.broken[name], len(replicas[name]), name),
    )
    waiting = {name: GOING if name in ripe else TOO_NEW for name in broken if name != first}
    replaced = {name: _recent(times, date) for name, times in head.replaced.items()}
    replaced[group.name] = (*memory.spent, date)
    note = Note(head, {name: times for name, times in replaced.items() if times})
    return Plan([*seals, note, *_replace(replicas[first], broken[first], memory, now)], waiting)


def _spent(group: Group, memory: Memory, date: float) -> tuple[float, ...]:
    """Return when replicas of a group were replaced within the last hour, by the head pod or by
    memory, whichever knows more.
    """
    noted = group.head.replaced.get(group.name, ()) if group.head is not None else ()
    return max(_recent(noted, date), _recent(memory.spent, date), key=len)


def _recent(times: Iterable[float], date: float) -> tuple[float, ...]:
    """Return those of the last hour; what a clock that was set back makes of the future, too."""
    return tuple(at for at in times if abs(date - at) < HOUR)


def _replicas(pods: Iterable[Host]) -> dict[str, list[Host]]:
    """Return the pods of each replica, by its name."""
    ordered = sorted(pods, key=lambda host: (host.seat.name, host.seat.host, host.uid))
    return {name: list(each) for name, each in groupby(ordered, lambda host: host.seat.name)}


def _finish(going: Sequence[Sequence[Host]], broken: Iterable[str]) -> Plan:
    """Return what is left to do for replicas that are condemned already: mark the rest, or delete
    what is marked.
    """
    actions: list[Action] = []
    for pods in going:
        left = [host for host in pods if not host.deleting]
        reason = next(host.condemned for host in pods if host.condemned)
        unmarked = [host for host in left if not host.condemned]
        actions += [Condemn(host, reason) for host in unmarked]
        actions += [] if unmarked else [Delete(host, reason) for host in left]
    names = {host.seat.name for pods in going for host in pods}
    return Plan(actions, {name: GOING for name in broken if name not in names})


def _seals(group: Group, pods: Sequence[Host]) -> list[Action]:
    """Return what seals a whole replica, also one whose sealing was broken off."""
    live = [host for host in pods if host.lives]
    whole = len(live) == len(pods) == group.hosts == len({host.seat.host for host in live})
    if not whole or not all(host.runs for host in live):
        return []
    if any(host.sealed and not agrees(live, host) for host in live):
        return []
    return [Seal(host, seal_of(live, host)) for host in live if not host.sealed]


def _broken(
    group: Group, replicas: dict[str, list[Host]], memory: Memory, now: float
) -> dict[str, str]:
    """Return the replicas that are broken and to be repaired, each with the reason, and remember
    since when.
    """
    found = {
        name: reason for name, pods in replicas.items() if (reason := _fault(group, pods, memory))
    }
    memory.broken = {name: memory.broken.get(name, now) for name in found}
    memory.partly &= replicas.keys()
    return found


def _fault(group: Group, pods: Sequence[Host], memory: Memory) -> str:
    """Return what is wrong with a replica that somebody asked to repair, or nothing."""
    live = [host for host in pods if host.lives]
    sealed = [host for host in pods if host.sealed]
    if all(host.deleting for host in pods):
        return ""
    if group.restart and any(host.restarted for host in live):
        return RESTARTED
    asked = group.repair and all(host.ours for host in pods)
    if not sealed:
        return TORN if asked and 0 < len(live) < group.hosts and _full(group) else ""
    asked = asked or pods[0].seat.name in memory.partly
    return LOST if asked and not all(agrees(live, host) for host in sealed) else ""


def _full(group: Group) -> bool:
    """Tell whether a group has all its pods, so that nobody creates one more."""
    return sum(host.lives for host in group.pods) >= group.desired * group.hosts


def _hold(group: Group, memory: Memory, limits: Limits, now: float) -> str:
    """Return why nothing of a group is replaced now, or nothing."""
    if group.suspended:
        return SUSPENDED
    if now - memory.since < limits.wait:
        return CHANGING
    surplus = sum(not host.deleting for host in group.pods) > group.desired * group.hosts
    if not surplus and any(host.name in group.leaving for host in group.pods):
        return SCALING
    return SPENT if len(memory.spent) >= limits.per_hour else ""


def _replace(pods: Sequence[Host], reason: str, memory: Memory, now: float) -> list[Action]:
    """Return how the replacement of a replica begins.

    One whose seats are KubeRay's needs one deletion: KubeRay takes the rest. Where it does not, the
    replica is still there when it has been broken for as long again, and goes as the others do.
    """
    left = [host for host in pods if not host.deleting]
    name = pods[0].seat.name
    restarted = [host for host in left if host.restarted]
    if restarted and name not in memory.partly and not all(host.ours for host in pods):
        memory.partly.add(name)
        memory.broken[name] = now
        return [Delete(restarted[0], reason)]
    return [Condemn(host, reason) for host in left]
