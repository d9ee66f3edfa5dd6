"""The conformance suite: the examples of all rules as whole objects, for programs in any language.

A release contains it as `rules.yaml`.
"""

from typing import Any

import yaml

from tests.harness.ray_objects import Json
from tests.pages.rules import FAMILIES
from tests.webhook.validation.samples import Sample, assigned, samples
from webhook.validation.finding import ALWAYS, Finding
from webhook.validation.rules import Rule

WITHOUT_CASES = {"too-many-groups", "raycluster-too-large", "key-duplicate"}
"""Rules whose examples are too large for a file that people read, or are no JSON."""


class _Dumper(yaml.CSafeDumper):
    """Writes whole objects: readers in other languages need no anchors."""

    def ignore_aliases(self, _: Any) -> bool:  # noqa: ANN401 - JSON
        return True


def suite() -> str:
    """Return the suite as YAML: a list of rules with their cases, as docs/rules.md says."""
    examples = samples()
    return yaml.dump(
        [_exported(rule, examples[rule.id]) for family in FAMILIES for rule in family.rules],
        Dumper=_Dumper, sort_keys=False, width=120, default_flow_style=None)  # fmt: skip


def findings(found: list[Finding]) -> list[Json]:
    return [{"rule": each.rule, "action": each.level, "field": each.path} for each in found]


def _given(sample: Sample) -> Json:
    given = {
        "kuberay": sample.kuberay and _release(sample.kuberay),
        "featureGates": sample.gates or None,
        "podGroups": sample.pod_groups,
        "noComputeDomains": sample.no_domains or None,
        "nodeLabels": sample.node_labels and sorted(sample.node_labels),
        "namespace": sample.namespace or None,
        "source": "file" if sample.file else None,
        "old": sample.old and assigned(sample.old),
    }
    return {name: value for name, value in given.items() if value is not None}


def _exported(rule: Rule[Any], sample: Sample) -> Json:
    head = {"rule": rule.id, "action": rule.level, "refusedBy": rule.by}
    if rule.since != ALWAYS:
        head["since"] = _release(rule.since)
    given = _given(sample)
    cases = [
        {
            "name": name,
            **given,
            "object": assigned(overlay),
            "findings": findings(sample.findings(overlay)),
        }
        for name, overlay in (("fails", sample.fails), ("passes", sample.passes))
        if rule.id not in WITHOUT_CASES
    ]
    return {**head, "cases": cases}


def _release(release: tuple[int, int]) -> str:
    return ".".join(map(str, release))
