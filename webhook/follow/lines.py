"""Lines of a stream: cut out of chunks that end anywhere."""


class Lines:
    """Collects chunks and gives complete lines, of any length, without their newline."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    @property
    def rest(self) -> int:
        """The number of bytes after the last newline."""
        return sum(map(len, self._rest))

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes."""
        first, *others = chunk.split(b"\n")
        self._rest.append(first)
        if not others:
            return []
        lines = [b"".join(self._rest), *others]
        self._rest = [lines.pop()]
        return [line for line in lines if line]
