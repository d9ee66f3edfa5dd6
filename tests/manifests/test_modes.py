"""The chart: its defaults, its parts, and the values that it refuses."""

import re
from pathlib import Path

import pytest
import yaml

from tests.manifests.environment import environment, settings_file, variables
from tests.manifests.render import (
    CHART,
    IMAGE,
    KUBE_VERSION,
    MODES,
    Object,
    by_identity,
    container_of,
    helm,
    installation,
    kustomize,
    objects_in,
    one,
    refusal,
    run,
    template,
    webhooks,
)
from webhook import __version__
from webhook.config.settings_file import API_VERSION, KIND
from webhook.config.sources import read_settings

pytestmark = pytest.mark.manifests


def test_the_defaults_pass_the_linter_of_helm_and_are_at_most_twenty_objects() -> None:
    linted = run("helm", "lint", "--strict", str(CHART), "--kube-version", KUBE_VERSION)
    assert "0 chart(s) failed" in linted.stdout
    objects = helm()
    assert len(objects) <= 20
    assert container_of(objects)["image"] == f"{IMAGE}:{__version__}"


@pytest.mark.parametrize("file", sorted((CHART / "ci").iterdir()), ids=lambda file: file.stem)
def test_the_values_for_chart_testing_render(file: Path) -> None:
    assert helm(flags=("--values", str(file)))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("value", "component", "roles"), [
    ("schedulingGroups.publish=true", "pod-groups", ["ClusterRole"]),
    ("computeDomains.enabled=true", "compute-domains", ["ClusterRole"]),
    ("repair.enabled=true", "repair", ["ClusterRole", "Role"]),
])  # fmt: skip
def test_a_component_adds_rules_and_a_setting_and_nothing_else(
    mode: str, value: str, component: str, roles: list[str]
) -> None:
    plain, more = by_identity(installation(mode)), by_identity(installation(mode, value))
    for deployment in ("ray-webhook", "ray-webhook-controller"):
        given = variables([*more.values()], deployment)
        assert given == variables([*plain.values()], deployment) | {
            "RAY_WEBHOOK_INSTALLATION__COMPONENTS": f"events,{component}"
        }
    assert {identity for identity, found in more.items() if found != plain.get(identity)} == {
        ("Deployment", "ray-webhook"),
        ("Deployment", "ray-webhook-controller"),
        *((role, "ray-webhook-controller") for role in roles),
    }
    for role in roles:
        before, after = (each[role, "ray-webhook-controller"]["rules"] for each in (plain, more))
        assert after[: len(before)] == before
        assert len(after) > len(before)


def test_the_monitoring_of_the_chart_is_that_of_the_manifests() -> None:
    parts = ("serviceMonitor", "prometheusRule", "dashboard.enabled")
    values = (f"monitoring.{part}=true" for part in parts)
    from_chart = by_identity(
        found
        for found in helm(*values)
        if found["apiVersion"].startswith("monitoring")
        or "dashboard" in found["metadata"]["name"]
        or (found["kind"], found["metadata"]["name"]) == ("Service", "ray-webhook-controller")
    )
    assert len(from_chart) == 4
    assert from_chart == by_identity(kustomize("manifests/monitoring"))


def test_where_the_chart_installs_no_controller_nobody_misses_one() -> None:
    objects = helm("monitoring.prometheusRule=true,controller.events=false")
    rule = one(objects, "PrometheusRule")
    whole = one(kustomize("manifests/monitoring"), "PrometheusRule")
    usual = whole["spec"]["groups"][0]["rules"]
    kept = [each for each in usual if each["alert"] != "RayWebhookNobodyLeads"]
    assert len(kept) == len(usual) - 1
    assert rule["spec"]["groups"][0]["rules"] == kept


POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


def test_every_object_of_a_namespace_names_it() -> None:
    cluster_wide = {"ClusterRole", "ClusterRoleBinding", *POLICIES}
    for mode in MODES:
        for found in installation(mode):
            if found["kind"] not in cluster_wide and "Webhook" not in found["kind"]:
                assert found["metadata"]["namespace"] == "ray-webhook", found["kind"]


def test_a_release_of_another_name_in_another_namespace_is_consistent(tmp_path: Path) -> None:
    objects = helm("certificates.source=self-signed", release="second", namespace="elsewhere")
    assert not [text for text in references(objects) if text in {"ray-webhook", "ray-webhook-tls"}]
    settings = environment(objects, "second-ray-webhook", tmp_path)
    named = settings["RAY_WEBHOOK_INSTALLATION__NAME"]
    assert f"{named}-tls" == one(objects, "Secret")["metadata"]["name"]
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for webhook in one(objects, kind)["webhooks"]:
            assert webhook["clientConfig"]["service"]["namespace"] == "elsewhere"
            assert "elsewhere" in str(webhook["namespaceSelector"])


def references(objects: list[Object]) -> list[str]:
    found = []
    for item in objects:
        found += [item["metadata"]["name"], item.get("roleRef", {}).get("name", "")]
        found += [subject["name"] for subject in item.get("subjects", ())]
        found += [
            webhook["clientConfig"]["service"]["name"] for webhook in item.get("webhooks", ())
        ]
        found += [name for rule in item.get("rules", ()) for name in rule.get("resourceNames", ())]
    return found


