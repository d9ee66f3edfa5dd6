"""The parser of commands, with suggestions for misspelt words, and shared arguments."""

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from io import TextIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TextIO

from webhook.api import names
from webhook.api.failures import InputError
from webhook.api.formats import many_lines, nearest

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

WRONG: Final = 2
"""The exit status for an invalid command line."""

_SIMILAR: Final = 0.65
"""The minimum similarity of a suggestion by difflib's ratio, where 1 is the same word."""

_SPAN: Final = re.compile(r"([0-9]{1,6})(s|m|h)?")
_SECONDS: Final = {"s": 1, None: 1, "m": 60, "h": 3600}
_FLAG: Final = re.compile(r"(?<!\S)--[a-z][a-z.-]*")
_CHOICE: Final = re.compile(r"argument (.+): invalid choice: (.+) \(choose from (.+)\)", re.DOTALL)
_UNKNOWN: Final = re.compile(r"unrecognized arguments: (\S+)")


class Parser(argparse.ArgumentParser):
    """A parser with one-sentence errors and suggestions, and help texts as they are written."""

    def __init__(self, **options: Any) -> None:  # noqa: ANN401 - those of argparse
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**options)

    def _print_message(self, message: str, file: "SupportsWrite[str] | None" = None) -> None:
        """Write a message at once. Raises OSError, which argparse ignores."""
        stream = file or sys.stderr
        stream.write(message)
        if isinstance(stream, TextIOBase):
            stream.flush()

    def error(self, message: str) -> NoReturn:
        choice, flag = _CHOICE.fullmatch(message), _UNKNOWN.match(message)
        if choice:
            argument, word, choices = choice.groups()
            names = [quoted_name.strip("'") for quoted_name in choices.split(", ")]
            message = f"{argument}: {unknown('', word.strip(chr(39)), names)}"
        elif flag:
            message = f"there is no argument {flag[1]}{self._near(flag[1])}"
        else:
            self.print_usage(sys.stderr)
        self.exit(WRONG, f"{self.prog}: {message}\nsee {self.prog} --help\n")

    def _near(self, word: str) -> str:
        """Return the most similar flag, also if the part before the last dot is missing."""
        if word in ("-v", "-V") or nearest(word.strip("-"), ("version",), 0.8):
            return "; `ray-webhook version` prints the version"
        flags = _FLAG.findall(self.format_help())
        flags_by_ending = {f"--{flag.lstrip('-').rpartition('.')[2]}": flag for flag in flags}
        near = nearest(word.partition("=")[0], (*flags, *flags_by_ending), _SIMILAR)
        return f"; did you mean {near if near in flags else flags_by_ending[near]}?" if near else ""


