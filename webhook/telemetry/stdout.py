"""Where the log's lines go: a file descriptor."""

import os


class DescriptorOutput:
    """Writes to a file descriptor, at once. Lines that it does not take are lost: reviews go on,
    and there is nowhere to say it.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def terminal(self) -> bool:
        """Tell whether somebody may be reading along."""
        return os.isatty(self._descriptor)

    def write(self, lines: bytes, /) -> None:
        """Write one line or more, all of it."""
        rest = memoryview(lines)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            return
