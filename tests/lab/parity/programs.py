"""The programs that answer with KubeRay's and Kubernetes' own code: a line in, a line out."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Struct

from tests.lab.parity.build import Built

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

    def __exit__(self, *error: object) -> None:
        self._process.communicate(timeout=60)

    def answer(self, value: Any, kind: type[T]) -> T:  # noqa: ANN401 - JSON
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(value).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the program has ended"
        return msgspec.json.decode(line, type=kind)


class Child(Struct):
    """A Pod, or a Job of a pod, that KubeRay makes of a part of an object."""

    part: str
    object: Any


class Verdict(Struct):
    """What the API server and KubeRay say of an object; with nothing said, it is taken."""

    schema: list[str] = []
    decode: str = ""
    operator: str = ""
    panic: str = ""
    unknown: str = ""
    children: list[Child] = []

    @property
    def stored(self) -> bool:
        return not self.schema and not self.unknown

    @property
    def refusal(self) -> str:
        """Return why KubeRay does not work on the object, or nothing."""
        if self.panic:
            return f"panic: {self.panic}"
        return f"decode: {self.decode}" if self.decode else self.operator


class Oracle(Program):
    """KubeRay's code of one version."""

    def __init__(self, built: Built) -> None:
        super().__init__([built.program, built.crds])

    def ask(self, value: Any, *, make: bool = False) -> Verdict:  # noqa: ANN401 - JSON
        """Return the verdict on one object; with `make`, also what KubeRay makes of it."""
        return self.answer({"object": value, "make": make}, Verdict)


class ApiServer(Program):
    """Kubernetes' checks of Pods and Jobs, of one version."""

    def __init__(self, program: Path) -> None:
        super().__init__([program])

    def ask(self, value: Any) -> list[str]:  # noqa: ANN401 - JSON
        """Return why the API server would not create an object; nothing when it would."""
        return self.answer(value, list[str])