def meant(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean X?` for the most similar known word, or an empty text."""
    near = nearest(word, known, _SIMILAR)
    return f"; did you mean {near}?" if near else ""


def unknown(what: str, word: str, known: Sequence[str]) -> str:
    """Return that a word is unknown, with the most similar known word, or else all of them."""
    verb = "is only" if len(known) == 1 else "are"
    suggestion = meant(word, known) or f": there {verb} {', '.join(sorted(known))}"
    return f"there is no {' '.join(filter(None, (what, word)))}{suggestion}"


def colourful(stream: TextIO) -> bool:
    """Return whether output has colours: on a terminal, unless NO_COLOR or TERM=dumb is set, and
    everywhere with FORCE_COLOR.
    """
    if "NO_COLOR" in os.environ:
        return False
    forced = os.environ.get("FORCE_COLOR", "0") not in ("", "0")
    return forced or (stream.isatty() and os.environ.get("TERM") != "dumb")


def refuse(command: str, message: str) -> int:
    """Print why a command cannot run, and return its exit status."""
    name = " ".join(filter(None, ("ray-webhook", command)))
    sys.stderr.write(f"{name}: {many_lines(message)}\n")
    return WRONG


def bug(error: Exception) -> str:
    """Return the end of a message about a bug of ray-webhook."""
    return f"a bug of ray-webhook, please report it: {type(error).__name__}: {error}"


def add_paths(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for the files to read."""
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="a file, a folder, or - for standard input"
    )
    parser.add_argument(
        "-f",
        "--filename",
        action="append",
        default=[],
        metavar="PATH",
        help="a file or folder; may be repeated",
    )


def paths_of(arguments: argparse.Namespace) -> list[str]:
    """Return the files of the command line, with or without a flag."""
    return [*arguments.filename, *arguments.paths]


def require_paths(arguments: argparse.Namespace) -> list[str]:
    """Return the files of the command line. Raises InputError without any."""
    if paths := paths_of(arguments):
        return paths
    raise InputError("name at least one file, folder, or - for standard input")


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the argument for text or JSON output."""
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json"),
        default="text",
        help="how it is shown (default: text)",
    )


def add_wait(parser: argparse.ArgumentParser, until: str) -> None:
    """Add the argument to repeat the command until a condition is met."""
    parser.add_argument(
        "--wait",
        type=span,
        default=0.0,
        metavar="TIME",
        help=f"repeat until {until}, for at most this time: 90s, 2m",
    )


def number(what: str, least: int, most: int) -> Callable[[str], int]:
    """Return a type of arguments: whole numbers within bounds. It raises ArgumentTypeError."""

    def read(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,9}", text) or not least <= int(text) <= most:
            msg = f"{text!r} is not {what} from {least} to {most}"
            raise argparse.ArgumentTypeError(msg)
        return int(text)

    return read


def span(text: str) -> float:
    """Return the seconds in a text such as `90s` or `2m`. Raises ArgumentTypeError."""
    match = _SPAN.fullmatch(text)
    if match is None:
        msg = f"{text!r} is not a time: write 90s, 2m or 1h"
        raise argparse.ArgumentTypeError(msg)
    return float(int(match[1]) * _SECONDS[match[2]])


def add_connection(
    parser: argparse.ArgumentParser,
    *,
    all_namespaces: bool = True,
    namespaces: str = "the context's",
) -> None:
    """Add the arguments for kubeconfig, context and namespace. `namespaces` names the default."""
    where = parser.add_argument_group("the cluster to read")
    where.add_argument(
        "-n", "--namespace", default="", metavar="NAME", help=f"a namespace (default: {namespaces})"
    )
    if all_namespaces:
        where.add_argument("-A", "--all-namespaces", action="store_true", help="all namespaces")
    where.add_argument(
        "--context", default=None, metavar="NAME", help="a context of the kubeconfig"
    )
    where.add_argument(
        "--kubeconfig",
        default="",
        metavar="PATH",
        help="a kubeconfig (default: KUBECONFIG, else ~/.kube/config)",
    )


def add_state(parser: argparse.ArgumentParser) -> None:
    """Add the argument for the files of a state."""
    parser.add_argument(
        "--state",
        action="append",
        type=Path,
        default=[],
        metavar="PATH",
        help="a file or folder with RayClusters and pods, in place of a cluster; "
        "`ray-webhook status -o state` writes one",
    )


def add_ignoring(parser: argparse.ArgumentParser) -> None:
    """Add the argument for the `ignore` label, the only setting that changes the output."""
    parser.add_argument(
        "--ignore.rayclusters",
        dest="ignoring",
        nargs="?",
        const=True,
        default=True,
        type=_truth,
        metavar="BOOL",
        help="the webhook's setting of that name (default: true): whether a RayCluster's label "
        f"{names.LABEL_IGNORE} leaves it alone",
    )


def _truth(text: str) -> bool:
    """Return the value of a flag, as in Kubernetes commands. Raises ArgumentTypeError."""
    if text not in ("true", "false"):
        msg = f"{text!r} is neither true nor false"
        raise argparse.ArgumentTypeError(msg)
    return text == "true"
