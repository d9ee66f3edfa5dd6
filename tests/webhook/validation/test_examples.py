"""Every rule has an example that it reports at its field, a case of the suite, and a page."""

import re

import pytest
import yaml

from tests import ROOT
from tests.harness.ray_objects import Json, rules_and_paths
from tests.pages.markdown import explained
from tests.pages.rules import WITHOUT_RULES
from tests.webhook.validation.conformance import WITHOUT_CASES, findings, suite
from tests.webhook.validation.samples import Sample, samples
from webhook.admission.codec import WARNING_MAX
from webhook.admission.ray_handler import render
from webhook.api.namespace_limits import read_namespaces
from webhook.diagnostics.examination import DIAGNOSES
from webhook.validation.finding import WARN, Finding
from webhook.validation.rule_settings import FixedNamespaces, RuleSettings, parse_kuberay
from webhook.validation.rules import API_SERVER, KUBERAY, NO_ONE_ELSE, RAY, RULES, Rule
from webhook.validation.ruleset import check, check_file, check_update

SAMPLES = samples()
SUITE: list[Json] = yaml.load(suite(), yaml.CSafeLoader)
CASES = {f"{entry['rule']}-{case['name']}": case for entry in SUITE for case in entry["cases"]}


def test_every_rule_has_one_example_and_one_entry_of_the_suite() -> None:
    rules = sorted(rule.id for rule in RULES)
    assert sorted(SAMPLES) == sorted(entry["rule"] for entry in SUITE) == rules
    assert len(CASES) == 2 * (len(RULES) - len(WITHOUT_CASES))


@pytest.mark.parametrize(("rule", "sample"), SAMPLES.items(), ids=SAMPLES)
def test_the_failing_example_gives_this_finding_and_no_other(rule: str, sample: Sample) -> None:
    assert rules_and_paths(sample.findings(sample.fails)) == {(rule, path) for path in sample.at}


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_the_passing_example_gives_no_finding(sample: Sample) -> None:
    assert sample.findings(sample.passes) == []


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
def test_every_message_is_short_enough_for_a_warning(sample: Sample) -> None:
    for finding in sample.findings(sample.fails):
        softened = Finding(finding.rule, WARN, finding.field, finding.message, finding.reason)
        (warning,) = render([softened]).warnings
        assert finding.message in warning
        assert warning.endswith(f"[{finding.rule}]")
        assert len(warning) <= WARNING_MAX


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_case_of_the_suite_has_the_findings_that_it_expects(case: Json) -> None:
    value, kind = case["object"], case["object"]["kind"]
    settings = RuleSettings(
        gates=case.get("featureGates", {}),
        pod_groups=case.get("podGroups"),
        no_domains=case.get("noComputeDomains", ""),
        node_labels=frozenset(case["nodeLabels"]) if "nodeLabels" in case else None,
        namespaces=FixedNamespaces(read_namespaces(case.get("namespace", []))),
        kuberay=parse_kuberay(case.get("kuberay", "")),
    )
    if "old" in case:
        found = check_update(kind, case["old"], value, settings)
    elif case.get("source") == "file":
        found = check_file(kind, value, settings)
    else:
        found = check(kind, value, settings)
    assert findings(found) == case["findings"]


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
    what, why, source = explained(rule.text)
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
        assert rule.by != API_SERVER or "API server" in explained(rule.text)[1], rule.id


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
