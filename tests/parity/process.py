"""A program that answers each input line with one line."""

import json
import subprocess
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

T = TypeVar("T")


class Program:
    """Runs on entry and ends on exit."""

    def __init__(self, command: Sequence[object]) -> None:
        self._command = [str(word) for word in command]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate(timeout=30)

    def answer(self, value: Any, kind: type[T]) -> T:  # noqa: ANN401 - JSON
        """Return the answer to one value, both in JSON."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(value).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the program has ended"
        return msgspec.json.decode(line, type=kind)
