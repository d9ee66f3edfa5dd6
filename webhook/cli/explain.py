"""`ray-webhook explain`: the changes of a pod by the webhook with reasons, and the meaning of
rules, variables, diagnoses and annotations.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from inspect import cleandoc
from typing import Any, Final

from rich.console import RenderableType
from rich.table import Table

from webhook.accelerators import profiles
from webhook.api import names
from webhook.cli.cluster_tree import shown_troubles
from webhook.cli.connection import UNREACHABLE
from webhook.cli.parsing import (
    add_connection,
    add_ignoring,
    meant,
    refuse,
)
from webhook.cli.state_option import State, add_state, read_state
from webhook.cli.terminal import (
    Text,
    console,
    grid,
    mark,
    style,
)
from webhook.diagnostics.assigned_pods import Cluster, assign
from webhook.diagnostics.examination import DIAGNOSES, examine
from webhook.diagnostics.live_objects import LivePod
from webhook.diagnostics.messages import duration
from webhook.diagnostics.object_cache import owner_of
from webhook.explain.pod_explanation import (
    HAS,
    MISSING,
    Account,
    Given,
    seat_labels,
    tell,
)
from webhook.explain.variables import given_variables
from webhook.groups.annotations import OPT_INS
from webhook.validation.rules import RULES

_KINDS: Final = ("pod", "rule", "variable", "diagnosis", "profile", "annotation")
_LONG: Final = 70
"""The maximum length of a printed value."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
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
        if arguments.name is None:
            return refuse("explain", "name a pod; `kubectl get pods` lists them")
        read = read_state(arguments)
        return UNREACHABLE if read is None else _pod(read, arguments.name)
    if arguments.config and (problem := _extend(arguments.config)):
        return refuse("explain", problem)
    explain, listed = _EXPLAIN[arguments.kind]
    if arguments.name is not None:
        return explain(arguments.name)
    rows = list(listed())
    width = max(len(name) for name, _ in rows)
    sys.stdout.write("".join(f"{name:<{width}}  {text}\n" for name, text in rows))
    return 0


