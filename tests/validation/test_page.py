"""docs/rules.md and the pages below docs/rules describe the rules."""

import re

import pytest

from tests.validation.page import (
    FAMILIES,
    FOLDER,
    PAGE,
    VALIDATION_GO,
    explained,
    pages,
)
from tests.validation.parity import PARITY
from webhook.validation.rules import (
    API_SERVER,
    KUBERAY,
    NO_ONE_ELSE,
    RAY,
    RULES,
    Rule,
)

# The functions of KubeRay 1.7's validation.go that refuse something, and the two places outside of
# it.
KUBERAY_FUNCTIONS = {
    "ValidateRayClusterStatus", "ValidateRayClusterMetadata", "ValidateRayClusterUpgradeOptions",
    "validateRayGroupResources",
    "validateRayGroupLabels", "ValidateRayClusterSpec", "validateGcsFaultToleranceBackend",
    "validateNetworkPolicy",
    "validateTLSOptions", "ValidateRayJobStatus", "ValidateRayJobMetadata", "ValidateRayJobSpec",
    "ValidateRayServiceMetadata",
    "validateInitializingTimeout", "ValidateRayServiceSpec", "ValidateClusterUpgradeOptions",
    "validateDeletionConfiguration",
    "validateDeletionRules", "validateDeletionCondition", "validateTTLConsistency",
    "validateLegacyDeletionPolicies",
    "ValidateRayCronJobSpec", "validateWorkerGroupIdleTimeout", "validateCollectorOptions",
    "validateWorkerGroupPriority",
    "rayClusterReconcile", "webhooks/v1",
}  # fmt: skip


def test_the_pages_are_up_to_date() -> None:
    found = {path: path.read_text(encoding="utf-8") for path in (PAGE, *FOLDER.glob("*"))}
    assert found == pages(), "run: make rules"


def test_every_rule_is_of_one_family() -> None:
    listed = [rule.id for family in FAMILIES for rule in family.rules]
    assert sorted(listed) == sorted(rule.id for rule in RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_says_what_it_catches_why_it_hurts_and_where_that_comes_from(
    rule: Rule[object],
) -> None:
    what, why, source = explained(rule)
    assert what.endswith(".")
    assert why.endswith(".")
    assert re.match(r"(https://\S+|KubeRay validation\.go)( \(`\w+`(, `\w+`)*\))?$", source), source


def test_every_function_of_kuberay_that_refuses_something_has_a_row_in_the_table() -> None:
    assert {row.where for row in PARITY} == KUBERAY_FUNCTIONS


def test_every_row_of_the_table_names_rules_that_exist_and_deny_or_a_reason_for_none() -> None:
    levels = {rule.id: rule.level for rule in RULES}
    for row in PARITY:
        assert bool(row.rules) != bool(row.why), row
        for rule in row.rules:
            assert levels[rule] == "deny" or "an event only" in row.refuses, row


def test_every_rule_says_who_else_refuses_the_same() -> None:
    kuberay = {rule for row in PARITY for rule in row.rules} | {"value-not-decodable"}
    assert {rule.id for rule in RULES if rule.by == KUBERAY} == kuberay
    assert {rule.by for rule in RULES} == {KUBERAY, API_SERVER, RAY, NO_ONE_ELSE}
    for rule in RULES:
        assert rule.by != API_SERVER or "API server" in explained(rule)[1], rule.id


def test_every_rule_that_quotes_kuberays_validation_is_in_the_table() -> None:
    listed = {rule for row in PARITY for rule in row.rules}
    quoting = {rule.id for rule in RULES if VALIDATION_GO in explained(rule)[2]}
    assert quoting <= listed
