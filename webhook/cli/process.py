"""The life of a process that runs until a signal, as its log tells it."""

import ctypes
import gc
import sys
from contextlib import suppress
from typing import Final

from webhook.app.runtime import Process, supervise
from webhook.logging.log import DescriptorOutput, Log, as_json
from webhook.logging.text_format import Format, form_of

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGE: Final = 512 * 1024
"""Bytes, above the 256 KiB that uvloop takes for each read of a TLS connection: taking those from
the system, and giving them back, cost a review a tenth of its time.
"""

_SPARE: Final = 1024 * 1024


def give_back() -> None:
    """Have each large piece of memory taken from the system and given back by itself, and the end
    of the heap too.

    Without this, glibc raises both thresholds to the size of the first large piece that is freed.
    Other C libraries than glibc have no such thresholds.
    """
    with suppress(AttributeError, OSError):
        glibc = ctypes.CDLL(None)
        glibc.mallopt(_M_MMAP_THRESHOLD, _LARGE)
        glibc.mallopt(_M_TRIM_THRESHOLD, _SPARE)


_YOUNG_OBJECTS: Final = 2_000
"""After how many new objects Python looks for cycles; 700 unless told otherwise. Reviews make none
that last, so 3 % of their CPU went into looking; with 10,000 the objects leave the CPU's caches.
"""


def announce(text: str, process: str, wanted: Format) -> None:
    """Write to standard error where the process listens, before it runs: a line for people on a
    terminal, else in the form of the log, as a container has one log of both streams.
    """
    log, errors = DescriptorOutput(sys.stdout.fileno()), DescriptorOutput(sys.stderr.fileno())
    if errors.terminal or form_of(wanted, log) is not as_json:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    else:
        Log(errors, process).event("info", "listening", text)


async def live(process: Process, started: str) -> int:
    """Run until a signal and return 0, or 1 when a part failed."""
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
            process.flush()
    except ExceptionGroup as group:
        for error in group.exceptions:
            process.log.event("error", "ended", f"{type(error).__name__}: {error}")
        return 1
    process.log.event("info", "stopped", "stopped by a signal")
    return 0
