"""The two ways to install, rendered twice: by kustomize and by Helm."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.manifests import chart_schema
from tests.manifests.environment import config_map, environment
from tests.manifests.render import (
    IMAGE,
    MODES,
    Object,
    by_identity,
    helm,
    kustomize,
    one,
    overlay,
    own_overlay,
    template,
    with_component,
)
from webhook.settings import read_settings


@pytest.mark.parametrize("mode", MODES)
def test_chart_and_overlay_give_the_same_objects(mode: str) -> None:
    from_chart = by_identity(helm("--set", f"certificates.source={mode}"))
    from_overlay = by_identity(overlay(mode))
    assert from_overlay.pop(("Namespace", "ray-webhook"))["kind"] == "Namespace"
    assert from_chart.keys() == from_overlay.keys()
    for identity, found in from_chart.items():
        assert found == from_overlay[identity], identity


@pytest.mark.parametrize("way", ["overlay", "chart"])
def test_pods_of_the_priority_class_which_any_tenant_may_name_preempt_no_others(way: str) -> None:
    objects = overlay("cert-manager") if way == "overlay" else helm()
    assert one(objects, "PriorityClass", "ray-webhook")["preemptionPolicy"] == "Never"


@pytest.mark.parametrize("mode", MODES)
def test_the_resize_check_of_the_chart_is_that_of_the_component(mode: str) -> None:
    from_chart = by_identity(helm("--set", f"certificates.source={mode},resizeCheck.enabled=true"))
    from_overlay = by_identity(with_component(mode, "resize-check"))
    del from_overlay["Namespace", "ray-webhook"]
    assert from_chart == from_overlay


def test_a_resize_beyond_the_maxima_is_refused_where_the_values_say_so() -> None:
    data = config_map(
        helm("--set", "resizeCheck.enabled=true,resizeCheck.beyond=deny"), "components"
    )["data"]
    assert data["RAY_WEBHOOK_RESIZE__BEYOND"] == "deny"
    assert "RAY_WEBHOOK_RESIZE__BEYOND" not in config_map(helm(), "components")["data"]


@pytest.mark.parametrize("mode", MODES)
def test_scheduling_groups_of_the_chart_are_those_of_the_component(mode: str) -> None:
    from_chart = by_identity(
        helm("--set", f"certificates.source={mode},schedulingGroups.publish=true")
    )
    from_overlay = by_identity(with_component(mode, "scheduling-groups"))
    del from_overlay["Namespace", "ray-webhook"]
    assert from_chart == from_overlay
    assert (
        config_map([*from_chart.values()], "components")["data"]["RAY_WEBHOOK_SCHEDULING__PUBLISH"]
        == "true"
    )
    plain = by_identity(overlay(mode))
    assert from_overlay.keys() - plain.keys() == {
        ("ClusterRole", "ray-webhook-scheduling-groups"),
        ("ClusterRoleBinding", "ray-webhook-scheduling-groups"),
    }
    assert {(kind, "ray-webhook-controller") for kind in CONTROLLER} <= plain.keys()
    unchanged = {
        identity: found
        for identity, found in plain.items()
        if identity[0] not in {"ConfigMap", "Namespace"}
    }
    assert {identity: from_overlay[identity] for identity in unchanged} == unchanged


@pytest.mark.parametrize("mode", MODES)
def test_repair_of_the_chart_is_that_of_the_component(mode: str) -> None:
    from_chart = by_identity(helm("--set", f"certificates.source={mode},repair.enabled=true"))
    from_overlay = by_identity(with_component(mode, "repair"))
    del from_overlay["Namespace", "ray-webhook"]
    assert from_chart == from_overlay
    assert (
        config_map([*from_chart.values()], "components")["data"]["RAY_WEBHOOK_REPAIR__ENABLED"]
        == "true"
    )
    plain = by_identity(overlay(mode))
    assert from_overlay.keys() - plain.keys() == {
        (kind, "ray-webhook-repair")
        for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
    }


@pytest.mark.parametrize("mode", MODES)
def test_the_dashboard_of_the_chart_is_that_of_the_component(mode: str) -> None:
    from_chart = by_identity(helm("--set", f"certificates.source={mode},dashboard.enabled=true"))
    from_overlay = by_identity(with_component(mode, "dashboard"))
    del from_overlay["Namespace", "ray-webhook"]
    assert from_chart == from_overlay
    plain = by_identity(overlay(mode))
    assert from_overlay.keys() - plain.keys() == {
        (kind, "ray-webhook-dashboard")
        for kind in CONTROLLER
        if kind not in {"Role", "RoleBinding"}
    }


CONTROLLER = (
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Deployment",
    "Service",
    "NetworkPolicy",
)
"""What the process that writes to the cluster is made of, once."""


def test_the_monitoring_of_the_chart_is_that_of_the_manifests() -> None:
    parts = ("serviceMonitor", "prometheusRule", "dashboard.enabled")
    flags = ("--set", ",".join(f"monitoring.{part}=true" for part in parts))
    from_chart = by_identity(
        found
        for found in helm(*flags)
        if found["apiVersion"].startswith("monitoring") or "dashboard" in found["metadata"]["name"]
    )
    assert len(from_chart) == 3
    assert from_chart == by_identity(kustomize("manifests/monitoring"))


def test_where_the_chart_installs_no_controller_nobody_misses_one() -> None:
    flags = ("--set", "monitoring.prometheusRule=true,controller.events=false")
    (rule,) = (each for each in helm(*flags) if each["kind"] == "PrometheusRule")
    (whole,) = (
        each for each in kustomize("manifests/monitoring") if each["kind"] == "PrometheusRule"
    )
    usual = whole["spec"]["groups"][0]["rules"]
    kept = [each for each in usual if each["alert"] != "RayWebhookNobodyLeads"]
    assert len(kept) == len(usual) - 1
    assert rule["spec"]["groups"][0]["rules"] == kept


POLICIES = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


def test_every_object_of_a_namespace_names_it() -> None:
    cluster_wide = {
        "Namespace",
        "ClusterRole",
        "ClusterRoleBinding",
        "PriorityClass",
        "FlowSchema",
        *POLICIES,
    }
    for mode in MODES:
        for found in overlay(mode):
            if found["kind"] not in cluster_wide and "Webhook" not in found["kind"]:
                assert found["metadata"]["namespace"] == "ray-webhook", found["kind"]


def test_a_release_of_another_name_in_another_namespace_is_consistent(tmp_path: Path) -> None:
    objects = helm(
        "--set",
        "certificates.source=self-signed,resizeCheck.enabled=true",
        release="second",
        namespace="elsewhere",
    )
    assert not [text for text in references(objects) if text in {"ray-webhook", "ray-webhook-tls"}]
    settings = environment(objects, "second-ray-webhook", tmp_path)
    named = settings["RAY_WEBHOOK_INSTALLATION__NAME"]
    assert f"{named}-tls" == one(objects, "Secret")["metadata"]["name"]
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        for webhook in one(objects, kind)["webhooks"]:
            assert webhook["clientConfig"]["service"]["namespace"] == "elsewhere"
            assert "elsewhere" in webhook["namespaceSelector"]["matchExpressions"][0]["values"]


def references(objects: list[Object]) -> list[str]:
    """Return the names by which objects refer to others."""
    found = []
    for item in objects:
        found += [item["metadata"]["name"], item.get("roleRef", {}).get("name", "")]
        found += [subject["name"] for subject in item.get("subjects", ())]
        found += [
            webhook["clientConfig"]["service"]["name"] for webhook in item.get("webhooks", ())
        ]
        found += [name for rule in item.get("rules", ()) for name in rule.get("resourceNames", ())]
    return found


@pytest.mark.parametrize(
    ("flag", "complaint"),
    [
        ("certificates.source=acme", "certificates/source"),
        ("mutating.failurePolicy=Maybe", "mutating/failurePolicy"),
        ("mutating.timeoutSeconds=31", "mutating/timeoutSeconds"),
        ("replicas=0", "replicas"),
        ("resizeCheck.beyond=refuse", "resizeCheck/beyond"),
        ("config.resize.beyond=deny", "config/resize"),
        ("config.tls.source=files", "config/tls"),
        ("config.serving.port=1", "config/serving"),
        ("config.scheduling.publish=true", "config/scheduling"),
        ("config.serving.drain_seconds=601", "config/serving/drain_seconds"),
        ("config.log.admissions=some", "config/log/admissions"),
        (
            "config.validation.levels.tpu-topology-mismatch=loud",
            "config/validation/levels/tpu-topology-mismatch",
        ),
        ("config.surving.drain_seconds=1", "surving"),
        ("schedulingGroups.publish=maybe", "schedulingGroups/publish"),
        ("dashboard.enabled=maybe", "dashboard/enabled"),
        ("config.dashboard.port=1", "config/dashboard"),
        ("image.repository=", "image/repository"),
        ("image.digest=latest", "image/digest"),
    ],
)
def test_values_that_cannot_work_are_refused_by_name(flag: str, complaint: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        template("--set", flag)
    assert complaint in refusal.value.stderr


def test_values_reach_the_objects() -> None:
    flags = (
        "image.tag=v9,mutating.failurePolicy=Ignore,ignoredNamespaces={a,b},"
        "networkPolicy.enabled=false,priorityClassName=high"
    )
    objects = helm("--set", f"{flags},schedulingGroups.publish=true")
    for name in ("ray-webhook", "ray-webhook-controller"):
        pod = one(objects, "Deployment", name)["spec"]["template"]["spec"]
        assert pod["containers"][0]["image"] == f"{IMAGE}:v9"
        assert pod["priorityClassName"] == "high"
    for webhook in one(objects, "MutatingWebhookConfiguration")["webhooks"]:
        assert webhook["failurePolicy"] == "Ignore"
        assert webhook["namespaceSelector"]["matchExpressions"][0]["values"] == [
            "ray-webhook",
            "kube-system",
            "a",
            "b",
        ]
    assert not {"NetworkPolicy", "PriorityClass"} & {found["kind"] for found in objects}


def test_the_image_has_to_be_named_and_may_have_a_registry_and_a_digest() -> None:
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        template("--set", "image.repository=null")
    assert "repository" in refusal.value.stderr
    digest = f"sha256:{'0' * 64}"
    flags = (
        "image.registry=registry.example.com,image.repository=tools/ray-webhook,"
        f"image.digest={digest}"
    )
    (container,) = one(helm("--set", flags), "Deployment", "ray-webhook")["spec"]["template"][
        "spec"
    ]["containers"]
    assert container["image"] == f"registry.example.com/tools/ray-webhook@{digest}"


def test_the_schema_of_the_chart_is_that_of_the_settings() -> None:
    found = json.loads(chart_schema.FILE.read_text())["properties"]["config"]
    assert found == chart_schema.config(), "run `python -m tests.manifests.chart_schema`"


def test_settings_of_the_chart_reach_the_file() -> None:
    flags = (
        "config.serving.drain_seconds=20,config.namespaces={a,b},"
        "config.validation.levels.tpu-topology-mismatch=warn"
    )
    file = yaml.safe_load(config_map(helm("--set", flags), "settings")["data"]["settings.yaml"])
    assert (file["apiVersion"], file["kind"]) == ("config.admission.ray.io/v1alpha1", "Settings")
    assert file["serving"]["drain_seconds"] == 20
    assert file["namespaces"] == ["a", "b"]
    assert file["validation"] == {"levels": {"tpu-topology-mismatch": "warn"}}


@pytest.mark.parametrize("written_as", ["off", "warn"])
def test_a_level_is_written_without_quotes(written_as: str, tmp_path: Path) -> None:
    values = tmp_path / "values.yaml"
    values.write_text(
        f"config: {{validation: {{levels: {{tpu-topology-mismatch: {written_as}}}}}}}"
    )
    file = tmp_path / "settings.yaml"
    file.write_text(config_map(helm("--values", str(values)), "settings")["data"]["settings.yaml"])
    assert read_settings(["--file", str(file)]).validation.levels == {
        "tpu-topology-mismatch": written_as
    }


def test_the_chart_fails_closed_like_the_component() -> None:
    for mode in MODES:
        from_chart = by_identity(
            helm("--set", f"certificates.source={mode},mutating.failurePolicy=Fail")
        )
        from_overlay = by_identity(own_overlay(mode, ["fail-closed"]))
        del from_overlay["Namespace", "ray-webhook"]
        assert from_chart == from_overlay


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "fields",
    [
        {"namespace": "elsewhere"},
        {"namePrefix": "team-"},
        {"namespace": "elsewhere", "namePrefix": "team-"},
    ],
)
@pytest.mark.parametrize("part", ["scheduling-groups", "repair"])
def test_another_namespace_or_prefix_in_an_overlay_reaches_everything_that_names_the_old_one(
    mode: str, fields: dict[str, str], part: str
) -> None:
    components = ["fail-closed", "resize-check", part, "dashboard"]
    transformers = [f"names/{mode}", f"names/{part}", "names/dashboard"]
    objects = own_overlay(mode, components, transformers=transformers, **fields)
    # This policy is applied by itself, as it is.
    texts = {text for found in objects for text in strings(found)} - {"ray-webhook-seat-labels"}
    prefix, namespace = fields.get("namePrefix", ""), fields.get("namespace", "ray-webhook")
    if namespace != "ray-webhook":
        assert [
            text for text in texts if ".ray-webhook." in text or text.startswith("ray-webhook/")
        ] == []
    if prefix and namespace != "ray-webhook":
        assert [
            text for text in texts if "ray-webhook" in text.replace(f"{prefix}ray-webhook", "")
        ] == []
    names = [
        f"{prefix}ray-webhook.{namespace}.svc",
        f"{prefix}ray-webhook.{namespace}.svc.cluster.local",
    ]
    if mode == "cert-manager":
        assert one(objects, "Certificate", f"{prefix}ray-webhook-tls")["spec"]["dnsNames"] == names
    accounts = {
        (found["metadata"]["namespace"], found["metadata"]["name"])
        for found in objects
        if found["kind"] == "ServiceAccount"
    }
    for found in objects:
        assert found["metadata"].get("namespace", namespace) == namespace
        for subject in found.get("subjects", ()):
            assert (subject["namespace"], subject["name"]) in accounts
        for webhook in found.get("webhooks", ()):
            service = webhook["clientConfig"]["service"]
            assert (service["namespace"], service["name"]) == (namespace, f"{prefix}ray-webhook")
            assert webhook["namespaceSelector"]["matchExpressions"][0]["values"] == [
                namespace,
                "kube-system",
            ]
            if mode == "cert-manager":
                annotation = found["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
                assert annotation == f"{namespace}/{prefix}ray-webhook-tls"
    assert one(objects, "Namespace")["metadata"]["name"] == namespace


def strings(value: object) -> list[str]:
    """Return every text in an object but labels and selectors, names of containers and images, and
    paths of files.
    """
    if isinstance(value, dict):
        left_out = {"labels", "matchLabels", "selector", "image", "mountPath", "data"}
        return [
            text
            for key, each in value.items()
            if key not in left_out and not (key == "name" and "image" in value)
            for text in strings(each)
        ]
    if isinstance(value, list):
        return [text for each in value for text in strings(each)]
    return [value] if isinstance(value, str) else []
