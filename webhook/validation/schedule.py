"""Durations and cron schedules, parsed as strictly as KubeRay and Go do."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from webhook.api.formats import shorten

_UNITS: Final = {
    "ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6,
    "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip
_PART: Final = re.compile(r"(?=\.?[0-9])([0-9]*)(?:\.([0-9]*))?(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_DURATION: Final = re.compile(f"(?:{_PART.pattern})+", re.ASCII)
_MOST: Final = 2**63
_LONGEST: Final = 512


def parse_duration(text: str) -> int | None:
    """Return nanoseconds, rounded towards zero, or None if Go cannot parse the text."""
    negative = text.startswith("-")
    body = text[1:] if text.startswith(("-", "+")) else text
    if body == "0":
        return 0
    if len(body) > _LONGEST or _DURATION.fullmatch(body) is None:
        return None
    total = 0
    for whole, digits, unit in _PART.findall(body):
        total += int(whole or 0) * _UNITS[unit]
        total += int(digits or 0) * _UNITS[unit] // 10 ** len(digits)
    if total > _MOST - (not negative):
        return None
    return -total if negative else total


_MONTHS: Final = (
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
)  # fmt: skip
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_WORDS: Final = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_EVERY: Final = "@every "
_NUMBER: Final = re.compile(r"\+?[0-9]{1,9}", re.ASCII)


_PARTS: Final[Sequence[tuple[str, int, int, Mapping[str, str]]]] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, {word: str(number) for number, word in enumerate(_MONTHS, 1)}),
    ("day of week", 0, 6, {word: str(number) for number, word in enumerate(_DAYS)}),
)
"""Each field of a schedule: its lowest and highest number, and words for them.

https://github.com/robfig/cron/blob/v3.0.1/spec.go
"""


def problem_of(schedule: str) -> str:
    """Return why a schedule cannot be parsed, or an empty string.

    https://github.com/robfig/cron/blob/v3.0.1/parser.go (`ParseStandard`)
    """
    if len(schedule) > _LONGEST:
        return "it is too long"
    if schedule.startswith("@"):
        every = schedule.removeprefix(_EVERY)
        is_valid = schedule in _WORDS or (every != schedule and parse_duration(every) is not None)
        return (
            "" if is_valid else f"{shorten(schedule)!r} is none of {', '.join(_WORDS)}, @every 1h"
        )
    fields = schedule.split()
    if len(fields) != len(_PARTS):
        return f"{len(fields)} fields: write minute, hour, day of month, month and day of week"
    for (name, low, high, numbers_by_word), field in zip(_PARTS, fields, strict=True):
        if not all(
            _readable(expression, low, high, numbers_by_word)
            for expression in filter(None, field.split(","))
        ):
            return f"{name} {shorten(field)!r}: write {low} to {high}, *, ranges or steps"
    return ""


def _readable(expression: str, low: int, high: int, words: Mapping[str, str]) -> bool:
    span, *steps = expression.split("/")
    if len(steps) > 1 or not all(_NUMBER.fullmatch(step) and int(step) for step in steps):
        return False
    first, *lasts = span.split("-")
    if first in ("*", "?"):
        return True
    ends = [words.get(end.lower(), end) for end in (first, *lasts)]
    if len(lasts) > 1 or not all(map(_NUMBER.fullmatch, ends)):
        return False
    return low <= int(ends[0]) <= int(ends[-1]) <= high
