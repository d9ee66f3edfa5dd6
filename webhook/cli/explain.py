"""`ray-webhook explain`: the changes of a pod by the webhook with reasons, and the meaning of
rules, variables, diagnoses and annotations.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from inspect import cleandoc
from typing import Any, Final, NamedTuple

from rich.console import RenderableType
from rich.table import Table

from webhook.accelerators import profiles
from webhook.api import names
from webhook.api.failures import InputError
from webhook.cli.cluster_tree import shown_problems
from webhook.cli.connection import State, add_state, read_state
from webhook.cli.parsing import add_connection, add_ignoring, meant
from webhook.cli.terminal import Text, grid, listing, mark, show, style
from webhook.diagnostics.assigned_pods import Cluster, assign
from webhook.diagnostics.examination import DIAGNOSES
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
from webhook.explain.variables import given_variables
from webhook.groups.annotations import OPT_INS
from webhook.validation.rules import RULES

_LONG: Final = 70
"""The maximum length of a printed value."""
_LEVELS: Final = {HAS: "fine", MISSING: "error"}
_LISTED: Final = 10
"""The maximum of pods in the message for a missing name."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n"
        "  ray-webhook explain pod llama-tpu-worker-x7k2p -n team\n"
        "  ray-webhook explain rule tpu-topology-mismatch\n"
        "  ray-webhook explain variable TPU_WORKER_ID\n"
        "  ray-webhook explain diagnosis host-missing\n"
        "  ray-webhook explain profile torchrun\n"
        "  ray-webhook explain annotation                 all annotations, a line each\n\n"
        "exit status: 0: explained; 2: there is no such name, or the cluster cannot be reached"
    )
    parser.add_argument(
        "kind", choices=_KINDS, metavar="|".join(_KINDS), help="the kind of thing to explain"
    )
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="its name or id; without one, all are listed"
    )
    parser.add_argument(
        "--config", metavar="PATH", help="file with settings, whose profiles are explained too"
    )
    add_connection(parser, all_namespaces=False)
    add_ignoring(parser)
    add_state(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.kind == "pod":
        if not (arguments.name or arguments.state):
            raise InputError("name a pod; `kubectl get pods` lists them")
        return _pod(read_state(arguments), arguments.name or "")
    if arguments.config:  # only then, the settings have to be loaded
        import_module("webhook.config.sources").read_settings(
            ["--config", arguments.config]
        ).extend()
    kind, name, entries = arguments.kind, arguments.name, _ENTRIES[arguments.kind]()
    if name is None:
        width = max(map(len, entries))
        sys.stdout.write("".join(f"{key:<{width}}  {each.line}\n" for key, each in entries.items()))
        return 0
    found = name if name in entries else names.PREFIX + name
    if found not in entries:
        near = meant(name, [*entries, *(each.removeprefix(names.PREFIX) for each in entries)])
        what = "the webhook sets no" if kind == "variable" else "there is no"
        listed = f"; `ray-webhook explain {kind}` lists all"
        raise InputError(f"{what} {kind} {name}{near or listed}")
    sys.stdout.write(f"{found}: {entries[found].text}\n")
    return 0


def _pod(state: State, name: str) -> int:
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


class _Entry(NamedTuple):
    """The explanation of a thing: in a line, and whole."""

    line: str
    text: str


def _documented(level: str, more: str, check: Callable[..., Any], page: str) -> _Entry:
    """Return the explanation of a check from its docstring."""
    text = cleandoc(check.__doc__ or "")
    first = " ".join(text.partition("\n\n")[0].split())
    return _Entry(f"{level}: {first}", f"{more}\n\n{text}\n\nwith an example: {page}")


def _rules() -> dict[str, _Entry]:
    effects = {"warn": "warns"}
    return {
        rule.id: _documented(
            rule.level, effects.get(rule.level, "denies"), rule.check, f"docs/rules.md#{rule.id}"
        )
        for rule in RULES
    }


def _diagnoses() -> dict[str, _Entry]:
    found = {}
    for each in DIAGNOSES:
        when = f"after {each.seconds:.0f} s" if each.seconds else "at once"
        more, page = f"{each.level}, counts {when}", f"docs/diagnoses.md#{each.id}"
        found[each.id] = _documented(each.level, more, each.check, page)
    return found


def _variables() -> dict[str, _Entry]:
    return {
        name: _Entry(
            found.why,
            f"{found.why}\n\ngiven to: {found.given}\nfor example: {name}={found.example}",
        )
        for name, found in sorted(given_variables().items())
    }


def _profiles() -> dict[str, _Entry]:
    found = {}
    for each in profiles.BY_NAME.values():
        lines = (
            f"\n  {row.variable}={row.value or f'<{row.field_path}>'}" for row in each.settings
        )
        found[each.name] = _Entry(each.purpose, f"{each.purpose}\n{''.join(lines)}")
    return found


def _annotations() -> dict[str, _Entry]:
    return {
        row.annotation: _Entry(
            row.means, f"{row.means}\n\nvalues: {row.values}\ndocumentation: docs/{row.page}"
        )
        for row in OPT_INS
    }


_ENTRIES: Final[dict[str, Callable[[], dict[str, _Entry]]]] = {
    "rule": _rules,
    "variable": _variables,
    "diagnosis": _diagnoses,
    "profile": _profiles,
    "annotation": _annotations,
}
_KINDS: Final = ("pod", *_ENTRIES)
