"""What the rules say of KubeRay's samples, which work: no denial, and few warnings."""

from pathlib import Path

from msgspec import structs

from webhook.api import names
from webhook.cli.files import read_files
from webhook.manifest.reader import Manifest
from webhook.validation.finding import DENY
from webhook.validation.rule_settings import RuleSettings, default_gates
from webhook.validation.ruleset import check_file

WARNED_MAX = 0.03
"""The share of objects with warnings above which readers would switch rules off."""


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
