"""KubeRay's code as a process: a Ray object in, a verdict out."""

import json
import subprocess
from types import TracebackType
from typing import Any, Self

from msgspec import Struct
from msgspec import json as msgjson

from tests.parity.build import Built


class Child(Struct):
    """A Pod, or a Job of a pod, that KubeRay makes of a part of an object."""

    part: str
    object: Any


class Verdict(Struct):
    """What the API server and KubeRay say of an object; with nothing said, it is taken."""

    schema: list[str] = []
    pruned: list[str] = []
    decode: str = ""
    operator: str = ""
    panic: str = ""
    unknown: str = ""
    children: list[Child] = []

    @property
    def stored(self) -> bool:
        """Tell whether the API server stores the object."""
        return not self.schema and not self.unknown

    @property
    def refusal(self) -> str:
        """Return why KubeRay does not work on the object, or nothing."""
        if self.panic:
            return f"panic: {self.panic}"
        return f"decode: {self.decode}" if self.decode else self.operator


class Oracle:
    """Runs the program on entry, ends it on exit."""

    def __init__(self, built: Built) -> None:
        self._command = [str(built.program), str(built.crds)]

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate(timeout=30)

    def ask(
        self,
        value: Any,  # noqa: ANN401 - JSON
        gates: dict[str, bool],
        *,
        make: bool = False,
    ) -> Verdict:
        """Return the verdict on one object; with `make`, also what KubeRay makes of it."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(
            json.dumps({"object": value, "gates": gates, "make": make}) + "\n"
        )
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the program has ended"
        return msgjson.decode(line, type=Verdict)
