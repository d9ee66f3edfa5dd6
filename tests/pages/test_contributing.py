"""The targets of the Makefile, the table of CONTRIBUTING.md, the runs of CI and the profiles of
Hypothesis are consistent.
"""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from hypothesis import settings

from tests import ROOT
from tests.conftest import FOUND

MAKEFILE, LAB_MAKEFILE = ((ROOT / name).read_text() for name in ("Makefile", "tests/lab/lab.mk"))
PUBLIC = dict(re.findall(r"^([a-z0-9-]+):.*?  ## (.+)$", MAKEFILE, re.MULTILINE))
LAB = dict(re.findall(r"^([a-z0-9-]+):.*?  #: (.+)$", LAB_MAKEFILE, re.MULTILINE))
TARGETS = PUBLIC | LAB
CELLS = [
    line.strip("| ").split(" | ")
    for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines()
    if line.startswith("| `")
]
TABLE = {cells[0].strip("`"): cells for cells in CELLS}
OF_THE_PROFILE = re.compile(
    r"\b(derandomize|deadline|database|print_blob)=|@seed\(|load_profile\(|uuid4\(|random\.Random\(\)"
)
"""What makes a run differ from the one before, or depend on how busy the machine is."""
MAY_DIFFER = ("tests/conftest.py", "tests/e2e/", "tests/lab/chaos.py")


def test_the_table_has_the_most_used_targets() -> None:
    assert len(TABLE) == 12
    assert set(TABLE) <= set(TARGETS)
    assert {len(cells) for cells in CELLS} == {3}


def test_every_target_but_those_that_make_files_is_phony_and_says_what_it_does() -> None:
    for text, targets in ((MAKEFILE, PUBLIC), (LAB_MAKEFILE, LAB)):
        (phony,) = re.findall(r"^\.PHONY: (.+)$", text, re.MULTILINE)
        assert sorted(phony.split()) == sorted(targets)
    assert len(PUBLIC) <= 16


@pytest.mark.parametrize(("target", "targets"), [("help", PUBLIC), ("lab", LAB)])
def test_make_help_and_make_lab_list_every_target(target: str, targets: dict[str, str]) -> None:
    shown = subprocess.run(
        ["make", target], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    lines = [line.split(maxsplit=1) for line in shown.splitlines() if line.startswith("  ")]
    assert lines == [list(each) for each in targets.items()]


def test_ci_calls_targets_of_the_makefile() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    called = re.findall(r"^(?:.*; then)?\s*make ([a-z0-9-]+)", script, re.MULTILINE)
    assert {"check", "test", "test-manifests", "e2e", "docs"} <= set(called) <= set(TARGETS)


def test_the_workflows_call_targets_of_the_makefile() -> None:
    found = set()
    for path in (ROOT / ".github" / "workflows").glob("*.yaml"):
        text = path.read_text()
        found |= set(re.findall(r"\bmake ([a-z0-9-]+)", text))
        found |= set(re.findall(r"^          - ([a-z0-9-]+)$", text, re.MULTILINE))
    assert {"check", "test", "e2e", "release", "hostile"} <= found
    assert found <= set(TARGETS)


PURE = [
    module
    for contract in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    if "no I/O" in contract["name"] and "Packages" in contract["name"]
    for module in contract["source_modules"]
]
"""The packages, and a few modules of others, that do no I/O."""


def test_every_package_without_io_is_tested_by_test_fast() -> None:
    (block,) = re.findall(r"^FAST := ((?:.*\\\n)+.*)$", MAKEFILE, re.MULTILINE)
    fast = block.replace("\\", "").split()
    packages = {module.split(".")[1] for module in PURE}
    assert packages
    assert {f"webhook/{name}" for name in packages} <= set(fast)
    assert [folder for folder in fast if not (ROOT / "tests" / folder).is_dir()] == []


def test_the_tests_of_a_package_are_in_the_package_of_its_name() -> None:
    packages, folders, tested = (
        {path.parent.name for path in (ROOT / folder).glob("*/__init__.py")}
        for folder in ("webhook", "tests", "tests/webhook")
    )
    assert tested == packages
    assert packages & folders == set()


def test_the_branches_of_these_packages_are_counted() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]
    packages = [module.replace(".", "/") for module in PURE if module.count(".") == 1]
    assert project["coverage"]["run"]["source"] == packages


def test_no_test_chooses_its_own_seed_or_deadline() -> None:
    texts = {
        str(path.relative_to(ROOT)): path.read_text()
        for path in (ROOT / "tests").rglob("*.py")
        if path != Path(__file__)
    }
    choosing = [name for name, text in texts.items() if OF_THE_PROFILE.search(text)]
    assert [name for name in choosing if not name.startswith(MAY_DIFFER)] == []


def test_property_tests_draw_the_same_in_each_run_but_for_those_of_make_fuzz() -> None:
    fixed, fuzz = settings.default, settings.get_profile("fuzz")
    assert fixed
    assert (fixed.derandomize, fixed.deadline) == (True, None)
    assert (fuzz.derandomize, fuzz.print_blob, fuzz.database) == (False, True, FOUND)
    assert "-m hypothesis --hypothesis-profile=fuzz" in LAB_MAKEFILE
