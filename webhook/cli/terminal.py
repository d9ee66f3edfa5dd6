"""The terminal: the doorway to `rich`, with colours and symbols only where they are seen."""

import os
import sys
from typing import Final, TextIO

from rich.console import Console
from rich.text import Text

_WIDE: Final = 400
"""Columns where nobody looks: lines are not broken in a file or a pipe."""

_STYLES: Final = {
    "error": "bold red",
    "warning": "yellow",
    "info": "cyan",
    "fine": "green",
    "dim": "bright_black",
}
_MARKS: Final = {
    "error": ("✗", "x"),
    "warning": ("!", "!"),
    "info": ("i", "i"),
    "fine": ("✓", "+"),
    "unknown": ("?", "?"),
}


def console(stream: TextIO | None = None) -> Console:
    """Return a console; a terminal gets colours unless NO_COLOR or TERM=dumb says otherwise."""
    stream = stream or sys.stdout
    plain = not stream.isatty() or "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
    return Console(
        file=stream,
        width=None if stream.isatty() else _WIDE,
        no_color=plain,
        color_system=None if plain else "auto",
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
    )


def symbols(stream: TextIO | None = None) -> bool:
    """Tell whether a stream can take characters beyond ASCII."""
    try:
        "■✗".encode((stream or sys.stdout).encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def style(name: str) -> str:
    """Return the style of a level, or of what is fine."""
    return _STYLES.get(name, "")


def mark(name: str) -> Text:
    """Return the mark of a level, which is told by its shape as well as by its colour."""
    pretty, plain = _MARKS[name]
    return Text(pretty if symbols() else plain, style=style(name))
