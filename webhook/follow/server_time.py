"""The time of the API server: the `Date` of its responses, carried forward by a monotonic clock."""

from collections.abc import Callable
from email.utils import parsedate_to_datetime
from math import inf
from time import monotonic


class ServerTime:
    """A lower bound of the API server's time (Unix time); -inf before the first response.

    It never goes back: a response may be read long after it was sent, and servers of one control
    plane differ by a second or two.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._ahead = -inf
        self._date = ""

    def now(self) -> float:
        """Return the time."""
        return self._clock() + self._ahead

    def observe(self, date: str) -> None:
        """Take in the `Date` of a response that has just been read; what is no date is ignored."""
        if date == self._date or not date:
            return
        try:
            at = parsedate_to_datetime(date).timestamp()
        except (ValueError, OverflowError):
            return
        self._date = date
        self._ahead = max(self._ahead, at - self._clock())
