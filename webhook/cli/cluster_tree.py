"""The report of a cluster as text: a row for each replica, then problems and fixes."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table

from webhook.api.formats import shorten
from webhook.cli.terminal import Column, Text, grid, listing, mark, style, symbols
from webhook.diagnostics import report
from webhook.diagnostics.diagnosis import Problem
from webhook.diagnostics.messages import duration, format_count, others

_HOSTS: Final = {
    report.READY: ("■", "#", "fine"),
    report.STARTING: ("◧", "o", "info"),
    report.PENDING: ("◌", ":", "warning"),
    report.MISSING: ("□", ".", "error"),
    report.FAILED: ("✗", "x", "error"),
    report.TWICE: ("◆", "2", "error"),
}
_STATES: Final = {
    report.COMPLETE: "fine",
    report.CREATING: "info",
    report.DEGRADED: "error",
    report.GONE: "error",
    report.DELETING: "dim",
}
_DRAWN: Final = 64
"""The maximum of hosts in a row."""
_ROWS: Final = 12
"""Replicas of a group with a row each; above this number, complete replicas share one row, and
other replicas share one for each state."""
_ALIKE: Final = 4
"""The maximum of problems of one kind for a group or RayCluster that are not of a replica."""
_COLUMNS: Final[tuple[Column, ...]] = (
    "whole",  # empty, for indentation
    "folds",  # group
    "whole",  # replica
    "folds",  # its hosts
    "whole",  # number of ready hosts
    "whole",  # state
    "folds",  # problem
)
_WIDE: Final[tuple[Column, ...]] = (*_COLUMNS, "folds", "folds")

Row = tuple[RenderableType, ...]


def drawing(cluster_report: report.ClusterReport, *, wide: bool = False) -> Lines:
    """Return a report as lines."""
    lines: list[RenderableType] = []
    for cluster in cluster_report.clusters:
        lines += [
            _title(cluster),
            _table(cluster, cluster_report.now, wide=wide),
            *_pod_groups(cluster, wide=wide),
            *(render_problems if wide else render_merged_problems)(
                cluster.problems, cluster_report.now
            ),
            Text(),
        ]
    lines += render_problems(cluster_report.problems, cluster_report.now)
    for name, why in cluster_report.unread.items():
        lines.append(Text(f"not read: {name} ({why})", style=style("dim")))
    lines.append(_summary(cluster_report))
    return Lines(*lines)


def _title(cluster: report.RayClusterReport) -> RenderableType:
    title = Text.assemble(
        (f"{cluster.namespace}/{cluster.name}", "bold"), "  head ", _hosts((cluster.head,))
    )
    if cluster.suspended:
        title.append("  suspended", style=style("warning"))
    if cluster.terminating:
        title.append(
            f"  {format_count(cluster.terminating, 'pod')} being deleted", style=style("dim")
        )
    return title


def _table(cluster: report.RayClusterReport, now: float, *, wide: bool) -> Table:
    table = grid(*(_WIDE if wide else _COLUMNS), padding=2)
    problems: _Problems = {}
    for problem in cluster.problems:
        problems.setdefault((problem.group, problem.replica), []).append(problem)
    for group in cluster.groups:
        name = shorten(group.name)  # one that KubeRay refuses has any length
        for row in _rows(group, cluster, problems, now, wide=wide):
            table.add_row("", Text(name), *row)
            name = ""
    return table


_Problems = dict[tuple[str, int | None], list[Problem]]
"""Problems by group and replica index."""


def _rows(
    group: report.GroupReport,
    cluster: report.RayClusterReport,
    problems: _Problems,
    now: float,
    *,
    wide: bool,
) -> Iterator[Row]:
    """Yield the rows of a group. Replicas of a large group share rows, unless `wide`."""
    listed_replicas, shared = _split_replicas(group, wide=wide)
    for common, replicas in shared.items():
        label = Text(f"{len(replicas)} replicas{_between(replicas)}")
        yield label, "", "", _state(common)
    for replica in listed_replicas:
        summary = _what(replica, problems.get((group.name, replica.index), ()), now)
        row = (
            *_ready(_format_replica_name(replica), replica.hosts),
            _state(replica.state),
            Text(summary),
        )
        yield (*row, Text(replica.name), _nodes(replica)) if wide else row
    if group.without_identity:
        group_problems = problems.get((group.name, None), ())
        lost = any(problem.id == "pod-without-identity" for problem in group_problems)
        state = _state(report.DEGRADED) if lost else Text("none needed", style("dim"))
        yield Text("no identity"), "", Text(format_count(len(group.without_identity), "pod")), state
    if group.disruption:
        yield Text(group.disruption, style("dim")), "", "", ""
    if not group.replicas and not group.without_identity:
        why = "" if cluster.deleting else "as asked for"
        yield Text("no replicas"), "", "", Text(why, style("dim"))


def _format_replica_name(replica: report.ReplicaReport) -> str:
    return "not created" if replica.index is None else f"replica {replica.index}"


def _ready(called: str, hosts: tuple[report.HostReport, ...]) -> Row:
    """Return the cells of a name, its hosts, and the number of those that are ready."""
    ready = sum(host.state == report.READY for host in hosts)
    return Text(called), _hosts(hosts), Text(f"{ready}/{len(hosts)}")


def _state(state: report.ReplicaState) -> Text:
    return Text(state, style=style(_STATES[state]))


def _pod_groups(cluster: report.RayClusterReport, *, wide: bool) -> Iterator[RenderableType]:
    """Yield a line for each PodGroup that is not scheduled, or for all if `wide`."""
    for pod_group in cluster.pod_groups:
        late = pod_group.unscheduled or pod_group.missing or bool(pod_group.reason)
        if wide or late:
            yield Text(f"  PodGroup {pod_group.summary}", style=style("warning" if late else "dim"))


def _split_replicas(
    group: report.GroupReport, *, wide: bool
) -> tuple[list[report.ReplicaReport], dict[report.ReplicaState, list[report.ReplicaReport]]]:
    """Return the replicas of a group with their own rows, and by state those that share one."""
    if wide or len(group.replicas) <= _ROWS:
        return list(group.replicas), {}
    late = [replica for replica in group.replicas if replica.state != report.COMPLETE]
    shared: dict[report.ReplicaState, list[report.ReplicaReport]] = {}
    for replica in group.replicas:
        if replica.state == report.COMPLETE:
            shared.setdefault(replica.state, []).append(replica)
    for replica in late[_ROWS:]:
        shared.setdefault(replica.state, []).append(replica)
    return late[:_ROWS], shared


def _between(replicas: list[report.ReplicaReport]) -> str:
    """Return the range of replica indexes, empty for replicas without an index."""
    indexes = [replica.index for replica in replicas if replica.index is not None]
    return f" of {indexes[0]}-{indexes[-1]}" if indexes else ""


def _what(replica: report.ReplicaReport, problems: Sequence[Problem], now: float) -> str:
    """Return a summary of a replica's problems, or since when it starts."""
    shows_problems = replica.state != report.COMPLETE and replica.index is not None
    briefs = [f"{problem.brief}{_since(problem, now)}" for problem in problems if shows_problems]
    if not briefs and replica.state == report.CREATING and replica.since is not None:
        return f"for {duration(now - replica.since)}"
    return ", ".join(briefs)


