"""The view: the parts of a RayCluster as its template needs them.

Ids of elements consist of numbers and digests only, and contain no name of a tenant.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Final
from urllib.parse import urlencode

from markupsafe import Markup
from msgspec import Struct, structs

from webhook.api.times import text_of
from webhook.dashboard.query import Query
from webhook.diagnostics import report
from webhook.diagnostics.diagnosis import ERROR, INFO, WARNING, Problem
from webhook.diagnostics.messages import format_count

COMPACT: Final = 12
"""Replicas of a group with one line each; above this, those without problems share lines."""
PROBLEMS: Final = 50
"""Problems shown on the page of a RayCluster; more are only counted."""
LISTED_PROBLEMS: Final = 10
"""Problems of a RayCluster in the list."""
LISTED_ROWS: Final = 5
"""Replicas with problems of a RayCluster in the list."""
LISTED_CELLS: Final = 64
"""Hosts of a replica in the list."""
CELLS: Final = 256
"""Hosts of a replica on the page of a RayCluster."""
PAGE_HOSTS: Final = 1024
"""Hosts on one page of a RayCluster, unless a single replica has more."""

_SIZES: Final = {"one": 1, "few": 4, "some": 8, "many": 16}
"""The width of a replica, as a class of the style sheet, by its maximum of hosts."""

DEGRADED: Final = "degraded"
WARNINGS: Final = "warnings"
PROGRESSING: Final = "progressing"
READY: Final = "ready"
STATES: Final = {
    DEGRADED: "degraded",
    WARNINGS: "with warnings",
    PROGRESSING: "in progress",
    READY: "ready",
}
"""The states of RayClusters with their labels, the worst first."""

HOST_STATES: Final = {
    report.READY: "ready",
    report.STARTING: "starts",
    report.PENDING: "has no node",
    report.MISSING: "missing",
    report.FAILED: "has ended",
    report.TWICE: "two pods",
}
"""The labels of host states."""


class Cell(Struct, frozen=True):
    """A rendered host. Without `href`, the host has no panel."""

    id: str
    host: int
    state: str
    label: str
    href: str


class Row(Struct, frozen=True):
    """A replica: the number of its group, the id of its row, a summary of its problem, the width of
    its hosts, and those that are rendered.
    """

    group: int
    id: str
    replica: report.ReplicaReport
    what: str
    size: str
    cells: tuple[Cell, ...] = ()

    @property
    def affected(self) -> bool:
        return bool(self.what) or self.replica.state in (report.DEGRADED, report.GONE)


class GroupView(Struct, frozen=True):
    """A worker group with some of its replicas."""

    id: str
    name: str
    text: str
    note: str
    rows: tuple[Row, ...]

    @property
    def compact(self) -> bool:
        return len(self.rows) > COMPACT


class Section(Struct, frozen=True):
    """A RayCluster: with its problems in the list, or `whole` on a page of its own. A RayCluster
    with a `failure` has only a name.
    """

    key: str
    cluster: report.RayClusterReport
    href: str
    state: str
    text: str
    head: Cell | None
    notes: tuple[str, ...]
    problems: tuple[Problem, ...]
    more: int
    pod_groups: tuple[str, ...]
    groups: tuple[GroupView, ...]
    whole: bool

    @property
    def id(self) -> str:
        return f"c-{self.key}"


def key_of(cluster: report.RayClusterReport) -> str:
    """Return the common prefix of the ids of a RayCluster's elements."""
    return blake2b(f"{cluster.namespace}/{cluster.name}".encode(), digest_size=5).hexdigest()


def build_list_section(cluster: report.RayClusterReport) -> Section:
    """Return a RayCluster for the list."""
    rows = [row for row in _rows(cluster) if row.affected][:LISTED_ROWS]
    return _section(cluster, rows, LISTED_PROBLEMS, LISTED_CELLS, whole=False)


def whole(cluster: report.RayClusterReport, page: int) -> Section:
    """Return a RayCluster with a page of its replicas, those with problems first."""
    size = _page_size(cluster)
    rows = sorted(_rows(cluster), key=lambda each: not each.affected)
    return _section(cluster, rows[(page - 1) * size : page * size], PROBLEMS, CELLS, whole=True)


