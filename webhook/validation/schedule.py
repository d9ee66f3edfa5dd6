"""Durations and cron schedules, parsed as strictly as KubeRay and Go do."""

import re
from typing import Final, NamedTuple

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


_MONTHS: Final = (
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
)  # fmt: skip
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_WORDS: Final = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_EVERY: Final = "@every "
_NUMBER: Final = re.compile(r"\+?[0-9]{1,9}", re.ASCII)


class _Part(NamedTuple):
    name: str
    low: int
    high: int
    words: dict[str, int]


# https://github.com/robfig/cron/blob/v3.0.1/spec.go
_PARTS: Final = (
    _Part("minute", 0, 59, {}),
    _Part("hour", 0, 23, {}),
    _Part("day of month", 1, 31, {}),
    _Part("month", 1, 12, {word: number for number, word in enumerate(_MONTHS, 1)}),
    _Part("day of week", 0, 6, {word: number for number, word in enumerate(_DAYS)}),
)


def problem_of(schedule: str) -> str:
    """Return why a schedule cannot be parsed, or an empty string.

    https://github.com/robfig/cron/blob/v3.0.1/parser.go (`ParseStandard`)
    """
    if len(schedule) > _LONGEST:
        return "it is too long"
    if schedule.startswith("@"):
        every = schedule.startswith(_EVERY)
        known = schedule in _WORDS or (
            every and parse_duration(schedule[len(_EVERY) :]) is not None
        )
        return "" if known else f"{schedule[:40]!r} is none of {', '.join(_WORDS)}, @every 1h"
    fields = schedule.split()
    if len(fields) != len(_PARTS):
        return f"{len(fields)} fields: write minute, hour, day of month, month and day of week"
    for part, text in zip(_PARTS, fields, strict=True):
        for expression in filter(None, text.split(",")):
            if not _readable(part, expression):
                return (
                    f"{part.name} {text[:40]!r}: write {part.low} to {part.high}, *, ranges or "
                    "steps"
                )
    return ""


def _readable(part: _Part, expression: str) -> bool:
    span, *steps = expression.split("/")
    low, *highs = span.split("-")
    if len(steps) > 1 or (steps and not _number(part, steps[0], words=False)):
        return False
    if low in ("*", "?"):
        return True
    start = _number(part, low)
    if start is None or len(highs) > 1:
        return False
    end = _number(part, highs[0]) if highs else start
    return end is not None and part.low <= start <= end <= part.high


def _number(part: _Part, text: str, *, words: bool = True) -> int | None:
    if words and text.lower() in part.words:
        return part.words[text.lower()]
    return int(text) if _NUMBER.fullmatch(text) else None
