"""The API server's own checks of Pods and Jobs as a process: an object in, its problems out."""

import shutil
from pathlib import Path
from typing import Any

from tests import go
from tests.e2e.versions import PINS
from tests.parity.build import CACHE, HERE
from tests.parity.process import Program

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


class Judge(Program):
    """Kubernetes' code of one version."""

    def __init__(self, program: Path) -> None:
        super().__init__([program])

    def ask(self, value: Any) -> list[str]:  # noqa: ANN401 - JSON
        """Return why the API server would not create an object; nothing when it would."""
        return self.answer(value, list[str])
