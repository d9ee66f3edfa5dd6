"""`ray-webhook explain`: the changes of a pod by the webhook with reasons, and the meaning of
rules, variables, diagnoses and annotations.
"""

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from typing import Any, Final, NamedTuple

from webhook.accelerators.profiles import PROFILES, Profiles, add_profiles
from webhook.api import names
from webhook.api.failures import InputError
from webhook.cli.parsing import add_connection, add_ignoring, add_state, meant, unknown
from webhook.diagnostics.examination import DIAGNOSES
from webhook.explain.variables import list_variables
from webhook.groups.annotations import OPT_INS
from webhook.validation.rules import RULES


class _Entry(NamedTuple):
    """The explanation of a thing: in a line, and whole."""

    line: str
    text: str


_EntriesByKind = Mapping[str, Callable[[], dict[str, _Entry]]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.epilog = (
        "examples:\n"
        "  ray-webhook explain pod llama-tpu-worker-x7k2p -n team\n"
        "  ray-webhook explain rule tpu-topology-mismatch\n"
        "  ray-webhook explain variable TPU_WORKER_ID\n"
        "  ray-webhook explain diagnosis host-missing\n"
        "  ray-webhook explain profile torchrun\n"
        "  ray-webhook explain annotation                 all annotations, a line each\n"
        "  ray-webhook explain tpu-topology-mismatch      the entry of this name\n\n"
        "exit status: 0: explained; 2: there is no such name, or the cluster cannot be reached"
    )
    parser.add_argument(
        "kind",
        metavar="|".join(_KINDS),
        help="the kind of thing to explain; without it, everything but pods is searched",
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
    kind, name = arguments.kind, arguments.name
    if kind == "pod":
        if not (name or arguments.state):
            raise InputError("name a pod; `kubectl get pods` lists them")
        return int(import_module("webhook.cli.explained_pod").explain_pod(arguments, name or ""))
    profiles = PROFILES
    if arguments.config:  # only then, the settings have to be loaded
        sources = import_module("webhook.config.sources")
        profiles = add_profiles(sources.read_settings(["--config", arguments.config]).profiles)
    entries_by_kind = _entries_by_kind(profiles)
    if kind not in _KINDS:
        if name is not None:
            raise InputError(unknown("kind", kind, _KINDS))
        kind, name = _kind_of(kind, entries_by_kind), kind
    entries = entries_by_kind[kind]()
    if name is None:
        width = max(map(len, entries))
        sys.stdout.write(
            "".join(f"{key:<{width}}  {entry.line}\n" for key, entry in entries.items())
        )
        return 0
    full_name = _key(name, entries)
    if full_name not in entries:
        near = meant(
            name, [*entries, *(entry_name.removeprefix(names.PREFIX) for entry_name in entries)]
        )
        beginning = "the webhook sets no" if kind == "variable" else "there is no"
        listed = f"; `ray-webhook explain {kind}` lists all"
        raise InputError(f"{beginning} {kind} {name}{near or listed}")
    sys.stdout.write(f"{full_name}: {entries[full_name].text}\n")
    return 0


def _key(name: str, entries: Iterable[str]) -> str:
    """Return the key of a name, which can lack the prefix of annotations."""
    return name if name in entries else names.PREFIX + name


def _kind_of(name: str, entries_by_kind: _EntriesByKind) -> str:
    """Return the only kind that has a name. Raises InputError."""
    every = {kind: entries() for kind, entries in entries_by_kind.items()}
    kinds = [kind for kind, entries in every.items() if _key(name, entries) in entries]
    if len(kinds) == 1:
        return kinds[0]
    if kinds:
        commands = " or ".join(f"`ray-webhook explain {kind} {name}`" for kind in kinds)
        raise InputError(f"{name} has several meanings: write {commands}")
    near = meant(name, [*_KINDS, *(key for entries in every.values() for key in entries)])
    raise InputError(
        f"there is no {', '.join(every)} {name}"
        f"{near or '; `ray-webhook explain KIND` lists those of a kind'}"
    )


def _explain_check(level: str, more: str, check: Callable[..., Any], end: str) -> _Entry:
    """Return the explanation of a check from its docstring."""
    docstring = cleandoc(check.__doc__ or "")
    first = " ".join(docstring.partition("\n\n")[0].split())
    return _Entry(f"{level}: {first}", f"{more}\n\n{docstring}\n\n{end}")


_AFTER_SOURCE: Final = re.compile(r"\nSources?:[^\n]*\n(?:[^\n]+\n)*")
_FIRST_EXAMPLE: Final = re.compile("\n(?=- Example)")
_OFF: Final = (
    """To turn it off for an installation (in the chart, under `config`):

  validation: {{levels: {{{id}: off}}}}

For files: ray-webhook validate --rule {id}=off
To exempt one object from the webhook, its pods too (no identities, no variables): the label """
    f'{names.LABEL_IGNORE}: "true"'
)


def _rules() -> dict[str, _Entry]:
    effects = {"warn": "warns"}
    examples = _examples(sorted((_pages() / "rules").glob("*.md")), _AFTER_SOURCE)
    return {
        rule.id: _explain_check(
            rule.level,
            effects.get(rule.level, "denies"),
            rule.check,
            f"{examples.get(rule.id, '')}{_OFF.format(id=rule.id)}\n\n"
            f"documentation: docs/rules.md#{rule.id}",
        )
        for rule in RULES
    }


def _pages() -> Path:
    """Return the folder of the pages with examples: in the package, or beside it in a checkout."""
    docs_folder = Path(__file__).parents[1] / "docs"
    return docs_folder if docs_folder.exists() else docs_folder.parents[1] / "docs"


def _examples(pages: Iterable[Path], before: re.Pattern[str]) -> dict[str, str]:
    """Return the end of each section of some pages, after the text before its examples, by
    heading.
    """
    examples = {}
    for page in pages:
        for section in page.read_text("utf-8").split("\n## ")[1:]:
            start = before.search(section)
            if start is not None:
                example_text = re.sub(r"```\w*\n", "", section[start.end() :])
                examples[section.partition("\n")[0]] = f"{example_text.strip()}\n\n"
    return examples


def _diagnoses() -> dict[str, _Entry]:
    entries, examples = {}, _examples([_pages() / "diagnoses.md"], _FIRST_EXAMPLE)
    for diagnosis in DIAGNOSES:
        when = f"after {diagnosis.seconds:.0f} s" if diagnosis.seconds else "at once"
        end = f"{examples.get(diagnosis.id, '')}documentation: docs/diagnoses.md#{diagnosis.id}"
        entries[diagnosis.id] = _explain_check(
            diagnosis.level, f"{diagnosis.level}, counts {when}", diagnosis.check, end
        )
    return entries


def _variables(profiles: Profiles) -> dict[str, _Entry]:
    return {
        name: _Entry(
            env_var.why,
            f"{env_var.why}\n\ngiven to: {env_var.given}\nfor example: {name}={env_var.example}\n"
            "A value that the template sets is never overwritten.",
        )
        for name, env_var in sorted(list_variables(profiles).items())
    }


def _profiles(profiles: Profiles) -> dict[str, _Entry]:
    entries = {}
    for profile in profiles:
        lines = (
            f"\n  {row.variable}={row.value or f'<{row.field_path}>'}" for row in profile.settings
        )
        entries[profile.name] = _Entry(profile.purpose, f"{profile.purpose}\n{''.join(lines)}")
    return entries


def _annotations() -> dict[str, _Entry]:
    return {
        row.annotation: _Entry(
            row.means, f"{row.means}\n\nvalues: {row.values}\ndocumentation: docs/{row.page}"
        )
        for row in OPT_INS
    }


def _entries_by_kind(profiles: Profiles) -> _EntriesByKind:
    return {
        "rule": _rules,
        "variable": partial(_variables, profiles),
        "diagnosis": _diagnoses,
        "profile": partial(_profiles, profiles),
        "annotation": _annotations,
    }


_KINDS: Final = ("pod", *_entries_by_kind(PROFILES))
