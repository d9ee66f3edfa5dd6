"""Every alert fires exactly when it should, by promtool; each has a page."""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pytest
import yaml

from tests import ROOT
from tests.e2e.build import binary
from tests.manifests.render import Object
from tests.release.build import repository

pytestmark = pytest.mark.manifests

Series = dict[str, str]
"""Values of a series, as promtool expands them, by name and labels."""

RULE = ROOT / "manifests" / "monitoring" / "prometheusrule.yaml"
SPEC = yaml.safe_load(RULE.read_text())["spec"]
RULES = {rule["alert"]: rule for group in SPEC["groups"] for rule in group["rules"]}

SERVE = 'ray_webhook_build_info{process="serve"}'
CONTROLLER = 'ray_webhook_build_info{process="controller"}'
GROUP = 'raycluster_namespace="team",raycluster="llama",group="tpu"'
OF_GROUP = {"raycluster_namespace": "team", "raycluster": "llama", "group": "tpu"}
CLUSTER = 'raycluster_namespace="team",raycluster="llama"'
PROBLEMS = "ray_webhook_problems"
SINCE = f"ray_webhook_replica_incomplete_since_timestamp_seconds{{{GROUP}}}"
EXPIRY = "ray_webhook_certificate_expiry_timestamp_seconds"
DURATION = "ray_webhook_admission_duration_seconds_bucket"
OURS = 'name="pods.admission.ray.io"'
FAILED_OPEN = "apiserver_admission_webhook_fail_open_count"
REJECTED = "apiserver_admission_webhook_rejection_count"


class Case(NamedTuple):
    """What makes an alert fire after an hour, what is like it and does not, and its labels."""

    fires: Series
    quiet: Series
    labels: Mapping[str, str] = MappingProxyType({})


def of_one_series(
    series: str, fires: str, quiet: str, labels: Mapping[str, str] = MappingProxyType({})
) -> Case:
    return Case({series: fires}, {series: quiet}, labels)


def slow(share: str) -> Series:
    """Return a histogram in which a share of 200 reviews a minute takes half a second."""
    fast = str(200 - int(share))
    return {
        f'{DURATION}{{le="0.025"}}': f"0+{fast}x70",
        f'{DURATION}{{le="0.5"}}': "0+200x70",
        f'{DURATION}{{le="+Inf"}}': "0+200x70",
    }


