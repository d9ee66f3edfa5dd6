"""The work of a call: the executed lines, which are the same on every machine, or what a process of
its own measures, where no thread of another test allocates.
"""

import gc
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from time import process_time
from types import FrameType
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

Call = Callable[[], object]
Build = Callable[[int], Call]
"""Returns a call whose input has a part as many times."""

RATIO_MAX: Final = 2.3
_NUMBERS: Final = (8, 64, 512)
"""Parts that are measured: the more there are, the less a few lines of chance weigh."""


class Growth(NamedTuple):
    """The work for one number of parts, twice and four times as many."""

    number: int
    work: tuple[float, float, float]

    def ratio_at(self, number: int) -> float:
        """Return the ratio of the work for twice as many parts as `number`, by the polynomial of
        second degree through the three points.
        """
        one, two, four = self.work
        if not one <= two <= four:  # more of them are denied, or not read
            return 0
        square = (four - 3 * two + 2 * one) / (6 * self.number**2)
        slope = (two - one) / self.number - 3 * square * self.number
        base = one - slope * self.number - square * self.number**2

        def work(parts: int) -> float:
            return base + slope * parts + square * parts**2

        return work(2 * number) / max(work(number), 1.0)


def lines(call: Call) -> int:
    """Return the number of lines that a call executes."""
    count = 0

    def trace(_frame: FrameType, event: str, _argument: object) -> Any:  # noqa: ANN401 - itself
        nonlocal count
        if event == "line":
            count += 1
        return trace

    before = sys.gettrace()
    gc.disable()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
        gc.enable()
    return count


def seconds(call: Call, turns: int = 5) -> float:
    """Return the least CPU time of several turns, which includes what C functions do."""

    def turn() -> float:
        gc.collect()
        gc.disable()  # full collections come in steps
        begun = process_time()
        try:
            call()
            return process_time() - begun
        finally:
            gc.enable()

    return min(turn() for _ in range(turns))


def grown(build: Build, number: int, measure: Callable[[Call], float] = lines) -> Growth:
    calls = [build(number * factor) for factor in (1, 2, 4)]
    return Growth(number, tuple(measure(call) for call in calls))  # type: ignore[arg-type]


def excess(build: Build, limit: int) -> float:
    """Return the ratio of the work for twice as many parts, at the limit of the API server, if it
    exceeds the maximum; otherwise 0. Few parts show whether the work is linear, and where they
    leave a doubt, more do.
    """
    build(1)()  # what is loaded or compiled once does not count
    ratio = 0.0
    for number in _NUMBERS:
        ratio = grown(build, min(number, limit)).ratio_at(limit)
        if ratio <= RATIO_MAX:
            return 0
    return ratio


P = ParamSpec("P")
T = TypeVar("T")


def run_in_own_process(measured: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(measured, *arguments, **options).result()
