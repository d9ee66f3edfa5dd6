"""The table of differences from Ray's parsers stays small, and names the correct side."""

from tests.lab.ray_parsers.__main__ import AUTOSCALER, DIFFERENCES, RESIZE
from webhook.validation.finding import DENY
from webhook.validation.rules import RULES


def test_the_table_has_at_most_30_entries_that_name_rules_and_reasons() -> None:
    assert len(DIFFERENCES) <= 30
    for each in DIFFERENCES:
        assert each.right
        assert each.why
        assert each.ours in AUTOSCALER | RESIZE or each.said, "an entry says what it is about"


def test_the_rules_that_speak_for_rays_parsers_deny() -> None:
    denying = {rule.id for rule in RULES if rule.level == DENY}
    assert denying >= AUTOSCALER | RESIZE
