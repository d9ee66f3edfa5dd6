"""No two live pods have one identity, whatever happens between several processes and the API
server; and each rule is needed.
"""

import logging
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reservation.mutants import CAUGHT_BY, MUTANTS, mutated
from tests.reservation.stories import story


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Leave out the log of what goes wrong by intention."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@settings(max_examples=12)
@given(seed=st.integers(0, 1 << 32))
def test_no_story_ends_with_two_pods_of_one_identity(seed: int) -> None:
    assert story(seed) == ""


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_a_rule_that_is_left_out_is_found_out(name: str) -> None:
    with mutated(name):
        assert story(CAUGHT_BY[name])


def test_every_rule_has_a_story_or_a_test_that_needs_it() -> None:
    assert set(MUTANTS) >= set(CAUGHT_BY)