def _nodes(replica: report.ReplicaReport) -> Text:
    nodes = dict.fromkeys(host.node for host in replica.hosts if host.node)
    return Text(" ".join(nodes), style=style("dim"))


def _hosts(hosts: tuple[report.HostReport, ...]) -> Text:
    pretty = symbols()
    drawn = Text()
    for host in hosts[:_DRAWN]:
        symbol, plain, level = _HOSTS[host.state]
        drawn.append(symbol if pretty else plain, style=style(level))
    if len(hosts) > _DRAWN:
        drawn.append(f"+{len(hosts) - _DRAWN}", style=style("dim"))
    return drawn


def render_merged_problems(problems: Iterable[Problem], now: float) -> Iterator[RenderableType]:
    """Yield the problems, with one entry for all replicas of a group with the same problem, for the
    same cause.
    """
    joined: dict[tuple[str, str, bool, str], list[Problem]] = {}
    for problem in problems:
        key = problem.id, problem.group, problem.replica is None, problem.cause
        joined.setdefault(key, []).append(problem)
    for alike in joined.values():
        if alike[0].replica is None:
            yield from render_problems(alike[:_ALIKE], now)
            if len(alike) > _ALIKE:
                yield Text(f"  and {len(alike) - _ALIKE} more like it: -o wide shows all")
        else:
            yield from _problem(alike[0], now, others([problem.replica for problem in alike[1:]]))


def render_problems(problems: Iterable[Problem], now: float) -> Iterator[RenderableType]:
    """Yield the problems: message, age, fix, and command."""
    for found_problem in problems:
        yield from _problem(found_problem, now, "")


def _problem(found_problem: Problem, now: float, more: str) -> Iterator[RenderableType]:
    owned = not found_problem.cluster
    place = found_problem.namespace if owned else found_problem.group
    place = f"{place}: " if place else ""
    message = Text.assemble(
        (found_problem.id, "bold"),
        f"  {place}{found_problem.message}{more}",
        (_since(found_problem, now), style("dim")),
    )
    yield listing([(mark(found_problem.level), message), ("", Text(f"{found_problem.remedy}:"))])
    yield _command(found_problem.command)
    if found_problem.change is not None:
        yield listing([(" ", Text(f"this {found_problem.change.does}:"))])
        yield _command(found_problem.change.command)


def _command(text: str) -> Text:
    return Text(f"      {text}", style=style("info"), no_wrap=True, overflow="ignore")


def _summary(cluster_report: report.ClusterReport) -> RenderableType:
    clusters = cluster_report.clusters
    degraded = sum(cluster.is_degraded for cluster in clusters)
    problems = report.summarize_problems(cluster_report.problems)
    if not clusters and not problems:
        return Text("no RayClusters")
    summary = format_count(len(clusters), "RayCluster") if clusters else "no RayClusters"
    if clusters:
        summary += f", {degraded or 'none'} degraded"
    level = "error" if cluster_report.is_degraded else "fine"
    return Text.assemble(mark(level), f" {summary}{problems}")


def _since(found_problem: Problem, now: float) -> str:
    return "" if found_problem.since is None else f" since {duration(now - found_problem.since)}"
