"""A program that answers each line of JSON with another one."""

import json
import subprocess
from typing import Any, Self, TypeVar

from msgspec import json as msgjson

Json = dict[str, Any]
T = TypeVar("T")


class Program:
    """Runs on entry and ends on exit, with options of Popen."""

    def __init__(self, *command: object, **options: Any) -> None:  # noqa: ANN401 - as Popen
        self._command, self._options = [str(word) for word in command], options

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **self._options
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)

    def answer(self, value: Any, kind: type[T]) -> T:  # noqa: ANN401 - JSON
        assert self._process.stdin
        self._process.stdin.write(json.dumps(value).encode() + b"\n")
        self._process.stdin.flush()
        return self.read(kind)

    def read(self, kind: type[T]) -> T:
        """Return a line that the program writes of itself, or after one that it was sent."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the program has ended"
        return msgjson.decode(line, type=kind)
