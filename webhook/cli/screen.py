"""The screen of a terminal, on which a picture that changes is drawn over the one before."""

from math import ceil

from rich.console import Console, RenderableType
from rich.control import Control
from rich.segment import ControlType, Segment, Segments


class Screen:
    """Draws pictures, one over the other. Nothing is cut: the terminal breaks a line that is longer
    than it is wide, so that commands can be copied, and a picture that is taller stands below what
    came before, where one can scroll to it.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lines: list[int] = []
        """How long the lines are that the next picture is drawn over."""
        self._width = 0

    def show(self, picture: RenderableType, *, new: bool) -> None:
        """Draw a picture. One that does not fit is drawn when it is `new`, more than its times."""
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
    """Return how many rows of a terminal lines of these lengths take."""
    return sum(max(1, ceil(length / width)) for length in lines)
