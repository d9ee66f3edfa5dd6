"""`.ci/run` succeeds only if each part ran, or is allowed to be missing."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import ROOT

PARTS = (
    "tests.browser.install", "pip", "tests.lab.rendezvous.hosts",
    "tests.lab.parity --mutants 20000 1.6.2", "tests.lab.parity --mutants 5000 1.4.2",
    "tests.lab.parity.templates", "tests.lab.parity.unit_cases", "tests.e2e.build",
)  # fmt: skip
"""The commands, each after `python -m`, that say whether this machine can run a part."""
ALLOWED = "tests.lab.parity --mutants 5000 1.7.0"
CAN_FAIL = [ALLOWED, *(part for part in PARTS if part != "pip")]
"""pip has one exit code for everything, so what it cannot have counts as missing."""

FAKE = """#!/usr/bin/env bash
given=$*
if [[ $given == "e2e "* && -n ${FAILED-} ]]; then
  [[ $given == *" STORIES=--last-failed" ]] && exit "$AGAIN"
  mkdir -p .pytest_cache/v/cache && printf "$FAILED" > .pytest_cache/v/cache/lastfailed
  exit 2
fi
[[ -n $FAILING && ${given#-m } == "$FAILING"* ]] && exit "$CODE"
exit 0
"""


def ci(folder: Path, failing: str = "", code: int = 0, **variables: str) -> tuple[int, str]:
    """Run a copy of the script where Python and make only exit: with `code` for what `failing`
    begins, else with 0. Return the exit code and the last lines of output.
    """
    (folder / ".ci").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", folder / ".ci" / "run")
    for program in (folder / ".venv" / "bin" / "python", folder / "bin" / "make"):
        program.parent.mkdir(parents=True)
        program.write_text(FAKE)
        program.chmod(0o755)
    (folder / ".cache").mkdir()
    environment = {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "FAILING": failing,
        "CODE": str(code),
        **variables,
    }
    script = ["bash", ".ci/run"]
    done = subprocess.run(
        script, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


def test_a_run_in_which_everything_ran_says_so(tmp_path: Path) -> None:
    assert ci(tmp_path, CI="true") == (0, "0 parts did not run\n")


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_this_machine_cannot_run_fails_in_ci_and_is_counted_elsewhere(
    part: str, tmp_path: Path
) -> None:
    code, output = ci(tmp_path / "ci", part, 2, CI="true")
    assert code == 1
    assert "cannot run on this machine" in output
    code, output = ci(tmp_path / "elsewhere", part, 2)
    assert code == 0
    assert re.search(r"^[1-3] parts did not run:\n- ", output, re.MULTILINE)


def test_a_part_of_the_list_may_be_missing_in_ci(tmp_path: Path) -> None:
    code, output = ci(tmp_path, ALLOWED, 2, CI="true")
    assert code == 0
    assert output.endswith("1 parts did not run:\n- parity with KubeRay 1.7.0\n")


@pytest.mark.parametrize("part", [*CAN_FAIL, "check", "test", "e2e", "browser", "rendezvous"])
@pytest.mark.parametrize("variables", [{}, {"CI": "true"}], ids=["by hand", "in CI"])
def test_a_part_that_fails_ends_the_run(
    part: str, variables: dict[str, str], tmp_path: Path
) -> None:
    assert ci(tmp_path, part, 1, **variables)[0] == 1


@pytest.mark.parametrize(("stories", "again", "code"), [(1, 0, 0), (1, 2, 1), (2, 0, 1)])
def test_a_single_story_that_fails_may_pass_alone_and_is_named(
    stories: int, again: int, code: int, tmp_path: Path
) -> None:
    failed = "{\n" + "".join(
        f'  "tests/e2e/test_a.py::test_{each}": true,\n' for each in range(stories)
    )
    given, output = ci(tmp_path, CI="true", FAILED=failed + "}", AGAIN=str(again))
    assert given == code
    closing = "3 stories failed beside others and passed alone:\n- tests/e2e/test_a.py::test_0\n"
    assert (closing in output) == (code == 0)
