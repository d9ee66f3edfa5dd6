"""Timestamps in the format of the API server: RFC 3339 in UTC, in seconds or microseconds."""

import re
from calendar import timegm
from functools import lru_cache
from typing import Final

_INSTANT: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(\.\d{1,9})?Z", re.ASCII)


_DAY: Final = 86400
_CENTURIES: Final = 146097
"""Days of 400 years, the period of the Gregorian calendar."""
_EPOCH: Final = 719468
"""Days from 1 March of the year 0 to 1970. Years start in March, so that leap days come last."""
_END: Final = 253402300800
"""The year 10000, in seconds since the epoch."""


@lru_cache(
    maxsize=1 << 13
)  # pods of a replica are created within few seconds, and their times are parsed often
def seconds_of(text: str | None) -> float | None:
    """Return the seconds since the epoch, or None for an invalid timestamp, such as one of the year
    0, which the API server accepts in Events.
    """
    match = _INSTANT.fullmatch(text) if text else None
    if match is None:
        return None
    *parts, fraction = match.groups()
    year, month, day, hour, minute, second = map(int, parts)
    try:
        return timegm((year, month, day, hour, minute, second)) + float(fraction or 0)
    except ValueError:
        return None


def text_of(seconds: float | None) -> str | None:
    """Return seconds since the epoch as a timestamp in seconds; None for None, and for times
    outside of 1970 to 9999.

    https://howardhinnant.github.io/date_algorithms.html#civil_from_days
    """
    if seconds is None or not 0 <= seconds < _END:
        return None
    days, second = divmod(int(seconds), _DAY)
    era, day = divmod(days + _EPOCH, _CENTURIES)
    year = (day - day // 1460 + day // 36524 - day // 146096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    month += 3 if month < 10 else -9  # noqa: PLR2004 - of months that begin with March
    year += era * 400 + (month < 3)  # noqa: PLR2004 - January and February
    minute, second = divmod(second, 60)
    return f"{year:04d}-{month:02d}-{day:02d}T{minute // 60:02d}:{minute % 60:02d}:{second:02d}Z"
