"""`ray-webhook explain pod`: the changes of a pod by the webhook, with reasons."""

import argparse
from collections.abc import Iterator
from typing import Final

from rich.console import RenderableType
from rich.table import Table

from webhook.api.failures import InputError
from webhook.cli.cluster_tree import render_problems
from webhook.cli.connection import read_state
from webhook.cli.parsing import meant
from webhook.cli.terminal import Text, grid, listing, mark, show, style
from webhook.diagnostics.assigned_pods import AssignedCluster, assign
from webhook.diagnostics.examiner import examine
from webhook.diagnostics.messages import duration
from webhook.explain.pod_explanation import (
    HAS,
    MISSING,
    ExplainedEdit,
    PodExplanation,
    describe_pod,
    identity_labels,
)
from webhook.objects.live_objects import LivePod

_LONG: Final = 70
"""The maximum length of a printed value."""
_LEVELS: Final = {HAS: "fine", MISSING: "error"}
_LISTED: Final = 10
"""The maximum of pods in the message for a missing name."""


def explain_pod(arguments: argparse.Namespace, name: str) -> int:
    """Print the explanation of a pod of a cluster or of files. Raises InputError."""
    state = read_state(arguments)
    objects, now = state.objects, state.now
    pod_names = [live_pod.name for live_pod in objects.pods.all]
    if not name and pod_names:
        remainder = f" and {len(pod_names) - _LISTED} more" if len(pod_names) > _LISTED else ""
        raise InputError(f"name a pod of the files: {', '.join(pod_names[:_LISTED])}{remainder}")
    pod = next((live_pod for live_pod in objects.pods.all if live_pod.name == name), None)
    if pod is None:
        name_suffix, near = f" {name}" if name else "", meant(name, pod_names)
        raise InputError(
            f"there is no Ray pod{name_suffix} in what was read{near}; -n names another namespace"
        )
    live = objects.cluster_of(pod)
    cluster = assign(live, objects, now) if live is not None else None
    problems = [problem for problem in examine(objects, now).every_problem if name in problem.pods]
    show(*_about(pod, cluster, now), *render_problems(problems, now))
    return 0


def _about(pod: LivePod, cluster: AssignedCluster | None, now: float) -> Iterator[RenderableType]:
    age = "" if pod.created is None else f", created {duration(now - pod.created)} ago"
    yield Text.assemble(
        (f"{pod.metadata.namespace}/{pod.name}", "bold"), f"  {pod.status.phase or 'Pending'}{age}"
    )
    sentence, account = describe_pod(cluster, pod)
    yield Text(f"  {sentence}")
    if account is None:
        return
    for key, value in identity_labels(pod):
        yield Text(f"  label {key}={value}", style=style("dim"))
    yield _table(account)
    yield listing((mark(remark.level), Text(remark.text)) for remark in account.remarks)


def _table(account: PodExplanation) -> Table:
    table = grid("whole", "whole", "folds", "folds")
    for explained_edit in account.given:
        level = _LEVELS.get(explained_edit.state, "warning")
        why = Text(f"# {explained_edit.why}", style=style("dim"))
        table.add_row(" ", mark(level), Text(_describe_edit(explained_edit)), why)
    return table


def _describe_edit(given: ExplainedEdit) -> str:
    where = f" in {', '.join(given.containers)}" if given.containers else ""
    assignment = f"{given.what}={_short(given.expected)}{where}"
    if given.state == HAS:
        return assignment
    actual = "does not have it" if given.actual is None else f"has {_short(given.actual)}"
    return f"{assignment}: the pod {actual}"


def _short(value: str) -> str:
    return value if len(value) <= _LONG else f"{value[:_LONG]}…"
