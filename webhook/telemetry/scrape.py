"""Scrapes: the exposition is made anew for each, unless somebody scrapes without end."""

from collections.abc import Callable
from time import monotonic
from typing import Final

_BURST: Final = 20
_A_SECOND: Final = 5
"""How many expositions a second are made in the long run. Each takes milliseconds, in which no
review is answered.
"""


class PacedScrapes:
    """Makes expositions, a number at once and then so many a second; above that, the last one is
    shown again.
    """

    def __init__(
        self, make: Callable[[], tuple[bytes, str]], clock: Callable[[], float] = monotonic
    ) -> None:
        self._make = make
        self._clock = clock
        self._left = float(_BURST)
        self._at = clock()
        self._last: tuple[bytes, str] | None = None

    def __call__(self) -> tuple[bytes, str]:
        """Return the exposition and its content type."""
        now = self._clock()
        self._left = min(self._left + (now - self._at) * _A_SECOND, _BURST)
        self._at = now
        if self._last is None or self._left >= 1:
            self._left -= 1
            self._last = self._make()
        return self._last
