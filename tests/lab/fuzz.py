"""Run the property tests repeatedly with new seeds, for a given time.

`python -m tests.lab.fuzz 300` runs tests with the pytest mark `hypothesis`, and ends with the test
that is running after 300 s. Further arguments are passed to pytest, for example a directory.
"""

import argparse
import random
import sys
from itertools import pairwise
from time import monotonic

import pytest

ADVICE = "Add each failing case to its test as an @example, and fix the cause: see CONTRIBUTING.md."


class Rounds:
    """A plugin that runs all tests in a new order each round, without those that failed."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = 0.0
        self._failed: set[str] = set()
        self._runs: dict[str, int] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Replace pytest's own loop, except when it has to say what could not be collected."""
        if session.testsfailed:
            return None
        self._end = monotonic() + self._seconds
        self._runs = {item.nodeid: 0 for item in session.items}
        while self._runs.keys() - self._failed and self._in_time():
            self._round([item for item in session.items if item.nodeid not in self._failed])
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._runs[report.nodeid] += report.when == "call"
        if report.failed:
            self._failed.add(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        runs = self._runs.values()
        fewest, most = min(runs, default=0), max(runs, default=0)
        terminalreporter.write_line(
            f"{len(runs)} property tests ran {fewest} to {most} times; {len(self._failed)} failed"
        )
        if self._failed:
            terminalreporter.write_line(ADVICE)

    def _round(self, items: list[pytest.Item]) -> None:
        random.shuffle(items)
        for item, following in pairwise([*items, None]):
            if item is not None and self._in_time():
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)

    def _in_time(self) -> bool:
        return monotonic() < self._end


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.fuzz", description="Explore with fresh seeds."
    )
    parser.add_argument("seconds", type=float)
    arguments, rest = parser.parse_known_args()
    options = [
        "-m", "hypothesis", "--hypothesis-profile=fuzz", "-q", "-o", "console_output_style=classic",
        *rest,
    ]  # fmt: skip
    return pytest.main(options, plugins=[Rounds(arguments.seconds)])


if __name__ == "__main__":
    sys.exit(main())
