"""The view: what the page shows of a RayCluster, in the words and parts that its templates need.

Ids of elements are made of numbers and digests only: no name of a tenant is part of one.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final
from urllib.parse import urlencode

from msgspec import Struct

from webhook.kube.instants import text_of
from webhook.status import model
from webhook.status.diagnosis import ERROR, INFO, WARNING, Change, Trouble
from webhook.status.words import counted

COMPACT: Final = 12
"""Replicas that have a line each; of more, those without trouble share lines."""
TROUBLES: Final = 50
"""Troubles of a RayCluster that are told; of more, how many."""
CELLS: Final = 256
"""Hosts that are drawn of one replica."""

STATES: Final = {
    model.READY: "ready",
    model.STARTING: "starts",
    model.PENDING: "has no node",
    model.MISSING: "missing",
    model.FAILED: "has ended",
    model.TWICE: "two pods",
}
"""What the state of a host is called."""


class Cell(Struct, frozen=True):
    """A host, drawn. Without `href` there is nothing to tell of it."""

    id: str
    host: int
    state: str
    label: str
    href: str


class Row(Struct, frozen=True):
    """A replica, drawn. `size` says how wide its hosts are, `what` what is wrong in a few words."""

    id: str
    called: str
    name: str
    state: str
    ready: int
    hosts: int
    what: str
    troubled: bool
    size: str
    new: bool
    cells: tuple[Cell, ...]
    more: int = 0


class Instant(Struct, frozen=True):
    """A time, for machines and for people."""

    machine: str
    people: str


class Told(Struct, frozen=True):
    """A trouble, told."""

    id: str
    level: str
    place: str
    message: str
    remedy: str
    command: str
    change: Change | None
    since: Instant | None


class GroupTop(Struct, frozen=True):
    """What stands above the replicas of a group."""

    id: str
    name: str
    text: str
    note: str


class Top(Struct, frozen=True):
    """What stands above the groups of a RayCluster. One with a `failure` has only its name."""

    key: str
    namespace: str
    name: str
    state: str
    text: str
    head: Cell | None
    failure: str
    notes: tuple[str, ...]
    told: tuple[Told, ...]
    more: int
    pod_groups: tuple[str, ...]


def key_of(namespace: str, name: str) -> str:
    """Return what the ids of the elements of a RayCluster have in common."""
    return blake2b(f"{namespace}/{name}".encode(), digest_size=5).hexdigest()


def top_of(cluster: model.Cluster) -> Top:
    """Return the top of a RayCluster."""
    key = key_of(cluster.namespace, cluster.name)
    return Top(
        key,
        cluster.namespace,
        cluster.name,
        state_of(cluster),
        _summary(cluster),
        None if cluster.failure else _cell(f"x-{key}", cluster.head, _place(cluster), "head"),
        cluster.failure,
        tuple(_notes(cluster)),
        tuple(told(each) for each in cluster.troubles[:TROUBLES]),
        max(0, len(cluster.troubles) - TROUBLES),
        tuple(_pod_group(each) for each in cluster.pod_groups),
    )


def group_top(key: str, number: int, cluster: model.Cluster) -> GroupTop:
    """Return the top of a group, by its number in the RayCluster."""
    group = cluster.groups[number]
    there = sum(replica.state == model.COMPLETE for replica in group.replicas)
    text = f"{there} of {counted(len(group.replicas), 'replica')} complete"
    if not group.replicas:
        asked = not group.unseated and not cluster.deleting
        text = "no replicas, as asked for" if asked else "no replicas"
    several = f", of {group.hosts} hosts each" if group.hosts > 1 else ""
    note = f"{group.desired} wanted{several}"
    if group.unit:
        note += f"; one unit of {counted(len(group.every_host), 'host')}"
    if group.unseated:
        note += f"; {counted(len(group.unseated), 'pod')} without a seat"
    return GroupTop(f"h-{key}-{number}", group.name, text, note)


def rows_of(
    key: str, number: int, cluster: model.Cluster
) -> Iterator[tuple[str, model.Replica, str]]:
    """Yield for each replica of a group the id of its row, itself, and what is wrong with it."""
    group = cluster.groups[number]
    wrong: dict[int, list[Trouble]] = {}
    for trouble in cluster.troubles:
        if trouble.group == group.name and trouble.level != INFO and trouble.replica is not None:
            wrong.setdefault(trouble.replica, []).append(trouble)
    seen: dict[int | None, int] = {}
    for replica in group.replicas:
        again = seen[replica.index] = seen.get(replica.index, -1) + 1
        place = "n" if replica.index is None else f"{replica.index}"
        found = wrong.get(replica.index, []) if replica.index is not None else []
        what = ", ".join(each.brief for each in found)
        yield f"{key}-{number}-{place}-{again}", replica, what


def row_of(
    row_id: str, cluster: model.Cluster, group: model.Group, replica: model.Replica, what: str
) -> Row:
    """Return the row of a replica, of which `what` is wrong."""
    called = "one more" if replica.index is None else f"{replica.index}"
    base = _place(cluster) | {"group": group.name}
    if replica.index is not None:
        base["replica"] = str(replica.index)
    cells = tuple(
        _cell(f"{row_id}-{host.index}", host, base, f"host {host.index}")
        for host in replica.hosts[:CELLS]
    )
    return Row(
        row_id,
        called,
        replica.name,
        replica.state,
        replica.ready,
        len(replica.hosts),
        what,
        bool(what) or replica.state in (model.WAITS, model.GONE),
        size_of(group),
        replica.index is None,
        cells,
        max(0, len(replica.hosts) - CELLS),
    )


def size_of(group: model.Group) -> str:
    """Return how much room the hosts of a replica need, in words that the style sheet knows."""
    for size, most in (("one", 1), ("few", 4), ("some", 8), ("many", 16)):
        if group.hosts <= most:
            return size
    return "most"


def state_of(cluster: model.Cluster) -> str:
    """Return the state of a RayCluster: `waits`, `warns`, `coming` or `fine`. One that is being
    deleted has that of one that comes: neither stays as it is.
    """
    if cluster.waits:
        return "waits"
    if any(trouble.level == WARNING for trouble in cluster.troubles):
        return "warns"
    replicas = [replica for group in cluster.groups for replica in group.replicas]
    complete = all(replica.state == model.COMPLETE for replica in replicas)
    if cluster.deleting:
        return "coming"
    return "fine" if complete and (cluster.head.state == model.READY) else "coming"


def told(trouble: Trouble) -> Told:
    """Return a trouble as the page tells it."""
    return Told(
        trouble.id,
        trouble.level,
        trouble.group,
        trouble.message,
        trouble.remedy,
        trouble.command,
        trouble.change,
        instant(trouble.since),
    )


def instant(seconds: float | None) -> Instant | None:
    """Return seconds since the epoch as machines and people read them; None for what no calendar
    has.
    """
    machine = text_of(seconds)
    if seconds is None or machine is None:
        return None
    at = datetime.fromtimestamp(int(seconds), UTC)
    return Instant(machine, f"{at.day} {at:%b %H:%M} UTC")


def summary_of(clusters: list[model.Cluster], problems: int = 0) -> str:
    """Return in a sentence how many RayClusters there are, how many cannot be shown, how many wait,
    and how many problems there are that are none's.
    """
    what = counted(len(clusters), "RayCluster") if clusters else "No RayClusters"
    failed = sum(bool(cluster.failure) for cluster in clusters)
    if failed:
        what += f", {failed} of them cannot be shown"
    waiting = sum(cluster.waits for cluster in clusters) - failed
    if waiting:
        what += f", {waiting} of them {'waits' if waiting == 1 else 'wait'}"
    if problems:
        return f"{what}; {counted(problems, 'problem')} of the installation"
    return what if failed or waiting or not clusters else f"{what}, nothing waits"


def _summary(cluster: model.Cluster) -> str:
    if cluster.failure:
        return "cannot be shown"
    errors = sum(trouble.level == ERROR for trouble in cluster.troubles)
    if errors:
        return counted(errors, "problem")
    return {
        "waits": "waits",
        "warns": counted(sum(trouble.level == WARNING for trouble in cluster.troubles), "warning"),
        "coming": "being deleted" if cluster.deleting else "coming up",
        "fine": "all there",
    }[state_of(cluster)]


def _notes(cluster: model.Cluster) -> Iterator[str]:
    if cluster.suspended:
        yield "suspended"
    if cluster.leaving:
        yield f"{counted(cluster.leaving, 'pod')} being deleted"


def _pod_group(found: model.PodGroup) -> str:
    needs = f", needs {found.needed} at once" if found.needed else ""
    if found.missing:
        return f"{found.name}: does not exist, {counted(found.pods, 'pod')} waiting for it"
    state = "waits" if found.waits else "scheduled"
    return f"{found.name}: {state}, {counted(found.pods, 'pod')}{needs}"


def _place(cluster: model.Cluster) -> dict[str, str]:
    return {"namespace": cluster.namespace, "cluster": cluster.name}


def _cell(cell_id: str, host: model.Host, place: dict[str, str], called: str) -> Cell:
    label = f"{called}: {STATES[host.state]}"
    if host.pods:
        asked = {"namespace": place["namespace"], "name": host.pods[0]}
        return Cell(cell_id, host.index, host.state, label, f"/pod?{urlencode(asked)}")
    if "replica" in place:
        href = f"/host?{urlencode(place | {'host': str(host.index)})}"
        return Cell(cell_id, host.index, host.state, label, href)
    return Cell(cell_id, host.index, host.state, label, "")
