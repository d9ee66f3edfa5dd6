"""Where the journal's lines go: a file descriptor, written to once for many lines."""

import asyncio
import os
from typing import Final

FLUSH_SECONDS: Final = 0.01
"""How long a line may wait for others: writing each by itself costs as much as a third of a review."""

_FULL_BYTES: Final = 1 << 16


class BufferedSink:
    """Collects lines while an event loop runs, and writes them a moment later; without a loop, at once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: list[bytes] = []
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None

    def write(self, line: bytes, /) -> None:
        """Take one line."""
        self._lines.append(line)
        self._size += len(line)
        if self._size >= _FULL_BYTES:
            self.flush()
        elif self._timer is None:
            try:
                self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)
            except RuntimeError:
                self.flush()

    def flush(self) -> None:
        """Write all that was taken. Call it before the process ends."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        rest = memoryview(b"".join(self._lines))
        self._lines.clear()
        self._size = 0
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
