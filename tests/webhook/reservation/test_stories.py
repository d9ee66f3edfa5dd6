"""No two live pods have the same identity, for any events; stories find rules that are left out."""

import logging
from collections.abc import Iterator

import pytest

from tests.webhook.reservation.mutants import MUTANTS, find_story
from tests.webhook.reservation.stories import scaling, story

SHARE = 40
"""Stories of the fixed share, of 800 steps each. `make fuzz` plays others."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Leave out the log of what goes wrong by intention."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", range(SHARE))
def test_no_story_of_the_fixed_share_ends_with_two_pods_of_one_identity(seed: int) -> None:
    assert story(seed) == ""


@pytest.mark.parametrize("seed", range(SHARE // 2))
def test_no_replica_is_opened_while_another_stays_incomplete(seed: int) -> None:
    assert scaling(seed) == ""


@pytest.mark.parametrize("name", MUTANTS)
def test_a_rule_that_is_left_out_is_found_out(name: str) -> None:
    assert find_story(name) >= 0
