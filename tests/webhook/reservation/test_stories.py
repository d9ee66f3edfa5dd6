"""No two live pods have the same identity, for any events; and each rule is needed."""

import logging
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from tests.webhook.reservation import test_leases, test_reservations
from tests.webhook.reservation.mutants import CAUGHT_BY, MUTANTS, SEEDS, catch, mutated
from tests.webhook.reservation.stories import scaling, story

SHARE = 40
"""Stories of the fixed share, of 800 steps each. `make fuzz` plays others."""


def _steps(test: Callable[[test_reservations.Simulation], None]) -> Callable[[], None]:
    return lambda: test(test_reservations.Simulation())


NEEDED_BY: Final[dict[str, Callable[[], None]]] = {
    "an old entry is returned as it is": _steps(
        test_reservations.test_an_entry_of_a_lost_write_by_a_paused_machine_is_rewritten
    ),
    "the time after the write does not count": _steps(
        test_reservations.test_an_entry_that_took_long_to_write_is_rewritten_first
    ),
    "a new name does not depend on the block": _steps(
        test_reservations.test_a_request_of_two_blocks_names_replicas_differently
    ),
    "another pod in the place of an entry is ignored": _steps(
        test_reservations.test_a_retried_review_whose_place_is_taken_is_refused
    ),
    "a list is dated when it ended": (
        test_reservations.test_a_list_is_as_old_as_its_request_however_late_it_is_answered
    ),
    "a write names no uid": (
        test_leases.test_a_write_to_a_table_that_was_deleted_is_a_conflict_and_makes_no_other
    ),
}
"""The rules that stories of this length do not reach, by the test that plays the interleaving."""


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


@pytest.mark.parametrize("name", CAUGHT_BY)
def test_a_rule_that_is_left_out_is_found_out(name: str) -> None:
    seed, _ = catch(name, (CAUGHT_BY[name], *range(SEEDS)))
    assert seed >= 0


@pytest.mark.parametrize("name", NEEDED_BY)
def test_a_rule_that_no_story_needs_is_needed_by_a_test(name: str) -> None:
    NEEDED_BY[name]()
    with mutated(name), pytest.raises((AssertionError, pytest.fail.Exception)):
        NEEDED_BY[name]()


def test_every_rule_has_a_story_or_a_test_that_needs_it() -> None:
    assert sorted(MUTANTS) == sorted([*CAUGHT_BY, *NEEDED_BY])
