"""The life of a process that runs until a signal, as its log tells it."""

import gc
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from webhook.cli.memory import give_back
from webhook.runtime import Runnable, supervise
from webhook.telemetry.log import Log

_YOUNG_OBJECTS: Final = 2_000
"""After how many new objects Python looks for cycles; 700 unless told otherwise. Reviews make none
that last, so 3 % of their CPU went into looking; with 10,000 the objects leave the CPU's caches.
"""


class Process(Protocol):
    """What a composition root returns."""

    @property
    def runnables(self) -> Mapping[str, Runnable]:
        """Everything that runs, by name."""

    @property
    def drain(self) -> Callable[[], Awaitable[None]]:
        """What a stop does first."""

    @property
    def log(self) -> Log:
        """The log."""


async def live(process: Process, started: str, flush: Callable[[], None] = lambda: None) -> int:
    """Run until a signal and return 0, or 1 when a part failed; `flush` is called after the last
    part has ended.
    """
    give_back()
    # what is there now stays, so no collection need look at it again: that takes tens of
    # milliseconds
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS)
    gc.enable()
    process.log.event("info", "started", started)
    try:
        try:
            await supervise(process.runnables, process.drain)
        finally:
            flush()
    except ExceptionGroup as group:
        for error in group.exceptions:
            process.log.event("error", "ended", f"{type(error).__name__}: {error}")
        return 1
    process.log.event("info", "stopped", "stopped by a signal")
    return 0
