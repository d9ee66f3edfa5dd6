"""`ray-webhook explain pod`: the changes of a pod by the webhook, with reasons."""

import argparse
from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.table import Table

from webhook.api.failures import InputError
from webhook.cli.cluster_tree import shown_problems
from webhook.cli.connection import read_state
from webhook.cli.parsing import meant
from webhook.cli.terminal import Text, grid, listing, mark, show, style
from webhook.diagnostics.assigned_pods import Cluster, assign
from webhook.diagnostics.examiner import examine
from webhook.diagnostics.live_objects import LivePod
from webhook.diagnostics.messages import duration
from webhook.diagnostics.object_cache import owner_of
from webhook.explain.pod_explanation import (
    HAS,
    MISSING,
    Account,
    Given,
    describe_pod,
    identity_labels,
)

_LONG: Final = 70
"""The maximum length of a printed value."""
_LEVELS: Final = {HAS: "fine", MISSING: "error"}
_LISTED: Final = 10
"""The maximum of pods in the message for a missing name."""


def explain_pod(arguments: argparse.Namespace, name: str) -> int:
    """Print the explanation of a pod of a cluster or of files. Raises InputError."""
    state = read_state(arguments)
    objects, now = state.objects, state.now
    known = [each.name for each in objects.pods.all]
    if not name and known:
        more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
        raise InputError(f"name a pod of the files: {', '.join(known[:_LISTED])}{more}")
    pod = next((each for each in objects.pods.all if each.name == name), None)
    if pod is None:
        called, near = f" {name}" if name else "", meant(name, known)
        raise InputError(
            f"there is no Ray pod{called} in what was read{near}; -n names another namespace"
        )
    live = objects.clusters.get(owner_of(pod))
    cluster = assign(live, objects, now) if live is not None else None
    problems = [each for each in examine(objects, now).every_problem if name in each.pods]
    show(*_about(pod, cluster, now), *shown_problems(problems, now))
    return 0


def _about(pod: LivePod, cluster: Cluster | None, now: float) -> Iterator[RenderableType]:
    age = "" if pod.created is None else f", created {duration(now - pod.created)} ago"
    yield Text.assemble(
        (f"{pod.metadata.namespace}/{pod.name}", "bold"), f"  {pod.status.phase or 'Pending'}{age}"
    )
    what, account = describe_pod(cluster, pod)
    yield Text(f"  {what}")
    if account is None:
        return
    for key, value in identity_labels(pod):
        yield Text(f"  label {key}={value}", style=style("dim"))
    yield _table(account)
    yield listing((mark(each.level), Text(each.text)) for each in account.remarks)


def _table(account: Account) -> Table:
    table = grid("whole", "whole", "folds", "folds")
    for given in account.given:
        level = _LEVELS.get(given.held, "warning")
        why = Text(f"# {given.why}", style=style("dim"))
        table.add_row(" ", mark(level), Text(_said(given)), why)
    return table


def _said(given: Given) -> str:
    where = f" in {', '.join(given.containers)}" if given.containers else ""
    text = f"{given.what}={_short(given.expected)}{where}"
    if given.held == HAS:
        return text
    actual = "does not have it" if given.actual is None else f"has {_short(given.actual)}"
    return f"{text}: the pod {actual}"


def _short(value: str) -> str:
    return value if len(value) <= _LONG else f"{value[:_LONG]}…"