def pages_of(cluster: report.RayClusterReport) -> int:
    """Return the number of pages of a RayCluster."""
    replicas = sum(len(group.replicas) for group in cluster.groups)
    return max(1, -(-replicas // _page_size(cluster)))


def _page_size(cluster: report.RayClusterReport) -> int:
    hosts = max((min(group.hosts, CELLS) for group in cluster.groups), default=1)
    return PAGE_HOSTS // max(1, hosts)


def _section(
    cluster: report.RayClusterReport, shown: list[Row], problems: int, cells: int, *, whole: bool
) -> Section:
    key = key_of(cluster)
    rows: dict[int, list[Row]] = {}
    for bare_row in shown:
        row = _add_cells(bare_row, cluster, cluster.groups[bare_row.group], cells)
        rows.setdefault(bare_row.group, []).append(row)
    return Section(
        key,
        cluster,
        href=Query(namespace=cluster.namespace, cluster=cluster.name).address,
        state=state_of(cluster),
        text=_summary(cluster),
        head=None if cluster.failure else _cell(f"x-{key}", cluster.head, _place(cluster), "head"),
        notes=tuple(_notes(cluster)),
        problems=cluster.problems[:problems],
        more=max(0, len(cluster.problems) - problems),
        pod_groups=tuple(pod_group.summary for pod_group in cluster.pod_groups)
        if whole or cluster.is_degraded
        else (),
        groups=tuple(
            _group(f"{key}-{number}", cluster, group, tuple(rows.get(number, ())))
            for number, group in enumerate(cluster.groups)
        ),
        whole=whole,
    )


def _group(
    key: str, cluster: report.RayClusterReport, group: report.GroupReport, rows: tuple[Row, ...]
) -> GroupView:
    complete = sum(replica.state == report.COMPLETE for replica in group.replicas)
    summary = f"{complete} of {format_count(len(group.replicas), 'replica')} complete"
    if not group.replicas:
        is_requested = not group.without_identity and not cluster.deleting
        summary = "no replicas, as asked for" if is_requested else "no replicas"
    several = f", of {group.hosts} hosts each" if group.hosts > 1 else ""
    note = f"{group.desired} wanted{several}"
    if group.without_identity:
        note += f"; {format_count(len(group.without_identity), 'pod')} without an identity"
    if group.disruption:
        note += f"; {group.disruption}"
    return GroupView(key, group.name, text=summary, note=note, rows=rows)


def _rows(cluster: report.RayClusterReport) -> Iterator[Row]:
    wrong: dict[tuple[str, int | None], list[Problem]] = {}
    for problem in cluster.problems:
        if problem.level != INFO and problem.replica is not None:
            wrong.setdefault((problem.group, problem.replica), []).append(problem)
    key = key_of(cluster)
    for number, group in enumerate(cluster.groups):
        ordinals: dict[int | None, int] = {}
        size = next(
            (size_name for size_name, most in _SIZES.items() if group.hosts <= most), "most"
        )
        for replica in group.replicas:
            again = ordinals[replica.index] = ordinals.get(replica.index, -1) + 1
            place = "n" if replica.index is None else f"{replica.index}"
            summary = ", ".join(
                replica_problem.brief
                for replica_problem in wrong.get((group.name, replica.index), ())
            )
            yield Row(
                number, f"{key}-{number}-{place}-{again}", replica=replica, what=summary, size=size
            )


def _add_cells(
    row: Row, cluster: report.RayClusterReport, group: report.GroupReport, most: int
) -> Row:
    base = _place(cluster) | {"group": group.name}
    if row.replica.index is not None:
        base["replica"] = str(row.replica.index)
    cells = [
        _cell(f"{row.id}-{host.index}", host, base, f"host {host.index}")
        for host in row.replica.hosts[:most]
    ]
    return structs.replace(row, cells=tuple(cells))


def state_of(cluster: report.RayClusterReport) -> str:
    """Return the state of a RayCluster: in progress if it starts or is being deleted."""
    if cluster.is_degraded:
        return DEGRADED
    if any(problem.level == WARNING for problem in cluster.problems):
        return WARNINGS
    replicas = [replica for group in cluster.groups for replica in group.replicas]
    complete = all(replica.state == report.COMPLETE for replica in replicas)
    if cluster.deleting:
        return PROGRESSING
    return READY if complete and (cluster.head.state == report.READY) else PROGRESSING


def time_of(seconds: float | None) -> Markup:
    """Return seconds since the epoch as an HTML element; empty outside of the calendar."""
    machine = text_of(seconds)
    if seconds is None or machine is None:
        return Markup()
    at = datetime.fromtimestamp(int(seconds), UTC)
    people = f"{at.day} {at:%b %H:%M} UTC"
    return Markup('<time datetime="{}">{}</time>').format(machine, people)


def _summary(cluster: report.RayClusterReport) -> str:
    if cluster.failure:
        return "cannot be shown"
    errors = sum(problem.level == ERROR for problem in cluster.problems)
    if errors:
        return format_count(errors, "problem")
    return {
        DEGRADED: "degraded",
        WARNINGS: format_count(
            sum(problem.level == WARNING for problem in cluster.problems), "warning"
        ),
        PROGRESSING: "being deleted" if cluster.deleting else "starting",
        READY: "ready",
    }[state_of(cluster)]


def _notes(cluster: report.RayClusterReport) -> Iterator[str]:
    if cluster.owner:
        yield f"of {cluster.owner.replace('/', ' ', 1)}"
    if cluster.ray_version:
        yield f"Ray {cluster.ray_version}"
    if cluster.queue:
        yield f"queue {cluster.queue}"
    if cluster.suspended:
        yield "suspended"
    if cluster.terminating:
        yield f"{format_count(cluster.terminating, 'pod')} being deleted"


def _place(cluster: report.RayClusterReport) -> dict[str, str]:
    return {"namespace": cluster.namespace, "cluster": cluster.name}


def _cell(cell_id: str, host: report.HostReport, place: dict[str, str], called: str) -> Cell:
    label, href = f"{called}: {HOST_STATES[host.state]}", ""
    if host.pods:
        parameters = {"namespace": place["namespace"], "name": host.pods[0]}
        href = f"/pod?{urlencode(parameters)}"
    elif "replica" in place:
        href = f"/host?{urlencode(place | {'host': str(host.index)})}"
    return Cell(cell_id, host.index, state=host.state, label=label, href=href)
