"""Where the journal's lines go: a file descriptor."""

import os


class DescriptorSink:
    """Writes to a file descriptor, at once."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write(self, lines: bytes, /) -> None:
        """Write one line or more, all of it."""
        rest = memoryview(lines)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
