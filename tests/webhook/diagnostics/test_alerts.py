"""Every error fires an alert: that about RayClusters has the diagnoses without an own one."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests import ROOT
from webhook.diagnostics.diagnosis import ERROR
from webhook.diagnostics.examination import DIAGNOSES

ALERT: Final = "RayWebhookRayClusterFails"
MANIFESTS: Final = ROOT / "manifests"
RULES: Final = MANIFESTS / "monitoring" / "prometheusrule.yaml"
FILES: Final = (RULES, MANIFESTS / "chart" / "files" / "alerts.yaml")
ERRORS: Final = [each.id for each in DIAGNOSES if each.level == ERROR]
OWN_ALERT: Final = {
    "second-webhook": "RayWebhookSecondWebhook",
    "worker-id-differs": "RayWebhookHostsMisplaced",
    "hostname-differs": "RayWebhookHostsMisplaced",
    "pod-without-identity": "RayWebhookPodsWithoutIdentity",
}
"""The errors that have another alert."""


def expression() -> str:
    ids = [each for each in ERRORS if each not in OWN_ALERT]
    return f'ray_webhook_problems{{diagnosis=~"{"|".join(ids)}"}} > 0'


def files() -> Mapping[Path, str]:
    """Return the files with alerts, with the expression of this alert."""
    line = re.compile(rf"(- alert: {ALERT}\n\s+expr: ).*")
    return {
        path: line.sub(lambda found: found[1] + expression(), path.read_text(encoding="utf-8"))
        for path in FILES
    }


def test_the_alert_of_rayclusters_has_the_errors_of_the_table() -> None:
    for path in FILES:
        assert path.read_text(encoding="utf-8").count(expression()) == 1


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_fires_exactly_one_alert(name: str) -> None:
    rules = re.findall(r"- alert: (\w+)\n\s+expr: (.*)", RULES.read_text(encoding="utf-8"))
    metric = f"ray_webhook_{name.replace('-', '_').replace('pod_', 'pods_')} "
    firing = [
        alert
        for alert, expr in rules
        if expr.startswith(metric)
        or any(name in ids.split("|") for ids in re.findall(r'diagnosis=~?"([^"]*)"', expr))
    ]
    assert firing == [OWN_ALERT.get(name, "RayWebhookRayClusterFails")]
