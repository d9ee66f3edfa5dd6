"""Running a process until a signal, with log messages of its start and end."""

import ctypes
import gc
import sys
from contextlib import suppress
from typing import Final

from webhook.app.runtime import Process, supervise
from webhook.logging.log import DescriptorOutput, Format, Log, as_json, form_of

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_LARGE: Final = 512 * 1024
"""A size in bytes above the 256 KiB that uvloop allocates for each read of a TLS connection:
allocating these from the system, and returning them, took a tenth of the time of a review."""

_SPARE: Final = 1024 * 1024


def give_back() -> None:
    """Return large allocations and the end of the heap to the system when they are freed.

    Without this, glibc raises both thresholds to the size of the first large allocation that is
    freed. C libraries other than glibc have no such thresholds.
    """
    with suppress(AttributeError, OSError):
        glibc = ctypes.CDLL(None)
        glibc.mallopt(_M_MMAP_THRESHOLD, _LARGE)
        glibc.mallopt(_M_TRIM_THRESHOLD, _SPARE)


_YOUNG_OBJECTS: Final = 2_000
"""The threshold of the youngest generation of the garbage collector, 700 by default. Reviews create
no lasting cycles, and collections took 3 % of their CPU time; with 10,000, the objects no longer
fit into the CPU's caches."""
_YOUNG_COLLECTIONS: Final = 10
_MIDDLE_COLLECTIONS: Final = 100
"""The threshold of the oldest generation, 10 by default. 100,000 pods come into being in fewer
collections of the middle one: full collections while they are listed held the event loop for half
a second."""


def announce(text: str, process: str, wanted: Format) -> None:
    """Write to standard error where the process listens, before it runs: text on a terminal, else a
    line in the format of the log, since a container has one log of both streams.
    """
    log, errors = DescriptorOutput(sys.stdout.fileno()), DescriptorOutput(sys.stderr.fileno())
    if errors.terminal or form_of(wanted, log) is not as_json:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    else:
        Log(errors, process).event("info", "listening", text)


def settle() -> None:
    """Prepare the memory of a process that is started: objects that exist now are kept, and full
    collections, which would traverse all objects of a large cluster at once, are rare.
    """
    give_back()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS, _YOUNG_COLLECTIONS, _MIDDLE_COLLECTIONS)
    gc.enable()


async def live(process: Process, started: str) -> int:
    """Run until a signal and return 0, or 1 if a part failed."""
    settle()
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
