"""The alert about RayClusters: its expression has the diagnoses that are errors."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests import ROOT
from webhook.diagnostics.diagnosis import ERROR
from webhook.diagnostics.examination import DIAGNOSES

ALERT: Final = "RayWebhookRayClusterFails"
MANIFESTS: Final = ROOT / "manifests"
RULES: Final = MANIFESTS / "monitoring" / "prometheusrule.yaml"
FILES: Final = (RULES, MANIFESTS / "chart" / "files" / "alerts.yaml")

OWN_ALERT: Final = {
    "second-webhook": "RayWebhookSecondWebhook",
    "worker-id-differs": "RayWebhookHostsMisplaced",
    "hostname-differs": "RayWebhookHostsMisplaced",
    "pod-without-identity": "RayWebhookPodsWithoutIdentity",
}
"""The errors that have another alert."""


def expression() -> str:
    errors = [each.id for each in DIAGNOSES if each.level == ERROR]
    ids = [each for each in errors if each not in OWN_ALERT]
    return f'ray_webhook_problems{{diagnosis=~"{"|".join(ids)}"}} > 0'


def files() -> Mapping[Path, str]:
    """Return the files with alerts, with the expression of this alert."""
    line = re.compile(rf"(- alert: {ALERT}\n\s+expr: ).*")
    return {
        path: line.sub(lambda found: found[1] + expression(), path.read_text(encoding="utf-8"))
        for path in FILES
    }
