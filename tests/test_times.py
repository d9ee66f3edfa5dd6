"""No test uses a fixed delay, or fails because the machine is busy.

Conditions are polled in a `while` loop, with enough time for a busy machine. Directories of
programs that measure or simulate time are exempt: `make test` does not run them.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).parent
MEASURING: Final = (
    *("browser", "demo", "e2e", "lab/autoscaler", "lab/bench", "lab/chaos.py", "lab/drain"),
    *("lab/hostile", "lab/rendezvous"),
)
FILES: Final = sorted(
    path
    for path in TESTS.rglob("*.py")
    if not path.relative_to(TESTS).as_posix().startswith(MEASURING)
)
CLOCKS: Final = {"monotonic", "perf_counter", "process_time", "time"}
DATES: Final = {"now", "time", "today", "utcnow"}
WAITS: Final = {"join", "result", "settimeout", "timeout", "wait", "wait_for"}
LEAST: Final = 60
"""Seconds that a wait which has to end is given; a sleep for longer stands for one without end."""


def called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    function = node.func
    return str(getattr(function, "attr", None) or getattr(function, "id", ""))


def brief(node: ast.AST) -> bool:
    """Return whether a node is a number of seconds that is more than none, and too few."""
    return (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
        and 0 < node.value < LEAST
    )


def is_span(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.BinOp)
        and isinstance(each.op, ast.Sub)
        and any(called(inner) in CLOCKS for inner in ast.walk(each))
        for each in ast.walk(node)
    )


def wrong(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the lines that wait for a fixed time, bound time, or read the clock at import."""
    nodes = list(ast.walk(tree))
    for node in getattr(tree, "body", ()):
        is_constant = isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        if is_constant and any(called(each) in DATES for each in ast.walk(node.value)):
            yield node.lineno, "reads the clock at import"
    polling = {id(each) for node in nodes if isinstance(node, ast.While) for each in ast.walk(node)}
    spans = {
        target.id
        for node in nodes
        if isinstance(node, ast.Assign) and is_span(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in nodes:
        if isinstance(node, ast.Call) and id(node) not in polling:
            seconds = [*node.args, *(each.value for each in node.keywords if each.arg == "timeout")]
            if called(node) == "sleep" and any(map(brief, seconds)):
                yield node.lineno, "sleeps for a fixed time"
            elif any(map(brief, seconds if called(node) in WAITS else seconds[len(node.args) :])):
                yield node.lineno, f"waits for less than {LEAST} s"
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Lt | ast.LtE):
            left = node.left
            known = isinstance(left, ast.Name) and left.id in spans
            if id(node) not in polling and (known or is_span(left)):
                yield node.lineno, "sets an upper bound of time"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(TESTS)))
def test_it_depends_on_no_time(path: Path) -> None:
    assert list(wrong(ast.parse(path.read_text()))) == []


@pytest.mark.parametrize("line", [
    "time.sleep(0.1)",
    "await asyncio.sleep(1)",
    "for _ in range(3):\n    sleep(0.5)",
    "process.wait(10)",
    "event.wait(timeout=5)",
    "subprocess.run(command, timeout=30)",
    "connection.settimeout(20)",
    "async with asyncio.timeout(5): pass",
    "assert monotonic() - started < 3",
    "took = time.monotonic() - started\nassert took <= 1",
    "assert asyncio.get_running_loop().time() - started < 1.0",
    "NOW = datetime.now(UTC)",
])  # fmt: skip
def test_each_of_these_is_found(line: str) -> None:
    assert list(wrong(ast.parse(line, mode="exec")))


@pytest.mark.parametrize("line", [
    "await asyncio.sleep(0)", "await asyncio.sleep(3600)",
    "while not ready():\n    sleep(0.01)", "process.wait(180)", "', '.join(names)",
    "assert monotonic() - started >= 3",
])  # fmt: skip
def test_none_of_these_is(line: str) -> None:
    assert not list(wrong(ast.parse(line, mode="exec")))
