"""Comparison of the rules with KubeRay on one object, the table of disagreements with the side that
is right (at most 30 entries), and what the rules say of KubeRay's samples, which work.
"""

import re
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct, structs

from tests.lab.parity.programs import Verdict
from webhook.api import names
from webhook.cli.files import read_files
from webhook.manifest.reader import Manifest
from webhook.validation.finding import DENY
from webhook.validation.rule_settings import RuleSettings, default_gates
from webhook.validation.rules import RULES
from webhook.validation.ruleset import check_file

WARNED_MAX = 0.03
"""The share of objects with warnings above which readers would switch rules off."""

KUBERAYS = {rule.id for rule in RULES if rule.functions}
"""The rules that are checks of KubeRay; the others know more than it does."""
CRDS = {"schema-violated", "value-not-decodable"}


class Disagreement(Struct, frozen=True):
    """A kind of disagreement.

    `ours` is the rule that denies what KubeRay takes, or nothing where KubeRay refuses what no rule
    denies; `said` is part of what KubeRay says then; `at` is the end of the field's path.
    """

    right: str
    why: str
    ours: str = ""
    said: str = ""
    at: str = ""

    def explains(self, rule: str, text: str, path: str) -> bool:
        return (
            self.ours == rule
            and bool(re.search(self.said, text))
            and bool(re.search(self.at, path))
        )


DISAGREEMENTS = (
    Disagreement(
        right="the rule",
        why="KubeRay takes the RayService or RayJob, and then refuses the RayCluster that it makes",
        ours="upgrade-strategy-not-own",
        at=r"upgradeStrategy\.type$",
    ),
    Disagreement(
        right="the rule",
        why="KubeRay takes the RayCronJob, and then refuses each RayJob that it makes",
        ours="name-not-dns-label",
        at=r"^RayCronJob metadata\.name$",
    ),
    Disagreement(
        right="the rule",
        why="KubeRay takes the RayCronJob, and then refuses each RayJob that it makes",
        ours="name-too-long",
        at=r"^RayCronJob metadata\.name$",
    ),
    Disagreement(
        right="the rule",
        why="KubeRay decodes 1e100, but not 1e-999999999; nothing has that much or that little",
        ours="value-not-decodable",
        at=r"\b(limits|requests|overhead)\W.+$|\.(divisor|sizeLimit|size)$",
    ),
)


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
    wrong = [each for each in denials if each.rule in KUBERAYS | CRDS]
    return [Odd(each.rule, "", f"{kind} {each.path}") for each in wrong]


def read_noise(samples: Path, settings: RuleSettings) -> list[str]:
    """Return the findings in Ray objects of a folder, all declared gates being on, if one is denied
    or too many have warnings. Objects with placeholders are templates.
    """
    declared = default_gates(settings.kuberay)
    settings = structs.replace(settings, gates={name: name in declared for name in settings.gates})
    objects, noisy, denied, lines = 0, 0, False, []
    for manifest in read_files([samples]):
        if not isinstance(manifest, Manifest) or manifest.kind not in names.RAY_KINDS:
            continue
        findings = check_file(manifest.kind, manifest.document, settings)
        if any(finding.rule == "placeholder-unresolved" for finding in findings):
            continue
        objects, noisy = objects + 1, noisy + bool(findings)
        denied |= any(finding.level == DENY for finding in findings)
        lines += [f"{manifest.file}: {finding}" for finding in findings]
    if not objects:
        return ["no samples"]
    return lines if denied or noisy >= WARNED_MAX * objects else []
