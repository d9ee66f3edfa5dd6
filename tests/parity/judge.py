"""The API server's own checks of Pods and Jobs as a process: an object in, its problems out."""

import json
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests import go
from tests.e2e.versions import PINS
from tests.parity.build import CACHE, HERE

KUBERNETES = ("1.34.4", "1.37.0")
"""The versions that judge: the oldest and the newest of the pairs that the stories run on."""


def build_judge(version: str) -> Path:
    """Return the program of a version of Kubernetes. Raises CannotBuildError."""
    folder = CACHE / f"kubernetes-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    pins = PINS / "kubernetes" / version
    for source in (HERE / "judge" / "main.go", pins / "go.mod", pins / "go.sum"):
        shutil.copyfile(source, folder / source.name)
    go.run(folder, "build", "-trimpath", "-buildvcs=false", "-o", "judge", ".")
    return folder / "judge"


class Judge:
    """Runs the program on entry, ends it on exit."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [str(self._program)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.communicate(timeout=30)

    def ask(self, value: Any) -> list[str]:  # noqa: ANN401 - JSON
        """Return why the API server would not create an object; nothing when it would."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(value) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the program has ended"
        found: list[str] = json.loads(line)
        return found
