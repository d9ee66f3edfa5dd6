"""Alerts and dashboard name existing metrics, whose label values are bounded."""

import json
import re
from collections.abc import Iterator
from typing import Any

from tests import ROOT
from tests.pages.metrics import exposed as exposed_rows
from tests.pages.metrics import scraped_name
from webhook.api.review import Answer, Cause
from webhook.metrics.collector import Metrics
from webhook.metrics.observers import ReviewCounts
from webhook.metrics.table import Metric

MONITORING = ROOT / "manifests" / "monitoring"
ELSEWHERE = re.compile(
    r"\bapiserver_admission_webhook_(admission_duration_seconds_bucket|rejection_count)\b"
)


def samples(row: Metric) -> set[str]:
    suffixes = ("_bucket", "_count", "_sum") if row.kind == "histogram" else ("",)
    return {scraped_name(row) + suffix for suffix in suffixes}


def expressions() -> Iterator[str]:
    for panel in json.loads((MONITORING / "dashboard.json").read_text())["panels"]:
        yield from queries(panel)
    yield from re.findall(r"expr: (.+)", (MONITORING / "prometheusrule.yaml").read_text())


def test_every_metric_that_is_asked_for_exists() -> None:
    exposed = {name for rows in exposed_rows().values() for row in rows for name in samples(row)}
    asked = {name for text in expressions() for name in re.findall(r"\bray_webhook_\w+", text)}
    assert len(asked) >= 8
    assert asked <= exposed


def test_other_metrics_are_those_of_api_servers() -> None:
    for text in expressions():
        assert "ray_webhook_" in text or ELSEWHERE.search(text), text


def test_the_dashboard_places_panels_side_by_side() -> None:
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(panels) == len({panel["id"] for panel in panels})


def test_every_panel_is_below_a_row_and_what_concerns_replicas_is_chosen_by_the_variables() -> None:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    assert dashboard["panels"][0]["type"] == "row"
    names = [each["name"] for each in dashboard["templating"]["list"]]
    assert names == ["datasource", "namespace", "raycluster"]
    about = re.compile(r"ray_webhook_(?:replica|pods_without_identity|problems)\w*(\{[^}]*\})?")
    chosen = [
        found[1]
        for panel in dashboard["panels"]
        for text in queries(panel)
        if (found := about.search(text))
    ]
    assert len(chosen) >= 6
    assert all(each and "$namespace" in each and "$raycluster" in each for each in chosen)


def queries(panel: dict[str, Any]) -> list[str]:
    return [target["expr"] for target in panel.get("targets", ())]


def test_numbers_that_should_not_be_have_thresholds() -> None:
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    stats = [panel for panel in panels if panel["type"] == "stat" and panel["title"] != "Versions"]
    assert len(stats) >= 6
    assert all(panel["fieldConfig"]["defaults"]["thresholds"]["steps"] for panel in stats)


def test_labels_stay_few_whatever_is_sent() -> None:
    metrics = Metrics("serve")
    counts = ReviewCounts(metrics)
    for number in range(200):
        counts.reviewed(f"Kind{number}", f"OPERATION{number}", "denied", 0.001)
        counts.reasons(f"Kind{number}", Answer((Cause(f"Reason{number}", "", ""),)))
    text = metrics.exposition()[0].decode()
    assert "Kind1" not in text
    assert "Reason1" not in text
    ours = [line for line in text.splitlines() if line.startswith("ray_webhook_")]
    assert len(ours) < 40
