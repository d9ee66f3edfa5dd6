"""Memory that was used once goes back to the system: otherwise glibc keeps what an attack, or a
large body, made it take.
"""

import ctypes
from contextlib import suppress
from typing import Final

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
