"""The work of every public entry is linear in every repeated part of its input.

The parts are all lists and maps of the schemas of the kinds, and of the types that are decoded, so
that a new field is among them. Lines are counted, not time.
"""

from itertools import groupby
from operator import attrgetter

import pytest

from tests.growth.entries import OBJECTS, cases
from tests.harness.work import excess, grown

_CASES = {
    entry: list(found)
    for entry, found in groupby(sorted(cases(), key=attrgetter("entry")), attrgetter("entry"))
}


@pytest.mark.parametrize("entry", _CASES)
def test_twice_the_input_is_at_most_twice_the_work(entry: str) -> None:
    ratios = {case.part: excess(case.build, case.limit) for case in _CASES[entry]}
    assert {part: ratio for part, ratio in ratios.items() if ratio} == {}


def test_every_kind_has_its_entries() -> None:
    entries = " ".join(_CASES)
    for kind in OBJECTS:
        assert f"validate {kind} CREATE" in entries
    parts = {case.part for case in _CASES["check a file of RayCluster"]}
    assert {
        "metadata.labels",
        "spec.workerGroupSpecs",
        "spec.workerGroupSpecs.[].template.spec.containers.[].env",
        "spec.workerGroupSpecs.[].template.spec.tolerations",
    } <= parts


def test_work_that_is_not_linear_is_reported() -> None:
    def pairs(number: int) -> None:
        for _ in range(number):
            for _ in range(number):
                pass

    def once(number: int) -> None:
        for _ in range(number):
            pass

    assert excess(lambda number: lambda: pairs(number), 1000) > 3
    assert excess(lambda number: lambda: once(number), 1000) == 0
    assert grown(lambda number: lambda: once(number), 10).ratio_at(1000) == pytest.approx(
        2, abs=0.1
    )