def _pod(state: State, name: str) -> int:
    objects, now = state.objects, state.now
    pod = next((each for each in objects.pods.all if each.name == name), None)
    if pod is None:
        near = get_close_matches(name, [each.name for each in objects.pods.all], n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        return refuse("explain", f"there is no Ray pod {name} in this namespace{meant}")
    live = objects.clusters.get(owner_of(pod))
    cluster = assign(live, objects, now) if live is not None else None
    screen = console()
    for line in _about(pod, cluster, now):
        screen.print(line)
    troubles = [each for each in examine(objects, now).every_trouble if name in each.pods]
    for part in shown_troubles(tuple(troubles), now):
        screen.print(part, crop=False)
    return 0


def _about(pod: LivePod, cluster: Cluster | None, now: float) -> Iterator[RenderableType]:
    """Yield the explanation of a pod."""
    age = "" if pod.created is None else f", created {duration(now - pod.created)} ago"
    yield Text.assemble(
        (f"{pod.metadata.namespace}/{pod.name}", "bold"), f"  {pod.status.phase or 'Pending'}{age}"
    )
    what, account = tell(cluster, pod)
    yield Text(f"  {what}")
    if account is None:
        return
    for key, value in seat_labels(pod):
        yield Text(f"  label {key}={value}", style=style("dim"))
    yield _table(account)
    yield _remarks(account)


def _table(account: Account) -> Table:
    table = grid("whole", "whole", "folds", "folds")
    for given in account.given:
        table.add_row(
            " ", mark(_level(given)), Text(_said(given)), Text(f"# {given.why}", style=style("dim"))
        )
    return table


def _remarks(account: Account) -> Table:
    table = grid("whole", "whole", "folds")
    for each in account.remarks:
        table.add_row(" ", mark(each.level), Text(each.text))
    return table


def _level(given: Given) -> str:
    if given.held == HAS:
        return "fine"
    return "error" if given.held == MISSING else "warning"


def _said(given: Given) -> str:
    where = f" in {', '.join(given.containers)}" if given.containers else ""
    text = f"{given.what}={_short(given.expected)}{where}"
    if given.held == HAS:
        return text
    return (
        f"{text}: the pod "
        f"{'does not have it' if given.actual is None else f'has {_short(given.actual)}'}"
    )


def _short(value: str) -> str:
    return value if len(value) <= _LONG else f"{value[:_LONG]}…"


def _rule(name: str) -> int:
    rule = next((each for each in RULES if each.id == name), None)
    if rule is None:
        near = meant(name, [each.id for each in RULES]) or "; `ray-webhook explain rule` lists all"
        return refuse("explain", f"there is no rule {name}{near}")
    level = f"{rule.level}s" if rule.level == "warn" else "denies"
    return _documented(name, level, rule.text, "docs/rules.md")


def _diagnosis(name: str) -> int:
    diagnosis = next((each for each in DIAGNOSES if each.id == name), None)
    if diagnosis is None:
        near = (
            meant(name, [each.id for each in DIAGNOSES])
            or "; `ray-webhook explain diagnosis` lists all"
        )
        return refuse("explain", f"there is no diagnosis {name}{near}")
    when = f"counts after {diagnosis.seconds:.0f} s" if diagnosis.seconds else "counts at once"
    text = cleandoc(diagnosis.check.__doc__ or "")
    return _documented(name, f"{diagnosis.level}, {when}", text, "docs/diagnoses.md")


def _documented(name: str, level: str, text: str, page: str) -> int:
    sys.stdout.write(f"{name}: {level}\n\n{text}\n\nwith an example: {page}#{name}\n")
    return 0


def _variable(name: str) -> int:
    variables = given_variables()
    found = variables.get(name)
    if found is None:
        near = meant(name, variables) or "; `ray-webhook explain variable` lists all"
        return refuse("explain", f"the webhook sets no variable {name}{near}")
    sys.stdout.write(
        f"{name}: {found.why}\n\ngiven to: {found.given}\nfor example: {name}={found.example}\n"
    )
    return 0


def _profile(name: str) -> int:
    profile = profiles.BY_NAME.get(name)
    if profile is None:
        known = profiles.allowed()
        near = meant(name, known) or "; `ray-webhook explain profile` lists all"
        return refuse("explain", f"there is no profile {name}{near}")
    rows = [
        f"  {each.variable}={each.value or f'<{each.field_path}>'}\n" for each in profile.settings
    ]
    sys.stdout.write(f"{name}: {profile.purpose}\n\n{''.join(rows)}")
    return 0


def _extend(file: str) -> str:
    """Add the profiles in a file with settings, and return an error, or an empty string."""
    from webhook.config.sources import WrongSettingsError, read_settings  # noqa: PLC0415

    try:
        read_settings(["--config", file]).extend()
    except WrongSettingsError as error:
        return str(error)
    return ""


def _annotation(name: str) -> int:
    known = {row.annotation: row for row in OPT_INS}
    row = known.get(name) or known.get(names.PREFIX + name)
    if row is None:
        shorter = [each.removeprefix(names.PREFIX) for each in known]
        near = meant(name, [*known, *shorter]) or "; `ray-webhook explain annotation` lists all"
        return refuse("explain", f"there is no annotation {name}{near}")
    sys.stdout.write(
        f"{row.annotation}: {row.means}\n\nvalues: {row.values}\ndocumentation: docs/{row.page}\n"
    )
    return 0


def _first_line(check: Callable[..., Any]) -> str:
    """Return the first paragraph of a docstring in one line."""
    return " ".join(cleandoc(check.__doc__ or "").partition("\n\n")[0].split())


def _rules() -> Iterator[tuple[str, str]]:
    yield from ((rule.id, f"{rule.level}: {_first_line(rule.check)}") for rule in RULES)


def _variables() -> Iterator[tuple[str, str]]:
    yield from ((name, each.why) for name, each in sorted(given_variables().items()))


def _diagnoses() -> Iterator[tuple[str, str]]:
    yield from ((each.id, f"{each.level}: {_first_line(each.check)}") for each in DIAGNOSES)


def _profiles() -> Iterator[tuple[str, str]]:
    yield from ((each.name, each.purpose) for each in profiles.BY_NAME.values())


def _annotations() -> Iterator[tuple[str, str]]:
    yield from ((row.annotation, row.means) for row in OPT_INS)


_EXPLAIN: Final[dict[str, tuple[Callable[[str], int], Callable[[], Iterator[tuple[str, str]]]]]] = {
    "rule": (_rule, _rules),
    "variable": (_variable, _variables),
    "diagnosis": (_diagnosis, _diagnoses),
    "profile": (_profile, _profiles),
    "annotation": (_annotation, _annotations),
}