CASES = {
    "RayWebhookDown": Case({CONTROLLER: "1x70"}, {SERVE: "1x70"}, {"process": "serve"}),
    "RayWebhookCertificateExpires": of_one_series(EXPIRY, "500000x70", "900000x70"),
    "RayWebhookCertificateRejected": of_one_series(
        "ray_webhook_certificate_rejected", "1x70", "0x55 1x15"
    ),
    "RayWebhookPodsDoNotAppear": of_one_series(
        "ray_webhook_reservations_unseen", "3x70", "3x50 0x9 3x9"
    ),
    "RayWebhookFails": Case(
        {'ray_webhook_refused_requests_total{status="500"}': "0+1x70"},
        {'ray_webhook_refused_requests_total{status="400"}': "0+1x70"},
    ),
    "RayWebhookReviewsUndecided": of_one_series(
        "ray_webhook_undecided_reviews_total", "0+1x70", "7x70"
    ),
    "RayWebhookSlow": Case(slow("10"), slow("1")),
    "RayWebhookSchedulingGroupsFail": Case(
        {'ray_webhook_scheduling_failures_total{reason="forbidden"}': "0+1x70"},
        {'ray_webhook_scheduling_failures_total{reason="conflict"}': "0+1x70"},
    ),
    "RayWebhookControllerDown": Case(
        {"ray_webhook_scheduling_enabled": "1x70", SERVE: "1x70"},
        {"ray_webhook_scheduling_enabled": "1x70", SERVE: "1x70", CONTROLLER: "1x70"},
    ),
    "RayWebhookReplicaIncomplete": of_one_series(SINCE, "60x70", "3000x70", OF_GROUP),
    "RayWebhookRayClusterFails": Case(
        {f'{PROBLEMS}{{{CLUSTER},diagnosis="pod-pending"}}': "8x70"},
        {f'{PROBLEMS}{{{CLUSTER},diagnosis="node-drained"}}': "8x70"},
        {"raycluster_namespace": "team", "raycluster": "llama", "diagnosis": "pod-pending"},
    ),
    "RayWebhookPodsWithoutIdentity": of_one_series(
        f"ray_webhook_pods_without_identity{{{GROUP}}}", "2x70", "0x57 2x13", OF_GROUP
    ),
    "RayWebhookHostsMisplaced": Case(
        {f'{PROBLEMS}{{{CLUSTER},diagnosis="hostname-differs"}}': "8x70"},
        {f'{PROBLEMS}{{{CLUSTER},diagnosis="pod-pending"}}': "8x70"},
        {"raycluster_namespace": "team", "raycluster": "llama", "diagnosis": "hostname-differs"},
    ),
    "RayWebhookSecondWebhook": Case(
        {'ray_webhook_problems{diagnosis="second-webhook"}': "1x70"},
        {'ray_webhook_problems{diagnosis="host-missing"}': "1x70"},
        {"diagnosis": "second-webhook"},
    ),
    "RayWebhookWatchStale": of_one_series(
        'ray_webhook_watch_age_seconds{watch="pods"}', "0+60x70", "65x70", {"watch": "pods"}
    ),
    "RayWebhookNobodyLeads": Case(
        {'ray_webhook_leader{instance="a"}': "0x70", 'ray_webhook_leader{instance="b"}': "0x70"},
        {'ray_webhook_leader{instance="a"}': "0x70", 'ray_webhook_leader{instance="b"}': "1x70"},
    ),
    "RayWebhookCallsFail": Case(
        {f'{REJECTED}{{{OURS},error_type="calling_webhook_error"}}': "0+1x70"},
        {f'{REJECTED}{{{OURS},error_type="no_error"}}': "0+1x70"},
    ),
}
MORE = (
    (
        "RayWebhookRayClusterFails",
        Case(
            {f'{PROBLEMS}{{raycluster_namespace="team",diagnosis="cluster-not-created"}}': "1x70"},
            {f'{PROBLEMS}{{raycluster_namespace="team",diagnosis="host-missing"}}': "0x70"},
            {"raycluster_namespace": "team", "diagnosis": "cluster-not-created"},
        ),
    ),
    (
        "RayWebhookNobodyLeads",
        Case(
            {"ray_webhook_scheduling_enabled": "0x70", SERVE: "1x70"},
            CASES["RayWebhookNobodyLeads"].quiet,
        ),
    ),
    (
        "RayWebhookCallsFail",
        Case(
            {f'{FAILED_OPEN}{{{OURS},type="admit"}}': "0+1x70"},
            {f'{FAILED_OPEN}{{name="pods.example.com",type="admit"}}': "0+1x70"},
        ),
    ),
)
"""Other ways in which an alert fires: no controller at all, and calls that fail open."""


_WITH = re.compile(r"{{ with \$labels\.(\w+) }}(.*?){{ else }}(.*?){{ end }}")


def test_every_alert_has_a_case() -> None:
    assert CASES.keys() == RULES.keys()


def expected(name: str, labels: Mapping[str, str]) -> list[Object]:
    rule = RULES[name]

    def filled(text: str) -> str:
        text = _WITH.sub(
            lambda found: (
                found[2].replace("{{ . }}", labels[found[1]]) if found[1] in labels else found[3]
            ),
            text,
        )
        return re.sub(r"{{ \$labels\.(\w+) }}", lambda found: labels.get(found[1], ""), text)

    annotations = {key: filled(text) for key, text in rule["annotations"].items()}
    return [{"exp_labels": {**rule["labels"], **labels}, "exp_annotations": annotations}]


@pytest.mark.parametrize(("name", "case"), [*CASES.items(), *MORE])
def test_an_alert_fires_when_it_should_and_only_then(name: str, case: Case, tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(SPEC))
    tests = [
        {
            "interval": "1m",
            "input_series": [{"series": key, "values": text} for key, text in series.items()],
            "alert_rule_test": [{"eval_time": "1h", "alertname": name, "exp_alerts": alerts}],
        }
        for series, alerts in ((case.fires, expected(name, case.labels)), (case.quiet, []))
    ]
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "tests": tests}))
    promtool(tmp_path, "test", "rules", file.name)


def test_promtool_finds_nothing_wrong_with_the_rules(tmp_path: Path) -> None:
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(SPEC))
    promtool(tmp_path, "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml")


def promtool(folder: Path, *arguments: str) -> None:
    command = [str(binary("promtool")), *arguments]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", RULES)
def test_the_runbook_of_an_alert_is_a_section_of_a_page(name: str) -> None:
    annotations = RULES[name]["annotations"]
    assert annotations.keys() == {"summary", "description", "runbook_url"}
    url, _, anchor = annotations["runbook_url"].partition("#")
    page = url.removeprefix(f"{repository()}/blob/main/")
    headings = re.findall(r"^## (.+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert anchor == name.lower()
    assert name in headings
    assert len(headings) == len(RULES)
