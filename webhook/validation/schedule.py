"""Parser of cron schedules, as strict as KubeRay's."""

import re
from typing import Final, NamedTuple

from webhook.validation.duration import parse_duration

_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_WORDS: Final = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_EVERY: Final = "@every "
_NUMBER: Final = re.compile(r"\+?[0-9]{1,9}", re.ASCII)
_LONGEST: Final = 512


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
