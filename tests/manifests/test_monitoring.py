"""Alerts and dashboard name metrics that exist, and labels stay few whatever is sent."""

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.apiserver import ApiServer, RefusedError, pod_review
from tests.manifests.render import ROOT
from tests.server import serving
from tests.telemetry.test_replicas import Named, Watch
from webhook.control.event_recorder import EventCounters
from webhook.control.publisher import PublishCounters
from webhook.follow.claims import Counters as ClaimCounters
from webhook.follow.listwatch import Counters
from webhook.status.tracker import Look, Tally
from webhook.telemetry.claims import ClaimCollector
from webhook.telemetry.metrics import Metrics
from webhook.telemetry.process_metrics import ProcessMetrics
from webhook.telemetry.publishing import PublisherCollector
from webhook.telemetry.replicas import ReplicaCollector
from webhook.telemetry.watches import WatchCollector

MONITORING = ROOT / "manifests" / "monitoring"
ELSEWHERE = re.compile(
    r"\bapiserver_admission_webhook_(admission_duration_seconds_bucket|rejection_count)\b"
)


class FailingPublisher:
    """A publisher that may not do what it should, and whose names others have."""

    counters = PublishCounters(failures={"forbidden": 1})
    taken_names = 1


class Claims:
    """Claims of which some were written."""

    counters = ClaimCounters(writes=1)
    unseen = 0


@pytest.fixture(name="exposed", scope="module")
def _exposed(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Return the names of all samples after reviews of every verdict."""
    with (
        serving(tmp_path_factory.mktemp("server"), []) as running,
        ApiServer(running.url, running.authority) as api,
    ):
        with pytest.raises(RefusedError):
            api.admit(
                {
                    "metadata": {"labels": {"ray.io/node-type": "worker"}, "namespace": "a"},
                    "spec": {"containers": []},
                }
            )
        assert not api.review(ray_review(), "/validate")["allowed"]
        assert api.post("/mutate", b"{}").status_code == httpx.codes.BAD_REQUEST
        text = httpx.get(f"{running.admin}/metrics").text
    publishing = ProcessMetrics("controller")
    watch = Watch(Named(), synced=True, heard_at=0.0, counters=Counters(errors={"refused": 1}))
    tally = Tally("team", "llama", "tpu", {"waits": 1}, 1, 0.0)
    look = Look((), (tally,), {("team", "llama", "host-missing"): 1})
    for collector in (
        PublisherCollector(FailingPublisher()),
        WatchCollector(lambda: [watch]),
        ReplicaCollector(lambda: look, EventCounters({"HostMissing": 1}, {"server": 1})),
        ClaimCollector(Claims()),
    ):
        publishing.registry.register(collector)
    for name in ("live_reads", "live_read_failures", "malformed_seats"):
        publishing.counter(f"ray_webhook_{name}", name, lambda: 1)
    publishing.gauge("ray_webhook_leader", "One leads.", lambda: 1)
    text = text.replace("# EOF", "") + publishing.exposition()[0].decode()
    return {
        sample.name for family in text_string_to_metric_families(text) for sample in family.samples
    }


def ray_review() -> dict[str, Any]:
    """Return the review of a RayCluster with two worker groups of one name."""
    group = {
        "groupName": "a",
        "replicas": 1,
        "minReplicas": 0,
        "maxReplicas": 1,
        "rayStartParams": {},
        "template": TEMPLATE,
    }
    spec = {
        "headGroupSpec": {"rayStartParams": {"num_cpus": "1"}, "template": TEMPLATE},
        "workerGroupSpecs": [group, group],
    }
    review = pod_review(
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayCluster",
            "metadata": {"name": "twice"},
            "spec": spec,
        }
    )
    review["request"]["kind"] = {"group": "ray.io", "version": "v1", "kind": "RayCluster"}
    review["request"]["resource"] = {"group": "ray.io", "version": "v1", "resource": "rayclusters"}
    return review


TEMPLATE = {"spec": {"containers": [{"name": "ray", "image": "ray"}]}}


def expressions() -> Iterator[str]:
    """Yield every PromQL expression that we ship."""
    for panel in json.loads((MONITORING / "dashboard.json").read_text())["panels"]:
        yield from queries(panel)
    yield from re.findall(r"expr: (.+)", (MONITORING / "prometheusrule.yaml").read_text())


def test_every_metric_that_is_asked_for_exists(exposed: set[str]) -> None:
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
    about = re.compile(r"ray_webhook_(?:replica|pods_without_seat|troubles)\w*(\{[^}]*\})?")
    chosen = [
        found[1]
        for panel in dashboard["panels"]
        for text in queries(panel)
        if (found := about.search(text))
    ]
    assert len(chosen) >= 6
    assert all(each and "$namespace" in each and "$raycluster" in each for each in chosen)


def queries(panel: dict[str, Any]) -> list[str]:
    """Return the queries of a panel; a row has none."""
    return [target["expr"] for target in panel.get("targets", ())]


def test_numbers_that_should_not_be_have_thresholds() -> None:
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    stats = [panel for panel in panels if panel["type"] == "stat" and panel["title"] != "Versions"]
    assert len(stats) >= 6
    assert all(panel["fieldConfig"]["defaults"]["thresholds"]["steps"] for panel in stats)


def test_the_alerts_of_the_chart_are_those_of_the_manifests() -> None:
    rules = (MONITORING / "prometheusrule.yaml").read_text()
    chart = (ROOT / "manifests" / "chart" / "files" / "alerts.yaml").read_text()
    assert chart.splitlines()[1:] == [
        line.removeprefix("  ") for line in rules.partition("spec:\n")[2].splitlines()
    ]


def test_labels_stay_few_whatever_is_sent() -> None:
    metrics = Metrics()
    for number in range(200):
        metrics.reviewed(f"Kind{number}", f"OPERATION{number}", "denied", 0.001)
        metrics.denied(f"Kind{number}", f"Reason{number}")
    text = metrics.exposition()[0].decode()
    assert "Kind1" not in text
    assert "Reason1" not in text
    ours = [line for line in text.splitlines() if line.startswith("ray_webhook_")]
    assert len(ours) < 40
