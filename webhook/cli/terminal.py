"""Terminal output with `rich`: colours and symbols only where the stream supports them."""

import sys
from collections.abc import Iterable
from math import ceil
from typing import Any, Final, Literal, Self, TextIO

from rich import text as rich_text
from rich.console import Console, RenderableType
from rich.control import Control
from rich.segment import ControlType, Segment, Segments
from rich.style import Style
from rich.table import Table

from webhook.api.formats import no_command, one_line
from webhook.cli.parsing import colourful

_WIDE: Final = 400
"""The width of output to a file or a pipe, where lines are not broken."""

Column = Literal["whole", "folds"]

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


class Text(rich_text.Text):
    """A line of untrusted text, without terminal control characters.

    All text for a console has this type, since rich keeps ESC and bidi overrides.
    """

    def __init__(
        self,
        text: str = "",
        style: str | Style = "",
        **options: Any,  # noqa: ANN401 - those of rich
    ) -> None:
        super().__init__(one_line(text), style, **options)

    def append(self, text: rich_text.Text | str, style: str | Style | None = None) -> Self:
        """Append another text without its control characters."""
        super().append(one_line(text) if isinstance(text, str) else text, style)
        return self


def console(stream: TextIO | None = None) -> Console:
    """Return a console, with the colours that `colourful` describes."""
    stream = stream or sys.stdout
    plain = not colourful(stream)
    colours: Literal["auto", "standard"] = "auto" if stream.isatty() else "standard"
    return Console(
        file=stream,
        width=None if stream.isatty() else _WIDE,
        no_color=plain,
        color_system=None if plain else colours,
        highlight=False,
        markup=False,
        emoji=False,
    )


def show(*parts: RenderableType, screen: Console | None = None) -> None:
    """Print each part. No line is cut, so that commands can be copied, or ends with spaces."""
    screen = screen or console()
    with screen.capture() as printed:
        for part in parts:
            screen.print(part, crop=False)
    lines = (no_command(line.rstrip(" ")) for line in printed.get().splitlines())
    screen.file.write("".join(f"{line}\n" for line in lines))


def grid(*columns: Column, padding: int = 1) -> Table:
    """Return a table without borders. On a narrow terminal, the text of folding columns is broken
    into lines, so that nothing is cut.
    """
    table = Table.grid(padding=(0, padding))
    for column in columns:
        table.add_column(no_wrap=column == "whole", overflow="fold")
    return table


def listing(rows: Iterable[tuple[rich_text.Text | str, rich_text.Text]]) -> Table:
    """Return a table of texts, each with the symbol of its level or none."""
    table = grid("whole", "whole", "folds")
    for symbol, cell in rows:
        table.add_row(" ", symbol, cell)
    return table


def symbols(stream: TextIO | None = None) -> bool:
    """Return whether a stream can encode characters beyond ASCII."""
    try:
        "■✗".encode((stream or sys.stdout).encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def style(name: str) -> str:
    """Return the style of a level, or of `ok`."""
    return _STYLES.get(name, "")


def mark(name: str) -> Text:
    """Return the symbol of a level, which differs in shape as well as in colour."""
    pretty, plain = _MARKS[name]
    return Text(pretty if symbols() else plain, style=style(name))


class Screen:
    """Redraws output over the previous one. Nothing is cut: the terminal breaks long lines, so that
    commands can be copied, and output that is too tall is printed below the previous one, to be
    scrolled.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines: list[int] = []
        """The lengths of the lines to overwrite."""
        self._width = console.width

    def show(self, cluster_report: RenderableType, *, new: bool) -> None:
        """Draw the output; if it does not fit, only when `new` (not only its times changed)."""
        width, height = self._console.size
        segments = list(self._console.render(cluster_report))
        lines = [Segment.get_line_length(line) for line in Segment.split_lines(segments)]
        fits = _rows(lines, width) < height
        if not fits and not new and width == self._width:
            return
        above = _rows(self._lines, width)
        with self._console:
            if above < height:
                up = [(ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)] * above
                self._console.control(Control(ControlType.CARRIAGE_RETURN, *up))
            self._console.print(Segments(segments), crop=False, end="")
        self._lines, self._width = lines if fits else [], width


def _rows(lines: list[int], width: int) -> int:
    return sum(max(1, ceil(length / width)) for length in lines)
