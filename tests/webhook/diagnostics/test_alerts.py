"""Every error fires an alert."""

import re

import pytest

from tests.webhook.diagnostics.alerts import FILES, OWN_ALERT, RULES, expression, files
from webhook.diagnostics.diagnosis import ERROR
from webhook.diagnostics.examination import DIAGNOSES

ERRORS = [each.id for each in DIAGNOSES if each.level == ERROR]


def test_the_alert_of_rayclusters_has_the_errors_of_the_table() -> None:
    written = {path: path.read_text(encoding="utf-8") for path in FILES}
    assert files() == written, "run `make generate`"
    assert all(text.count(expression()) == 1 for text in written.values())


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
