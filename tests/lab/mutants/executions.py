"""Which tests execute a line of the program, from one run of the tests under coverage."""

import ast
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Final

from coverage.numbits import register_sqlite_functions

from tests import ROOT

DATA: Final = ROOT / ".cache" / "mutants" / "coverage"
CACHE: Final = DATA.with_name("pytest")
"""Where pytest writes which tests fail without a mutant."""
COLLECTED: Final = DATA.with_name("collected")
"""The names of all tests, a line each."""
OTHERS: Final = 300
"""Tests of other packages that run at most, of those that do not execute the changed line."""

_TESTS: Final = """
    SELECT DISTINCT substr(context, 1, instr(context, '|') - 1)
    FROM line_bits JOIN context ON context.id = context_id JOIN file ON file.id = file_id
    WHERE context != '' AND path LIKE '%/' || ?
"""
_TESTS_OF_LINES: Final = f"{_TESTS} AND (num_in_numbits(?, numbits) OR num_in_numbits(?, numbits))"
_FILES_BY_TEST: Final = """
    SELECT substr(context, 1, instr(context, '|') - 1), count(DISTINCT file_id)
    FROM line_bits JOIN context ON context.id = context_id WHERE context != '' GROUP BY 1
"""


def measure(folder: Path) -> None:
    """Run the tests of `make test` in a folder, and write which lines each of them executes."""
    command = [sys.executable, "-m", "pytest", "-q", "-n", str(os.cpu_count()), "--dist=loadfile"]
    command += ["-o", f"cache_dir={CACHE}", "--cov=webhook", "--cov-context=test"]
    command += ["--cov-config=/dev/null", "--cov-report="]
    environment = {**os.environ, "COVERAGE_FILE": str(DATA)}
    subprocess.run(command, cwd=folder, check=False, env=environment, stdout=sys.stderr)
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    with COLLECTED.open("w") as names:
        subprocess.run(command, cwd=folder, check=True, stdout=names)


class Executions:
    """The tests by the lines that they execute, without those that fail without a mutant."""

    def __init__(self) -> None:
        failed_file = CACHE / "v" / "cache" / "lastfailed"
        failed = json.loads(failed_file.read_text()) if failed_file.exists() else {}
        self._database = sqlite3.connect(DATA)
        register_sqlite_functions(self._database)
        counts = dict(self._database.execute(_FILES_BY_TEST))
        self._files_by_test = {test: counts[test] for test in counts.keys() - failed}
        names = {line for line in COLLECTED.read_text().splitlines() if "::" in line}
        self._elsewhere = names - counts.keys() - failed.keys()
        """Tests that execute the program in other processes, or before they begin."""

    def tests(self, path: str, code: str, line: int) -> list[str]:
        """Return the tests for a changed line: those of its own package that execute it, or all of
        its package if only imports execute the line; then others that execute the line or the file,
        and those of its package of which nothing is known. Those that execute the fewest files are
        the first.
        """
        lines = (path, line, _statement(code, line))
        of_line, of_file = self._select(_TESTS_OF_LINES, *lines), self._select(_TESTS, path)

        def rank(test: str) -> tuple[bool, bool, int, str]:
            return test not in of_line, test not in of_file, self._files_by_test[test], test

        package = f"tests/webhook/{path.split('/')[1]}/"
        near = {test for test in of_line or self._files_by_test if test.startswith(package)}
        others = [*sorted(of_line - near, key=rank), *sorted(of_file - of_line, key=rank)[:OTHERS]]
        others += sorted(test for test in self._elsewhere if test.startswith(package))
        return sorted(near, key=rank) + [test for test in others if test not in near]

    def _select(self, query: str, *parameters: str | int) -> set[str]:
        rows = self._database.execute(query, parameters)
        return {test for (test,) in rows if test in self._files_by_test}


def _statement(code: str, line: int) -> int:
    statements = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.stmt))
    return max(
        (node.lineno for node in statements if node.lineno <= line <= (node.end_lineno or 0)),
        default=line,
    )
