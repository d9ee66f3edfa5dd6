"""docs/commands.md, from the parsers of the commands."""

import argparse
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Final

from tests import ROOT
from tests.pages.markdown import folded
from webhook.cli.main import COMMANDS, EXTRAS, parser_of

PAGE: Final = ROOT / "docs" / "commands.md"
PROGRAM: Final = "ray-webhook"
_PROCESSES: Final = ("serve", "controller")
_HEAD: Final = f"""# Commands

<!-- Written by `make generate`; a test fails when this page is out of date. -->

`kubectl ray-webhook COMMAND` is the same as `{PROGRAM} COMMAND`. The exit status is 0 for success,
2 if the input cannot be read, and 130 after Ctrl-C.

The package is not on PyPI yet. In a checkout, `pip install '.[cluster,serve]'` installs it
with the packages that all commands need. Elsewhere, write the path of a released wheel in place of
`.`, also for pipx.

## Common flags

"""
_COMMON: Final = 3
"""A flag of this many commands is described once."""
_ONLY: Final = {"validate": "--cluster", "explain": "pod"}
"""What alone of a command needs its extra."""


def page() -> str:
    rows = "".join(sorted(_common().values()))
    commands = "".join(f"\n{part}" for name in COMMANDS for part in _command(name))
    return folded(f"{_HEAD}{rows}{commands}")


@cache
def _common() -> dict[str, str]:
    commands = [name for name in COMMANDS if name not in _PROCESSES]
    found = [
        (each.option_strings[-1], _row(each))
        for name in commands
        for each in parser_of(PROGRAM, [name])[1]._actions  # noqa: SLF001 - as below
        if each.option_strings and _is_shown(each)
    ]
    return {flag: row for (flag, row), count in Counter(found).items() if count >= _COMMON}


def _command(name: str) -> Iterator[str]:
    yield f"## {name}\n"
    yield f"{COMMANDS[name][0].upper()}{COMMANDS[name][1:]}.\n"
    if part := _ONLY.get(name):
        yield f"`{part}` needs the extra `{EXTRAS[name]}`.\n"
    elif name in EXTRAS:
        yield f"Needs the extra `{EXTRAS[name]}`.\n"
    if name in _PROCESSES:
        yield (
            "Its flags are the [settings](settings.md) and `--config`. Without `--kubeconfig` it "
            "uses the service account of its pod.\n"
        )
        return
    _, parser = parser_of(PROGRAM, [name])
    yield from _described(parser)


def _described(parser: argparse.ArgumentParser, above: str = "") -> Iterator[str]:
    """Yield the arguments and the text at the end, unless that of the command above has it."""
    every = {row: each for each in parser._actions if _is_shown(each) for row in (_row(each),)}  # noqa: SLF001 - has no other way
    common = _common().values()
    if rows := [row for row in every if row not in common]:
        yield "".join(rows)
    if flags := [f"`{each.option_strings[-1]}`" for row, each in every.items() if row in common]:
        yield f"[Common flags](#common-flags): {', '.join(flags)}.\n"
    text = (parser.epilog or "").strip()
    if text not in above:
        yield f"```text\n{text}\n```\n"
    for each in parser._actions:  # noqa: SLF001 - as above
        if isinstance(each, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for name, sub in each.choices.items():
                yield f"### {sub.prog.removeprefix(PROGRAM).strip() or name}\n"
                yield from _described(sub, text)


def _is_shown(action: argparse.Action) -> bool:
    hidden = (argparse._HelpAction, argparse._SubParsersAction)  # noqa: SLF001 - as above
    return not isinstance(action, hidden) and action.help != argparse.SUPPRESS


def _row(action: argparse.Action) -> str:
    given = action.metavar if isinstance(action.metavar, str) else ""
    if not given and action.choices:
        given = "{" + ",".join(map(str, action.choices)) + "}"
    words = ", ".join(action.option_strings) or given or action.dest
    if action.option_strings and action.nargs != 0:
        words += f" {given or action.dest.upper()}"
    text = (action.help or "").replace("%%", "%") % vars(action)
    return f"- `{words}`: {text}\n"
