"""`ray-webhook migrate`: the migration from another webhook, step by step."""

import argparse
import json
import sys
import time
from typing import Any

import msgspec

from webhook.cache.google_webhook import read_installed
from webhook.cli.connection import Cluster, look_until
from webhook.cli.parsing import add_connection, add_ignoring, add_output, add_wait
from webhook.cli.terminal import Text, listing, mark, show, style
from webhook.diagnostics.installation_problems import PREVIOUS
from webhook.diagnostics.messages import counted
from webhook.migrate.migration import GroupVerdict, Migration, Step, migration


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n"
        f"  ray-webhook migrate --from {PREVIOUS}             what is done, and what to do next\n"
        f"  ray-webhook migrate --from {PREVIOUS} --wait 2m   after a step, until it is done\n\n"
        "Nothing is changed: it prints the commands. docs/install.md describes each step.\n\n"
        "exit status: 0 nothing is left to do, 1 something is, 2 the cluster cannot be reached"
    )
    parser.add_argument(
        "--from",
        dest="previous",
        required=True,
        choices=(PREVIOUS,),
        help="the webhook to replace",
    )
    add_wait(parser, "the next step is done")
    add_output(parser)
    add_connection(parser, all_namespaces=False, namespaces="all")
    add_ignoring(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print the migration steps; with --wait, after another step is done."""
    arguments.all_namespaces = not arguments.namespace  # a webhook applies to the whole cluster
    done: list[int] = []

    def over(found: tuple[Migration, dict[str, str]]) -> bool:
        done.append(_done(found[0]))
        return found[0].done or done[-1] > done[0]

    way, unread = look_until(arguments, _take, over)
    if arguments.output == "json":
        sys.stdout.write(json.dumps(_data(way, unread), indent=2) + "\n")
    else:
        _show(way, unread)
    return int(not way.done)


async def _take(cluster: Cluster) -> tuple[Migration, dict[str, str]]:
    installed, unread = await read_installed(
        cluster.api, cluster.namespace, ignoring=cluster.ignoring
    )
    return migration(installed, time.time()), unread


def _done(way: Migration) -> int:
    return sum(step.state == "done" for step in way.steps)


def _data(way: Migration, unread: dict[str, str]) -> dict[str, Any]:
    groups = [{**msgspec.to_builtins(each), "command": each.command} for each in way.groups]
    return {
        "done": way.done,
        "groups": groups,
        "steps": [msgspec.to_builtins(each) for each in way.steps],
        "unread": unread,
    }


def _show(way: Migration, unread: dict[str, str]) -> None:
    groups = [
        (mark("warning" if group.restart else "fine"), Text(_described(group)))
        for group in way.groups
    ]
    steps: list[tuple[Text | str, Text]] = []
    for number, step in enumerate(way.steps, 1):
        steps.append((_mark(step), Text(f"{number}. {step.text}")))
        then = [f"then check: {step.check}"] if step.state == "next" and step.check else []
        more = (Text(f"   {each}", style=style("info")) for each in (*step.commands, *then))
        steps += (("", each) for each in more)
    left = len(way.steps) - _done(way)
    last = "nothing is left to do" if way.done else f"{counted(left, 'step')} left"
    show(
        Text("worker groups with TPUs", style="bold"),
        listing(groups or [(mark("info"), Text("there is none"))]),
        Text(),
        Text("steps", style="bold"),
        listing(steps),
        *(
            Text(f"{what} could not be read: {why}", style=style("warning"))
            for what, why in unread.items()
        ),
        Text(),
        Text.assemble(mark("fine" if way.done else "info"), f" {last}"),
    )


def _mark(step: Step) -> Text:
    marks = {"done": "fine", "next": "info"}
    return mark(marks[step.state]) if step.state in marks else Text(" ")


def _described(group: GroupVerdict) -> str:
    name = f"{group.namespace}/{group.cluster} {group.group}"
    if group.restart:
        return f"{name}: create it again, as {group.restart}"
    parts = []
    if group.adopted:
        are = "is" if group.adopted == 1 else "are"
        parts.append(f"{counted(group.adopted, 'pod')} {are} adopted as they are")
    if group.carried:
        carry = "already has its identity" if group.carried == 1 else "already have their identity"
        parts.append(f"{counted(group.carried, 'pod')} {carry}")
    return f"{name}: {', '.join(parts)}"
