"""Timestamps in the format of the API server: RFC 3339 in UTC, in seconds or microseconds."""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z", re.ASCII)
_LENGTH_MAX: Final = 30
_END: Final = 253402300800
"""The year 10000, in seconds since the epoch."""


def seconds_of(text: str | None) -> float | None:
    """Return the seconds since the epoch, or None for an invalid timestamp, such as one of the year
    0, which the API server accepts in Events.
    """
    return _seconds(text) if text and len(text) <= _LENGTH_MAX else None


@lru_cache(maxsize=1 << 13)  # pods of a replica have equal times: 7 % of a report
def _seconds(text: str) -> float | None:
    if not _INSTANT.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def text_of(seconds: float | None) -> str | None:
    """Return seconds since the epoch as a timestamp in seconds; None for None, and for times
    outside of 1970 to 9999.
    """
    if seconds is None or not 0 <= seconds < _END:
        return None
    return f"{datetime.fromtimestamp(int(seconds), UTC):%Y-%m-%dT%H:%M:%SZ}"
