"""Refused requests in the log: so many a second, and a count of the rest, as anyone who reaches the
port can make them.
"""

from collections.abc import Callable
from time import monotonic
from typing import Final

A_SECOND: Final = 10
"""Lines a second."""


class RefusalPace:
    """Says which refusals get a line."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._second = 0
        self._lines = 0
        self._left_out = 0

    def line(self) -> bool:
        """Tell whether the refusal of now gets a line, and count it when not."""
        second = int(self._clock())
        if second != self._second:
            self._second, self._lines = second, 0
        self._lines += 1
        if self._lines <= A_SECOND:
            return True
        self._left_out += 1
        return False

    def rest(self) -> int:
        """Return how many got none since this was asked, once their second is over; before, 0."""
        if int(self._clock()) == self._second:
            return 0
        rest, self._left_out = self._left_out, 0
        return rest
