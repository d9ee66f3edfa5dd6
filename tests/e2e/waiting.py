"""Polling for a condition instead of a fixed delay."""

from collections.abc import Callable
from time import monotonic, sleep
from typing import Final, TypeVar

T = TypeVar("T")


SECONDS: Final = 180
"""How long to wait unless a story says otherwise: several times what a busy machine takes."""


def until(found: Callable[[], T], what: str, seconds: float = SECONDS) -> T:
    """What `found` returns, as soon as it counts as true. Fails with `what` was waited for."""
    deadline = monotonic() + seconds
    while not (value := found()):
        assert monotonic() < deadline, f"not within {seconds:g} s: {what}"
        sleep(0.05)
    return value


def until_equal(found: Callable[[], T], wanted: T, what: str, seconds: float = SECONDS) -> None:
    """Return as soon as `found` returns what is wanted. Fails with what it returned instead."""
    deadline = monotonic() + seconds
    while (value := found()) != wanted:
        assert monotonic() < deadline, (
            f"not within {seconds:g} s: {what}: wanted {wanted}, found {value}"
        )
        sleep(0.05)
