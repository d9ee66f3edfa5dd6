"""Durations as Go writes them: `5m`, `1h30m`, `1.5s`.

https://github.com/golang/go/blob/master/src/time/format.go (`ParseDuration`)
"""

import re
from typing import Final

_UNITS: Final = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6,
    "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_MOST: Final = 2**63
_LONGEST: Final = 512


def parse_duration(text: str) -> int | None:
    """Return nanoseconds, rounded towards zero, or None if Go cannot parse the text."""
    body = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    if body == "0":
        return 0
    total = _sum(body) if 0 < len(body) <= _LONGEST else None
    if total is None or total > _MOST - (not text.startswith("-")):
        return None
    return -total if text.startswith("-") else total


def _sum(body: str) -> int | None:
    total, position = 0, 0
    while position < len(body):
        part = _PART.match(body, position)
        if part is None or not (part[1] or part[2]):
            return None
        unit, digits = _UNITS[part[3]], part[2] or ""
        whole = int(part[1] or 0) * unit
        total += whole + int(digits or 0) * unit // 10 ** len(digits)
        if total > _MOST:
            return None
        position = part.end()
    return total
