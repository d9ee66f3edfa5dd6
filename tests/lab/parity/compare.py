"""Comparison of the rules with KubeRay on one object."""

from typing import Any, NamedTuple

from tests.lab.parity.disagreements import DISAGREEMENTS
from tests.lab.parity.programs import Verdict
from webhook.validation.finding import DENY, Finding
from webhook.validation.rule_settings import RuleSettings
from webhook.validation.rules import RULES
from webhook.validation.ruleset import check_file

KUBERAYS = {rule.id for rule in RULES if rule.functions}
"""The rules that are checks of KubeRay; the others know more than it does."""
CRDS = {"schema-violated", "value-not-decodable"}


class Odd(NamedTuple):
    """One disagreement: our rule if it denies, what KubeRay says, and kind and field."""

    rule: str
    said: str
    path: str

    @property
    def explained(self) -> bool:
        return any(each.explains(*self) for each in DISAGREEMENTS)


# JSON
def compare(value: Any, verdict: Verdict, settings: RuleSettings) -> list[Odd]:  # noqa: ANN401
    denials = [each for each in check_file(value["kind"], value, settings) if each.level == DENY]
    if not verdict.stored:
        said = "; ".join(verdict.schema) or verdict.unknown
        return [] if denials else [Odd("", f"schema: {said}", "")]
    if verdict.refusal:
        return [] if denials else [Odd("", verdict.refusal, "")]
    kind = value["kind"]
    return [Odd(each.rule, "", f"{kind} {each.path}") for each in denials if _wrong(each)]


# JSON
def _wrong(finding: Finding) -> bool:
    return finding.rule in KUBERAYS or finding.rule in CRDS
