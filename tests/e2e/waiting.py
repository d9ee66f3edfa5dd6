"""Polling for a condition instead of a fixed delay, and beside a story."""

from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from time import monotonic, sleep
from typing import Final, TypeVar

from tests.e2e.api import ApiError
from tests.e2e.process import NO_ANSWER, Startable

T = TypeVar("T")


SECONDS: Final = 400
"""How long to wait unless a story says otherwise: several times what a busy machine takes."""


def until(found: Callable[[], T], what: str, seconds: float = SECONDS) -> T:
    """What `found` returns, as soon as it counts as true. Fails with `what` was waited for."""
    deadline = monotonic() + seconds
    while not (value := found()):
        assert monotonic() < deadline, f"not within {seconds:g} s: {what}"
        sleep(0.05)
    return value


def until_equal(found: Callable[[], object], wanted: object, what: str) -> None:
    """Return as soon as `found` returns what is wanted. Fails with what it returned instead."""
    deadline = monotonic() + SECONDS
    while (value := found()) != wanted:
        assert monotonic() < deadline, f"{what}: wanted {wanted}, found {value} for {SECONDS} s"
        sleep(0.05)


class Repeated(Startable):
    """Calls a function in a thread again and again, past errors of the API server."""

    def __init__(self, look: Callable[[], object], seconds: float = 0.2) -> None:
        self._call = look
        self._seconds = seconds
        self._ended = Event()
        self._thread = Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            with suppress(ApiError, *NO_ANSWER):
                self._call()
