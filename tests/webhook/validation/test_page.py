"""docs/rules.md and the pages below docs/rules describe the rules; the table of situations from
the field names rules and diagnoses that exist.
"""

import re

import pytest

from tests import ROOT
from tests.pages.rules import WITHOUT_RULES, explained
from webhook.diagnostics.examination import DIAGNOSES
from webhook.validation.rules import API_SERVER, KUBERAY, NO_ONE_ELSE, RAY, RULES, Rule

SITUATIONS = (ROOT / "docs" / "contributing" / "situations.md").read_text()
# The functions of KubeRay 1.7's validation.go that refuse something, and the place outside of it.
KUBERAY_FUNCTIONS = {
    "ValidateRayClusterStatus", "ValidateRayClusterMetadata", "ValidateRayClusterUpgradeOptions",
    "validateRayGroupResources", "validateRayGroupLabels", "ValidateRayClusterSpec",
    "validateGcsFaultToleranceBackend", "validateNetworkPolicy", "validateTLSOptions",
    "ValidateRayJobStatus", "ValidateRayJobMetadata", "ValidateRayJobSpec",
    "ValidateRayServiceMetadata", "validateInitializingTimeout", "ValidateRayServiceSpec",
    "ValidateClusterUpgradeOptions", "validateDeletionConfiguration", "validateDeletionRules",
    "validateDeletionCondition", "validateTTLConsistency", "validateLegacyDeletionPolicies",
    "ValidateRayCronJobSpec", "validateWorkerGroupIdleTimeout", "validateCollectorOptions",
    "validateWorkerGroupPriority", "rayClusterReconcile",
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_says_what_why_and_whence(rule: Rule[object]) -> None:
    what, why, source = explained(rule)
    assert what.endswith(".")
    assert why.endswith(".")
    assert re.match(r"(https://\S+|KubeRay validation\.go)( \(`\w+`(, `\w+`)*\))?$", source), source


def test_every_function_of_kuberay_that_refuses_something_is_named() -> None:
    named = {name for rule in RULES for name in rule.functions}
    assert named | {where for where, _, _ in WITHOUT_RULES} == KUBERAY_FUNCTIONS


def test_every_rule_says_who_else_refuses_the_same() -> None:
    assert {rule.by for rule in RULES} == {KUBERAY, API_SERVER, RAY, NO_ONE_ELSE}
    for rule in RULES:
        assert not rule.functions or (rule.level, rule.by) == ("deny", KUBERAY), rule.id
        assert rule.by != API_SERVER or "API server" in explained(rule)[1], rule.id


def test_every_situation_has_an_answer_that_exists() -> None:
    rows = re.findall(r"^\| (?!situation)(.+) \| (.+) \|$", SITUATIONS, re.MULTILINE)
    assert f"mean: {len(rows)} situations" in SITUATIONS
    answers = {answer for _, answer in rows if answer != "a note of `ray-webhook validate`"}
    existing = {rule.id for rule in RULES} | {diagnosis.id for diagnosis in DIAGNOSES}
    assert {answer.strip("`") for answer in answers} <= existing


def test_every_section_has_a_reference() -> None:
    _, *sections = SITUATIONS.split("\n## ")
    assert all(
        re.search(r"^(Reports|Source):[^|]*https://", part, re.MULTILINE) for part in sections
    )
