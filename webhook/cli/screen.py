"""A terminal screen on which changing output is redrawn in place."""

from math import ceil

from rich.console import Console, RenderableType
from rich.control import Control
from rich.segment import ControlType, Segment, Segments


class Screen:
    """Redraws output over the previous one. Nothing is cut: the terminal breaks long lines, so that
    commands can be copied, and output that is too tall is printed below the previous one, to be
    scrolled.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines: list[int] = []
        """The lengths of the lines to overwrite."""
        self._width = 0

    def show(self, picture: RenderableType, *, new: bool) -> None:
        """Draw the output; if it does not fit, only when `new` (not only its times changed)."""
        width, height = self._console.size
        segments = list(self._console.render(picture))
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
