"""Comparison of facts, and parsing of Go sources and schemas. Needs no downloads."""

import re
from pathlib import Path

import pytest

from tests.lab.facts import kuberay
from tests.lab.facts.fact import Fact, value

PLACE = "webhook.api.names:LABEL_CLUSTER"


def test_a_fact_that_differs_is_shown_with_the_place_of_ours() -> None:
    fact = Fact(PLACE, "RayClusterLabelKey", value(PLACE), "ray.io/other")
    assert fact.differs
    assert str(fact) == f"{PLACE}: RayClusterLabelKey: here 'ray.io/cluster', there 'ray.io/other'"
    assert not Fact(PLACE, "RayClusterLabelKey", value(PLACE), "ray.io/cluster").differs


def test_of_sets_only_what_one_of_the_two_lacks_is_shown() -> None:
    fact = Fact(PLACE, "options", {"a", "b"}, {"b", "c"})
    assert str(fact) == f"{PLACE}: options: here ['a'], there ['c']"


def test_constants_of_go_are_read() -> None:
    source = """
const (
	KEY   = "ray.io/key" // a comment
	TYPED Kind = "head"
	LONG  = 53
	LESS  = LONG - 6
	other = call("no")
)
"""
    assert kuberay.constants(source) == {
        "KEY": "ray.io/key", "TYPED": "head", "LONG": 53, "LESS": 47,
    }  # fmt: skip


PLACES = sorted(
    {
        place
        for path in Path(__file__).parent.glob("*.py")
        for place in re.findall(r'"(webhook(?:\.\w+)+:\w+)"', path.read_text(encoding="utf-8"))
    }
)


@pytest.mark.parametrize("place", PLACES)
def test_each_place_that_is_compared_is_there(place: str) -> None:
    assert value(place) is not None
