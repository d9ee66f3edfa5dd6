"""Write docs/commands.md from the parsers of the commands: `python -m tests.cli.page`."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.pages import folded
from webhook.cli.main import (
    COMMANDS,
    EXTRAS,
    SOURCE,
    parser_of,
)

PAGE: Final = Path(__file__).parents[2] / "docs" / "commands.md"
PROGRAM: Final = "ray-webhook"
_PROCESSES: Final = ("serve", "controller")
_HEAD: Final = f"""# Commands

<!-- Written by `python -m tests.cli.page`; a test fails when it is out of date. -->

`kubectl ray-webhook COMMAND` is the same as `{PROGRAM} COMMAND`. All commands end with 0 when
what they were asked holds, with 2 when their input cannot be read, and with 130 after Ctrl-C.

No index has the package yet. `pip install '{SOURCE}[cluster,serve]'` in a checkout installs it with
what all commands need; the wheel of a release stands in place of `{SOURCE}` outside of one.
"""


def page() -> str:
    """Return the page."""
    return folded(_HEAD + "".join(f"\n{part}" for name in COMMANDS for part in _command(name)))


def _command(name: str) -> Iterator[str]:
    yield f"## {name}\n"
    yield f"{COMMANDS[name][0].upper()}{COMMANDS[name][1:]}.\n"
    if name == "validate":
        yield f"`--cluster` needs the extra `{EXTRAS[name]}`.\n"
    elif name in EXTRAS:
        yield f"Needs the extra `{EXTRAS[name]}`.\n"
    if name in _PROCESSES:
        yield (
            "Its flags are the [settings](settings.md), `--config` that of a file with them, and "
            "`--kubeconfig`, without which it uses the account of its pod.\n"
        )
        return
    _, parser = parser_of(PROGRAM, [name])
    yield from _described(parser)


def _described(parser: argparse.ArgumentParser) -> Iterator[str]:
    rows = [_row(each) for each in parser._actions if _is_shown(each)]  # noqa: SLF001 - has no other way
    if rows:
        yield "| argument | |\n|---|---|\n" + "".join(rows)
    if parser.epilog:
        yield f"```text\n{parser.epilog.strip()}\n```\n"
    for each in parser._actions:  # noqa: SLF001 - as above
        if isinstance(each, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for name, sub in each.choices.items():
                yield f"### {sub.prog.removeprefix(PROGRAM).strip() or name}\n"
                yield from _described(sub)


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
    cells = (f"`{words}`", text)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


if __name__ == "__main__":
    PAGE.write_text(page())
    sys.stdout.write(f"{PAGE}\n")
