"""The conformance suite matches the rules: it is read as a program in another language reads it."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.webhook.validation.conformance import WITHOUT_CASES, findings, suite
from webhook.api.namespace_limits import read_namespaces
from webhook.validation.rule_settings import FixedNamespaces, RuleSettings, parse_kuberay
from webhook.validation.rules import RULES
from webhook.validation.ruleset import check, check_file, check_update

Case = dict[str, Any]


def entries() -> list[Case]:
    return list(yaml.load(suite(), yaml.CSafeLoader))


def cases() -> Iterator[Any]:
    for entry in entries():
        for case in entry["cases"]:
            yield pytest.param(case, id=f"{entry['rule']}-{case['name']}")


def test_every_rule_has_one_entry_with_a_case_that_fails_and_one_that_passes() -> None:
    every = entries()
    assert sorted(entry["rule"] for entry in every) == sorted(rule.id for rule in RULES)
    for entry in every:
        found = [
            any(each["rule"] == entry["rule"] for each in case["findings"])
            for case in entry["cases"]
        ]
        assert found == ([] if entry["rule"] in WITHOUT_CASES else [True, False]), entry["rule"]


@pytest.mark.parametrize("case", [*cases()])
def test_a_case_has_the_findings_that_it_expects(case: Case) -> None:
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
