"""A broken program, and a rule that denies too much or too little, are detected."""

from itertools import islice

import pytest

from tests.harness.ray_objects import a_cluster
from tests.lab.parity.build import KUBERNETES
from tests.lab.parity.mutants import EXAMPLES
from tests.lab.parity.template_mutants import template_mutants
from tests.lab.parity.templates import MISSED_MAX, Outcome, Tally, corpus

RULE = "pod-name-invalid"
OBJECT = a_cluster().build()


def tallied(*counts: tuple[int, bool, bool]) -> Tally:
    """Return the tally of objects: how many, whether refused, and whether denied by a rule."""
    tally = Tally()
    for number, refused, denied in counts:
        said = ["spec.hostname: Invalid value"] if refused else []
        outcome = Outcome(dict.fromkeys(KUBERNETES, said), frozenset({RULE} if denied else ()))
        for _ in range(number):
            tally.add(outcome, OBJECT)
    return tally


def test_rules_that_agree_have_no_problem() -> None:
    assert tallied((98, True, True), (2, True, False), (50, False, False)).problems() == []


def test_a_program_that_takes_everything_is_a_problem() -> None:
    assert len(tallied((50, False, False)).problems()) == len(KUBERNETES)


def test_a_program_that_refuses_everything_is_a_problem() -> None:
    assert tallied((50, True, True)).problems()


def test_one_denial_of_an_object_that_runs_is_a_problem() -> None:
    (problem,) = tallied((999, True, True), (50, False, False), (1, False, True)).problems()
    assert RULE in problem


def test_more_than_the_allowed_share_of_missed_objects_is_a_problem() -> None:
    missed = int(1000 * MISSED_MAX) + 1
    tally = tallied((1000 - missed, True, True), (missed, True, False), (50, False, False))
    assert len(tally.problems()) == len(KUBERNETES)


def test_an_object_that_never_comes_to_pods_counts_for_neither_side() -> None:
    tally = tallied((10, True, True), (10, False, False))
    tally.add(None, OBJECT)
    assert (tally.checked, tally.idle) == (20, 1)


def test_the_page_says_how_many_pass() -> None:
    page = tallied((98, True, True), (2, True, False), (50, False, False)).page(150)
    assert "2 (2.00%)" in page
    assert "spec.hostname" in page


@pytest.mark.parametrize("seed", [1, 7])
def test_the_same_seed_gives_the_same_broken_templates(seed: int) -> None:
    given = corpus(EXAMPLES)
    one, two = (list(islice(template_mutants(given, seed), 50)) for _ in range(2))
    assert one == two
    assert one != list(islice(template_mutants(given, seed + 1), 50))
