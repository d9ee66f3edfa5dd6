"""No two live pods hold one seat, whatever happens between several processes and the API server; and each step is needed."""

import logging
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.follow.mutants import MUTANTS, mutated, story

CAUGHT_BY = {
}
"""The first story that is wrong without a step, as `python -m tests.follow.mutants` finds it."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Leave out the log of what goes wrong by intention."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@settings(max_examples=12)
@given(seed=st.integers(0, 1 << 32))
def test_no_story_ends_with_two_pods_in_one_seat(seed: int) -> None:
    assert story(seed, 1000) == ""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_step_that_is_left_out_is_found_out(name: str) -> None:
    with mutated(name):
        assert story(CAUGHT_BY[name])
