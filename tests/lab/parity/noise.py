"""What the rules say of KubeRay's samples, which work: no denial, and few warnings."""

from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from webhook.api import names
from webhook.cli.files import read_files
from webhook.manifest.reader import Manifest
from webhook.validation.finding import DENY
from webhook.validation.rule_settings import RuleSettings, default_gates
from webhook.validation.ruleset import check_file

WARNED_MAX = 0.03
"""The share of objects with warnings above which readers would switch rules off."""
_PLACEHOLDER = "placeholder-unresolved"


class Noise(NamedTuple):
    """Numbers of objects, and a line for each finding. Objects with placeholders are templates."""

    objects: int
    templates: int
    denied: int
    warned: int
    lines: list[str]

    @property
    def quiet(self) -> bool:
        return bool(self.objects) and not self.denied and self.warned < WARNED_MAX * self.objects

    def __str__(self) -> str:
        counts = f"{self.denied} denied and {self.warned} with warnings"
        return f"{self.objects} samples, {counts}; {self.templates} with placeholders"


def read_noise(samples: Path, settings: RuleSettings) -> Noise:
    """Return the findings in Ray objects of a folder, all declared gates being on."""
    declared = default_gates(settings.kuberay)
    settings = structs.replace(settings, gates={name: name in declared for name in settings.gates})
    objects, templates, denied, warned, lines = 0, 0, 0, 0, []
    for manifest in read_files([samples]):
        if not isinstance(manifest, Manifest) or manifest.kind not in names.RAY_KINDS:
            continue
        findings = check_file(manifest.kind, manifest.document, settings)
        if any(finding.rule == _PLACEHOLDER for finding in findings):
            templates += 1
            continue
        is_denied = any(finding.level == DENY for finding in findings)
        objects, denied = objects + 1, denied + is_denied
        warned += bool(findings) and not is_denied
        lines += [
            f"{manifest.file}: {finding.level} {finding.rule} {finding.path}: {finding.message}"
            for finding in findings
        ]
    return Noise(objects, templates, denied, warned, lines)
