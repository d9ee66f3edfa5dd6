"""`ray-webhook status`: the replicas in a cluster, their problems, and how to fix these."""

import argparse
import asyncio
import sys
import time
from collections.abc import Callable
from typing import Final

from msgspec import structs

from webhook.api.failures import InputError
from webhook.api.formats import json_text
from webhook.cache.cluster_cache import Observing
from webhook.cache.state_files import state_of
from webhook.cli.cluster_tree import drawing
from webhook.cli.connection import ClusterConnection, read_state, with_cluster
from webhook.cli.parsing import add_connection, add_ignoring, add_state, meant
from webhook.cli.terminal import Screen, console, show
from webhook.diagnostics.document import document
from webhook.diagnostics.examiner import Examiner, examine
from webhook.diagnostics.report import ClusterReport
from webhook.manifest.reader import as_yaml
from webhook.objects.object_cache import ObjectCache

STATE: Final = "state"

_DRAWN: Final = ("table", "wide")
"""Output formats for people."""

_PERIOD: Final = 1.0
"""The period between two outputs of --watch in seconds; the objects are watched."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n"
        "  ray-webhook status                 the namespace of your kubeconfig's context\n"
        "  ray-webhook status -A -o json      everything, for a program\n"
        "  ray-webhook status llama --watch   one RayCluster, as it changes\n"
        "  ray-webhook status -A -o state     all that was read, as a file for --state\n\n"
        "A state has, of the variables of containers, only values that the webhook gives or\n"
        "reads.\n\n"
        "hosts: ■ ready  ◧ starts  ◌ has no node  □ missing  ✗ ended  ◆ two pods\n\n"
        "exit status: 0 no problem but warnings, 1 problems, 2 the cluster cannot be reached"
    )
    parser.add_argument(
        "raycluster",
        nargs="?",
        default="",
        metavar="RAYCLUSTER",
        help="only this one, or that of a RayJob or RayService of this name",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("table", "wide", "json", "yaml", "state"),
        default="table",
        help="how it is shown (default: table)",
    )
    parser.add_argument("--watch", action="store_true", help="follow what changes, until Ctrl-C")
    add_connection(parser)
    add_ignoring(parser)
    add_state(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print a report once, or on each change."""
    if arguments.watch:
        if arguments.state or arguments.output == STATE:
            raise InputError(f"--watch follows a cluster: leave out --state and -o {STATE}")
        last = with_cluster(arguments, lambda cluster: _watch(cluster, arguments))
        return int(_chosen(last, arguments.raycluster).is_degraded)
    state = read_state(arguments)
    cluster_report = examine(state.objects, state.now, state.unread)
    chosen = _chosen(cluster_report, arguments.raycluster)
    if arguments.output == STATE:
        file = state_of(state.objects, state.now, state.unread)
        sys.stdout.write(json_text(file, 1))
    else:
        _print(chosen, arguments.output)
    return int(chosen.is_degraded)


async def _watch(cluster: ClusterConnection, arguments: argparse.Namespace) -> ClusterReport:
    """Watch the cluster, and return the last report. Raises ApiError if unreachable."""
    follow = _follower(arguments.output)
    examiner = Examiner(ObjectCache(ignoring=cluster.ignoring))
    where = [cluster.namespace] if cluster.namespace else []
    observing = Observing(cluster.api, examiner.object_cache, where, person=True)
    await observing.read()
    cluster_report = only(_seen(examiner, observing), arguments.raycluster)
    follow(cluster_report, True)  # noqa: FBT003 - a Callable has no names
    following = asyncio.create_task(observing.run())
    try:
        while not following.done():
            await asyncio.sleep(_PERIOD)
            previous_report = cluster_report
            if observing.listed:
                cluster_report = only(_seen(examiner, observing), arguments.raycluster)
            follow(cluster_report, _timeless(cluster_report) != _timeless(previous_report))
        following.result()
    except asyncio.CancelledError:  # on Ctrl-C, the last output stays on the screen
        pass
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    return cluster_report


def _follower(output: str) -> Callable[[ClusterReport, bool], None]:
    """Return the function that prints a report, which receives whether the report is new: on a
    terminal in place, else only new reports.
    """
    rich_console = console()
    if output in _DRAWN and rich_console.is_terminal and not rich_console.is_dumb_terminal:
        screen = Screen(rich_console)
        return lambda cluster_report, new: screen.show(
            drawing(cluster_report, wide=output == "wide"), new=new
        )

    def print_new(cluster_report: ClusterReport, new: bool) -> None:  # noqa: FBT001 - as above
        if new:
            _print(cluster_report, output)
            sys.stdout.flush()

    return print_new


def _seen(examiner: Examiner, observing: Observing) -> ClusterReport:
    now = time.time()
    examiner.catch_up(now)
    stale = {"changes": observing.problem} if observing.problem else {}
    return examiner.cluster_report(now, {**observing.unread, **stale})


def _timeless(cluster_report: ClusterReport) -> ClusterReport:
    return structs.replace(cluster_report, now=0.0)


def only(cluster_report: ClusterReport, name: str) -> ClusterReport:
    """Return the part of a report about one RayCluster, by its name or that of its RayJob or
    RayService, or the whole report for an empty name.
    """
    if not name:
        return cluster_report

    def is_meant(owner: str) -> bool:
        return owner.partition("/")[2] == name

    clusters = [
        cluster
        for cluster in cluster_report.clusters
        if cluster.name == name or is_meant(cluster.owner)
    ]
    problems = [
        problem
        for problem in cluster_report.problems
        if not problem.namespace or is_meant(problem.owner)
    ]
    return structs.replace(cluster_report, clusters=tuple(clusters), problems=tuple(problems))


def _chosen(cluster_report: ClusterReport, name: str) -> ClusterReport:
    """Return the part of a report about one RayCluster. Raises InputError if it has none."""
    chosen = only(cluster_report, name)
    if name and not (chosen.clusters or any(problem.owner for problem in chosen.problems)):
        near = meant(name, [cluster.name for cluster in cluster_report.clusters])
        raise InputError(f"there is no RayCluster {name}{near or '; use -A for all namespaces'}")
    return chosen


def _print(cluster_report: ClusterReport, output: str) -> None:
    if output in _DRAWN:
        show(drawing(cluster_report, wide=output == "wide"))
    elif output == "yaml":
        sys.stdout.write(as_yaml([document(cluster_report)]))
    else:
        sys.stdout.write(json_text(document(cluster_report)))
