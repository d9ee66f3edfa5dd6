"""Every rule reports its failing example at its field, and no rule the passing one."""

import pytest

from tests.harness.ray_objects import found, rules_and_paths
from tests.webhook.validation.samples import Sample, base, samples
from webhook.admission.codec import WARNING_MAX
from webhook.admission.ray_handler import render
from webhook.validation.finding import WARN, Finding
from webhook.validation.rules import RULES

SAMPLES = samples()


def test_every_rule_has_an_example_and_every_example_a_rule() -> None:
    assert set(SAMPLES) == {rule.id for rule in RULES}


def test_no_two_rules_share_an_id() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)


@pytest.mark.parametrize("kind", ["RayCluster", "RayJob", "RayService", "RayCronJob"])
def test_the_objects_that_examples_stand_on_are_clean(kind: str) -> None:
    assert found(base(kind)) == set()


@pytest.mark.parametrize(("rule", "sample"), SAMPLES.items(), ids=SAMPLES)
def test_the_failing_example_gives_this_finding_and_no_other(rule: str, sample: Sample) -> None:
    assert rules_and_paths(sample.findings(sample.fails)) == {(rule, path) for path in sample.at}


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_the_passing_example_gives_no_finding(sample: Sample) -> None:
    assert sample.findings(sample.passes) == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_message_is_short_enough_for_a_warning(rule: object) -> None:
    sample = SAMPLES[getattr(rule, "id", "")]
    for finding in sample.findings(sample.fails):
        softened = Finding(finding.rule, WARN, finding.field, finding.message, finding.reason)
        (warning,) = render([softened]).warnings
        assert finding.message in warning
        assert warning.endswith(f"[{finding.rule}]")
        assert len(warning) <= WARNING_MAX
