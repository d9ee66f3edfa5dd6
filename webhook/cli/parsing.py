"""A parser that names what was probably meant."""

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Final, NoReturn

WRONG: Final = 2
"""The exit status of a command that was not understood."""

_FLAG: Final = re.compile(r"(?<!\S)--[a-z][a-z-]*")


def meant(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean X?` for the known word that is nearest, nothing when none is near."""
    near = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else ""


def unknown(what: str, word: str, known: Sequence[str]) -> str:
    """Return that there is no such thing, and what was probably meant or what there is."""
    near = meant(word, known)
    return f"there is no {what} {word}" + (near or f": there are {', '.join(sorted(known))}")


def refuse(command: str, message: str) -> int:
    """Say why a command cannot do what it was asked for, and return its exit status."""
    sys.stderr.write(f"ray-webhook {command}: {message}\n")
    return WRONG


def check_flags(parser: argparse.ArgumentParser, rest: Sequence[str]) -> None:
    """End the program when arguments were not understood, with the flag that was probably meant."""
    if rest:
        known = _FLAG.findall(parser.format_help())
        flag = rest[0].partition("=")[0]
        _exit(parser, f"there is no argument {rest[0]}{meant(flag, known)}")


def _exit(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    parser.exit(WRONG, f"{parser.prog}: {message}\nsee {parser.prog} --help\n")
