"""The tables of disagreements stay small, and their entries name existing rules."""

from collections.abc import Sequence
from itertools import islice

import pytest

from tests.harness.ray_objects import a_cluster
from tests.lab.parity.compare import DISAGREEMENTS, Disagreement, Odd, compare
from tests.lab.parity.mutants import EXAMPLES, mutants, seeds
from tests.lab.parity.programs import Verdict
from tests.lab.ray_parsers.__main__ import AUTOSCALER, DIFFERENCES, RESIZE
from webhook.validation.finding import DENY
from webhook.validation.rule_settings import RuleSettings
from webhook.validation.rules import RULES

NEWEST = RuleSettings(kuberay=(1, 7))


@pytest.mark.parametrize("table", [DISAGREEMENTS, DIFFERENCES], ids=["KubeRay", "Ray"])
def test_a_table_has_at_most_30_entries_that_name_rules_and_reasons(
    table: Sequence[Disagreement],
) -> None:
    assert len(table) <= 30
    known = {rule.id for rule in RULES} | {""}
    for each in table:
        assert each.ours in known
        assert each.right
        assert each.why
        assert each.ours or each.said, "an entry says what it is about"


def test_the_rules_that_speak_for_rays_parsers_deny() -> None:
    denying = {rule.id for rule in RULES if rule.level == DENY}
    assert denying >= AUTOSCALER | RESIZE


def test_the_same_seed_gives_the_same_mutants() -> None:
    given = seeds(EXAMPLES)
    one, two = (list(islice(mutants(given, 7), 50)) for _ in range(2))
    assert one == two
    assert one != list(islice(mutants(given, 8), 50))


def test_what_only_one_of_the_two_refuses_is_a_disagreement() -> None:
    good, bad = a_cluster().group().build(), a_cluster("2nd").group().build()
    assert compare(good, Verdict(), NEWEST) == []
    assert compare(good, Verdict(operator="no"), NEWEST) == [Odd("", "no", "")]
    assert compare(good, Verdict(schema=["no"]), NEWEST) == [Odd("", "schema: no", "")]
    assert compare(bad, Verdict(operator="no"), NEWEST) == []
    (odd,) = compare(bad, Verdict(), NEWEST)
    assert odd.rule == "name-not-dns-label"
    assert not odd.explained