@pytest.mark.parametrize(("flag", "complaint"), [
    ("certificates.source=acme", "certificates/source"),
    ("mutating.failurePolicy=Maybe", "mutating/failurePolicy"),
    ("mutating.timeoutSeconds=31", "mutating/timeoutSeconds"),
    ("replicas=0", "replicas"),
    ("config.tls.source=files", "config/tls"),
    ("config.serving.port=1", "config/serving"),
    ("config.installation.components={repair}", "config"),
    ("config.serving.drainSeconds=601", "config/serving/drainSeconds"),
    ("config.log.admissions=some", "config/log/admissions"),
    ("config.validation.levels.tpu-topology-mismatch=loud", "levels/tpu-topology-mismatch"),
    ("config.surving.drainSeconds=1", "surving"),
    ("schedulingGroups.publish=maybe", "schedulingGroups/publish"),
    ("config.validation.levels.tpu-topology=off", "'tpu-topology' not allowed"),
    ("config.validation.gates.RayClusterMTL=true", "'RayClusterMTL' not allowed"),
    ("config.tls.clientNames={api}", "webhook/clientAuthorities"),
    ("certificates.issuerRef.name=ours", "certificates/issuerRef"),
    ("certificates.source=cert-manager,certificates.issuerRef.kind=Issuer", "issuerRef"),
    ("image.registry=", "set image.registry to the registry that has the image of ray-webhook"),
    ("image.repository=", "image/repository"),
    ("image.repository=null", "repository"),
    ("image.digest=latest", "image/digest"),
    ("config.serving.drainSeconds=25", "terminationGracePeriodSeconds is 30"),
    ("certificates.secretName=theirs", "secretName"),
    ("certificates.source=secret,certificates.secretName=theirs", "caBundle"),
    ("certificates.source=secret,certificates.caBundle=a", "secretName"),
    ("webhook.clientAuthorities.secret=a,webhook.clientAuthorities.configMap=b", "not both"),
    ("networkPolicy.reviewsFrom={everywhere}", "reviewsFrom"),
    ("service.ipFamilies={IPv5}", "ipFamilies"),
    ("probes.liveness.httpGet=x", "httpGet"),
    ("podDisruptionBudget.minAvailable=half", "podDisruptionBudget"),
    ("podAnnotations.checksum/settings=a", "podAnnotations"),
    ("nameOverride=Upper", "nameOverride"),
    (f"nameOverride={'n' * 64}", "nameOverride"),
    ("commonLabels.a=b c", "commonLabels/a"),
    ("monitoring.labels.a=-", "monitoring/labels/a"),
    ("nodeSelector.a=b c", "nodeSelector/a"),
    ("webhook.port=8080", "webhook.port and webhook.adminPort are both 8080"),
    ("resources.limits.memory=", "resources/limits/memory"),
    *[
        (f"{value}=null", f"missing property '{value.rpartition('.')[2]}'")
        for value in (
            "replicas", "webhook", "webhook.port", "validating.failurePolicy",
            "serviceAccount.create", "test.namespace", "config",
        )
    ],
])  # fmt: skip
def test_values_that_cannot_work_are_refused_by_name(flag: str, complaint: str) -> None:
    assert complaint in refusal(flag)


def test_every_image_can_be_in_another_registry() -> None:
    flags = "image.registry=,global.imageRegistry=mirror.example.com"
    everywhere = template("--set", flags).stdout
    assert set(re.findall(r"image: (.+)", everywhere)) == {
        f"mirror.example.com/ray-webhook:{__version__}"
    }


def test_namespaces_are_left_alone_and_selected_by_further_conditions() -> None:
    objects = helm(
        "ignoredNamespaces={a,b},namespaceSelector.matchLabels.team=ml",
        "namespaceSelector.matchExpressions[0].key=tier",
        "namespaceSelector.matchExpressions[0].operator=Exists",
    )
    for entry in webhooks(objects).values():
        selector = entry["namespaceSelector"]
        assert selector["matchLabels"] == {"team": "ml"}
        ignored, _, tier = selector["matchExpressions"]
        assert ignored["values"] == [
            "ray-webhook", "kube-system", "kube-public", "kube-node-lease", "a", "b",
        ]  # fmt: skip
        assert tier == {"key": "tier", "operator": "Exists"}


def test_every_pod_pulls_with_the_secrets_of_the_chart_and_of_all_charts() -> None:
    flags = "imagePullSecrets[0].name=own,global.imagePullSecrets[0].name=all"
    objects = objects_in(template("--set", flags).stdout)
    pods = [each["spec"]["template"] for each in objects if each["kind"] == "Deployment"]
    pods += [each for each in objects if each["kind"] == "Pod"]
    assert len(pods) == 3
    for found in pods:
        assert found["spec"]["imagePullSecrets"] == [{"name": "all"}, {"name": "own"}]


def test_settings_of_the_chart_reach_the_file() -> None:
    flags = "config.serving.drainSeconds=25,terminationGracePeriodSeconds=31"
    file = yaml.safe_load(settings_file(helm(f"{flags},config.namespaces={{a,b}}")))
    assert (file["apiVersion"], file["kind"]) == (API_VERSION, KIND)
    assert (file["serving"]["drainSeconds"], file["namespaces"]) == (25, ["a", "b"])


@pytest.mark.parametrize("written_as", ["off", "warn"])
def test_a_level_is_written_without_quotes(written_as: str, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(
        f"config: {{validation: {{levels: {{tpu-topology-mismatch: {written_as}}}}}}}"
    )
    file = tmp_path / "settings.yaml"
    file.write_text(settings_file(helm(flags=("--values", str(values)))))
    assert read_settings(["--config", str(file)]).validation.levels == {
        "tpu-topology-mismatch": written_as
    }
