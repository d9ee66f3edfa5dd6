"""Phrases of messages and remedies: lists of hosts and names, durations, kubectl commands."""

from collections.abc import Iterable, Sequence
from typing import Final

_SHOWN: Final = 4
"""Maximum number of names in a message."""
_NUMBERS_MAX: Final = 300
"""Maximum length of a list of other replicas in a message; a longer list becomes a count."""


def hosts(numbers: Iterable[int]) -> str:
    """Return `host 3`, or `hosts 0-3, 6`."""
    which = format_ranges(numbers)
    return f"host {which}" if which.isdecimal() else f"hosts {which}"


def format_ranges(numbers: Iterable[int]) -> str:
    """Return `3`, or `0-3, 6`."""
    return ", ".join(
        f"{first}" if first == last else f"{first}-{last}"
        for first, last in _ranges(sorted(set(numbers)))
    )


def format_names(names: Sequence[str]) -> str:
    """Return names as a list, cut to the length of a message."""
    rest = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def format_count(number: int, noun: str) -> str:
    """Return `1 pod` or `3 pods`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def pluralize(number: int, one: str, several: str) -> str:
    """Return the word that agrees with a number."""
    return one if number == 1 else several


def others(more: Sequence[int | None]) -> str:
    """Return the number of other replicas with a problem, and their indices if short."""
    if not more:
        return ""
    which = format_ranges(index for index in more if index is not None)
    named = f": {which}" if 0 < len(which) <= _NUMBERS_MAX else ""
    return f" (and {format_count(len(more), 'more replica')} like it{named})"


def describe(kind: str, namespace: str, name: str) -> str:
    """Return the command that describes an object."""
    return f"kubectl describe {kind} -n {namespace} {name}"


def show(kind: str, namespace: str, name: str) -> str:
    """Return the command that prints an object as YAML."""
    return f"kubectl get {kind} -n {namespace} {name} -o yaml"


def duration(seconds: float) -> str:
    """Return a duration in its largest unit: `45 s`, `12 min`, `3 h`, `5 d`."""
    whole = max(0, int(seconds))
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if whole >= size:
            return f"{whole // size} {unit}"
    return f"{whole} s"


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return ranges
