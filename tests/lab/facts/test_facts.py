"""Comparison of facts, and parsing of Go sources and schemas. Needs no downloads."""

import re
from pathlib import Path

import pytest

from tests.lab.facts import kuberay
from tests.lab.facts.fact import MISSING, Fact, covers, known, position, value

PLACE = "webhook.api.names:LABEL_CLUSTER"
GONE = "webhook.api.names:NO_SUCH_NAME"


def test_a_fact_is_shown_with_the_line_of_ours() -> None:
    fact = Fact(PLACE, "RayClusterLabelKey", value(PLACE), "ray.io/other")
    assert fact.differs
    assert str(fact).startswith("webhook/api/names.py:")
    assert str(fact).endswith(
        " LABEL_CLUSTER: RayClusterLabelKey: here 'ray.io/cluster', there 'ray.io/other'"
    )
    assert not Fact(PLACE, "RayClusterLabelKey", value(PLACE), "ray.io/cluster").differs
    assert Fact(PLACE, "RayClusterLabelKey", value(PLACE), MISSING).differs


def test_a_name_that_is_gone_is_an_error() -> None:
    with pytest.raises(LookupError):
        position(GONE)


def test_of_sets_only_what_is_too_much_or_too_little_is_shown() -> None:
    assert not covers(PLACE, "options", {"a", "b"}, {"a"}).differs
    assert covers(PLACE, "options", {"a"}, {"a", "b"}).ours == "without b"
    assert not known(PLACE, "texts", {"a"}, {"a", "b"}).differs
    assert known(PLACE, "texts", {"a", "b"}, {"a"}).ours == "b too"


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
        if place != GONE
    }
)


@pytest.mark.parametrize("place", PLACES)
def test_each_place_that_is_compared_is_there(place: str) -> None:
    assert value(place) is not None
    assert position(place)
