"""Instants as the API server writes them: RFC 3339 in UTC, to the second or to the microsecond."""

import re
from calendar import timegm
from functools import lru_cache
from typing import Final

_INSTANT: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(\.\d{1,9})?Z",
    re.ASCII,
)


@lru_cache(maxsize=1 << 13)  # a replica's pods are made within few seconds, and asked often
def seconds_of(text: str | None) -> float | None:
    """Return the seconds since the epoch, or None for a text that is not an instant, such as one of
    the year 0, which the API server takes for the times of an Event.
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
