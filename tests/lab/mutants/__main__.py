"""Run the tests on mutants of the program: `python -m tests.lab.mutants COUNT [SEED]`.

The program prints the surviving mutants, and exits with 1 if these are more than 5 %. The tests of
the mutant's own package run first, and those of dependent packages only if these pass.
"""

import difflib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from tests import ROOT

SAMPLER: Final = ROOT / ".cache" / "mutants" / "bin" / "python"
SHARE: Final = 0.95
"""What has to be killed."""
SECONDS: Final = 900
"""A mutant that takes longer is killed: it never ends."""
ABOVE: Final = (
    "tests/scenarios",
    "tests/webhook/admission",
    "tests/webhook/cache",
    "tests/webhook/check",
    "tests/webhook/cli",
    "tests/webhook/config",
    "tests/webhook/controller",
    "tests/webhook/diagnostics",
    "tests/webhook/diff",
    "tests/webhook/explain",
    "tests/webhook/app",
    "tests/webhook/kubeclient",
    "tests/webhook/reservation",
)


class Mutant(NamedTuple):
    """A changed file of the program."""

    path: str
    line: int
    operator: str
    code: str

    def difference(self) -> str:
        """Return what is changed, without the lines around it."""
        before, after = (ROOT / self.path).read_text().splitlines(), self.code.splitlines()
        changed = difflib.unified_diff(before, after, lineterm="", n=0)
        return "\n".join(line for line in changed if line[:3] not in {"---", "+++"})


def sample(count: int, seed: int) -> list[Mutant]:
    command = [str(SAMPLER), "-m", "tests.lab.mutants.sample", str(count), str(seed)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return [Mutant(**json.loads(line)) for line in done.stdout.splitlines()]


def copied(folder: Path) -> None:
    """Copy what is tracked into a folder, where mutants are written."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    (folder / ".cache").symlink_to(ROOT / ".cache")


def is_killed(folder: Path, mutant: Mutant) -> bool:
    target = folder / mutant.path
    before = target.read_text()
    target.write_text(mutant.code)
    try:
        package = mutant.path.split("/")[1].removesuffix(".py")
        own = f"tests/webhook/{package}"
        first = [own] if (ROOT / own).is_dir() else []
        others = [each for each in ABOVE if each not in first]
        return any(fails(folder, paths) for paths in (first, others) if paths)
    finally:
        target.write_text(before)


def fails(folder: Path, paths: list[str]) -> bool:
    workers = str(os.cpu_count())
    command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", "-n", workers]
    try:
        done = subprocess.run(
            [*command, *paths], cwd=folder, capture_output=True, check=False, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return True
    return done.returncode != 0


def main(count: int = 150, seed: int = 0) -> int:
    """Try a sample, a new one each day unless a seed is given."""
    seed = seed or int(time.strftime("%Y%m%d"))
    survivors = 0
    with tempfile.TemporaryDirectory() as folder:
        copied(Path(folder))
        if fails(Path(folder), ["tests/webhook/admission/test_validate_and_mutate.py"]):
            print("the tests fail without any mutant")
            return 2
        for number, mutant in enumerate(sample(count, seed), 1):
            sys.stderr.write(f"\r{number} of {count}")
            if not is_killed(Path(folder), mutant):
                survivors += 1
                print(f"{mutant.path}:{mutant.line}: {mutant.operator} survives", flush=True)
                print(mutant.difference(), flush=True)
    print(f"{count - survivors} of {count} mutants are killed (seed {seed})")
    return 0 if count - survivors >= SHARE * count else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
