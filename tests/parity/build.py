"""Builds the program that answers with KubeRay's own code, and finds the CRDs and samples of its module."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "parity"
MODULE = "github.com/ray-project/kuberay/ray-operator"
CRDS_VARIABLE = "PARITY_CRDS"
"""The folder with the CRDs of `UNPUBLISHED`, whose module nobody serves."""
UNPUBLISHED = "1.7.0"


class CannotBuildError(Exception):
    """The program cannot be built here; the message says why."""


class Built(NamedTuple):
    """A program with the CRDs that it goes by, and the folder with KubeRay's samples."""

    program: Path
    crds: Path
    samples: Path


def versions() -> list[str]:
    """Return the versions of KubeRay that can be built."""
    return sorted(path.parent.name for path in (HERE / "program").glob("*/go.mod"))


def build(version: str) -> Built:
    """Return the program for a version. Raises CannotBuildError."""
    folder = CACHE / version
    folder.mkdir(parents=True, exist_ok=True)
    for source in (HERE / "program" / "main.go", *(HERE / "program" / version).iterdir()):
        _copy(source, folder / source.name)
    _go(folder, "build", "-buildvcs=false", "-o", "parity", ".")
    module = Path(_go(folder, "list", "-m", "-f", "{{.Dir}}", MODULE).strip())
    config = module / "config"
    return Built(folder / "parity", config / "crd" / "bases", config / "samples")


def unpublished(built: Built) -> Built | None:
    """Return a program that goes by the CRDs of `UNPUBLISHED`, or None where they are not given."""
    folder = Path(os.environ.get(CRDS_VARIABLE, ""))
    given = folder.name and any(folder.glob("*.yaml"))
    return built._replace(crds=folder.resolve()) if given else None


def _copy(source: Path, target: Path) -> None:
    """Copy what has changed, so that Go builds nothing twice."""
    if not target.exists() or target.read_bytes() != source.read_bytes():
        target.write_bytes(source.read_bytes())


def _go(folder: Path, *arguments: str) -> str:
    go = shutil.which("go")
    if go is None:
        raise CannotBuildError("there is no `go` on the PATH; install Go 1.26 or newer")
    environment = {"GOTOOLCHAIN": "auto", **os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run([go, *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBuildError(f"`go {arguments[0]}` failed:\n{done.stderr[-2000:]}")
    return done.stdout
