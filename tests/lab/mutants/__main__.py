"""Run the tests on mutants of the program: `python -m tests.lab.mutants COUNT [SEED]`.

The program prints the surviving mutants: answer each by a test of behaviour, or delete its line.
It exits with 1 if these are more than 30 %; of new samples of 150, 18 to 29 % survived. A mutant
gets the tests that execute its line. One run of all tests under coverage finds them, and its data
are used again until `.cache/mutants` is removed.
"""

import difflib
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from tests import ROOT
from tests.lab.mutants.executions import DATA, Executions, measure

SAMPLER: Final = ROOT / ".cache" / "mutants" / "bin" / "python"
SHARE: Final = 0.7
"""What has to be killed of a new sample, before its survivors are answered."""
SECONDS: Final = 1800
"""A mutant whose tests take longer counts as a survivor: what they would find is unknown."""
TEST_SECONDS: Final = 120
"""A test that takes longer never ends, and kills the mutant."""
FIRST: Final = 30
"""Tests that run before the others: to collect these few takes less time, and they kill most."""
MEMORY: Final = 4 << 30
PASSED: Final = 0
NO_SUCH_TEST: Final = 4
"""Exit codes of pytest."""


class Mutant(NamedTuple):
    """A changed file of the program."""

    path: str
    line: int
    operator: str
    code: str

    def difference(self, before: str) -> str:
        """Return what is changed, without the lines around it."""
        changed = difflib.unified_diff(
            before.splitlines(), self.code.splitlines(), lineterm="", n=0
        )
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


def is_killed(folder: Path, mutant: Mutant, before: str, executions: Executions) -> bool:
    tests = executions.tests(mutant.path, before, mutant.line)
    target = folder / mutant.path
    target.write_text(mutant.code)
    try:
        status = run(folder, tests[:FIRST])
        if status == PASSED:
            status = run(folder, tests[FIRST:])
        if status == NO_SUCH_TEST:  # the mutant changes the parameters of a test
            status = run(folder, list(dict.fromkeys(test.partition("[")[0] for test in tests)))
        return status != PASSED
    finally:
        target.write_text(before)


def run(folder: Path, tests: list[str]) -> int:
    if not tests:
        return PASSED
    command = [sys.executable, "-m", "pytest", "-qx", "-p", "no:cacheprovider", "-n", "0"]
    command += ["--assert=plain"]  # nobody reads the errors, and rewriting takes seconds
    command += ["-o", f"faulthandler_timeout={TEST_SECONDS}"]
    command += ["-o", "faulthandler_exit_on_timeout=true"]
    with tempfile.NamedTemporaryFile("w") as listed:
        listed.write("\n".join(tests))
        listed.flush()
        try:
            done = subprocess.run(
                [*command, f"@{listed.name}"], cwd=folder, capture_output=True, check=False,
                timeout=SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return PASSED
    return done.returncode


def main(count: int = 150, seed: int = 0) -> int:
    """Try a sample, a new one each day unless a seed is given."""
    seed = seed or int(time.strftime("%Y%m%d"))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    survivors = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        copied(folder)
        if not DATA.exists():
            measure(folder)
        executions = Executions()
        if run(folder, executions.tests("webhook/admission/reviewer.py", "", 1)) != PASSED:
            print("the tests fail without any mutant")
            return 2
        for number, mutant in enumerate(sample(count, seed), 1):
            sys.stderr.write(f"\r{number} of {count}")
            before = (folder / mutant.path).read_text()
            if not is_killed(folder, mutant, before, executions):
                survivors += 1
                print(f"{mutant.path}:{mutant.line}: {mutant.operator} survives", flush=True)
                print(mutant.difference(before), flush=True)
    print(f"{count - survivors} of {count} mutants are killed (seed {seed})")
    return 0 if count - survivors >= SHARE * count else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
