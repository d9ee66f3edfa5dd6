"""The two ways to install, rendered twice: by kustomize and by Helm."""

import subprocess

import pytest

from tests.manifests.render import MODES, Object, by_identity, helm, kustomize, one, overlay, template, with_component


@pytest.mark.parametrize("mode", MODES)
def test_chart_and_overlay_give_the_same_objects(mode: str) -> None:
    from_chart = by_identity(helm("--set", f"certificates.source={mode}"))
    from_overlay = by_identity(overlay(mode))
    assert from_overlay.pop(("Namespace", "ray-webhook"))["kind"] == "Namespace"
    assert from_chart.keys() == from_overlay.keys()
    for identity, found in from_chart.items():
        assert found == from_overlay[identity], identity


@pytest.mark.parametrize("mode", MODES)
def test_the_resize_check_of_the_chart_is_that_of_the_component(mode: str) -> None:
    from_chart = by_identity(helm("--set", f"certificates.source={mode},resizeCheck.enabled=true"))
    from_overlay = by_identity(with_component(mode, "resize-check"))
    del from_overlay["Namespace", "ray-webhook"]
    assert from_chart == from_overlay


def test_a_resize_beyond_the_maxima_is_refused_where_the_values_say_so() -> None:
    data = one(helm("--set", "resizeCheck.enabled=true,resizeCheck.beyond=deny"), "ConfigMap")["data"]
    assert data["RAY_WEBHOOK_RESIZE__BEYOND"] == "deny"
    assert "RAY_WEBHOOK_RESIZE__BEYOND" not in one(helm(), "ConfigMap")["data"]


@pytest.mark.parametrize("mode", MODES)
def test_scheduling_groups_of_the_chart_are_those_of_the_component(mode: str) -> None:
    from_chart = by_identity(helm("--set", f"certificates.source={mode},schedulingGroups.publish=true"))
    from_overlay = by_identity(with_component(mode, "scheduling-groups"))
    del from_overlay["Namespace", "ray-webhook"]
    assert from_chart == from_overlay
    assert one(from_chart.values(), "ConfigMap")["data"]["RAY_WEBHOOK_SCHEDULING__PUBLISH"] == "true"
    plain = by_identity(overlay(mode))
    assert from_overlay.keys() - plain.keys() == {
        ("ClusterRole", "ray-webhook-scheduling-groups"),
        ("ClusterRoleBinding", "ray-webhook-scheduling-groups"),
        *((kind, "ray-webhook-controller") for kind in CONTROLLER),
    }
    unchanged = {identity: found for identity, found in plain.items() if identity[0] not in {"ConfigMap", "Namespace"}}
    assert {identity: from_overlay[identity] for identity in unchanged} == unchanged


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
    flags = ("--set", "monitoring.serviceMonitor=true,monitoring.prometheusRule=true")
    from_chart = by_identity(found for found in helm(*flags) if found["apiVersion"].startswith("monitoring"))
    assert from_chart == by_identity(kustomize("manifests/monitoring"))


def test_every_object_of_a_namespace_names_it() -> None:
    cluster_wide = {"Namespace", "ClusterRole", "ClusterRoleBinding", "PriorityClass", "FlowSchema"}
    for mode in MODES:
        for found in overlay(mode):
            if found["kind"] not in cluster_wide and "Webhook" not in found["kind"]:
                assert found["metadata"]["namespace"] == "ray-webhook", found["kind"]


def test_a_release_of_another_name_in_another_namespace_is_consistent() -> None:
    objects = helm("--set", "certificates.source=self-signed,resizeCheck.enabled=true", release="second", namespace="elsewhere")
    assert not [text for text in references(objects) if text in {"ray-webhook", "ray-webhook-tls"}]
    settings = one(objects, "ConfigMap")["data"]
    assert settings["RAY_WEBHOOK_TLS__SELF_SIGNED__NAMESPACE"] == "elsewhere"
    assert settings["RAY_WEBHOOK_TLS__SELF_SIGNED__SECRET"] == one(objects, "Secret")["metadata"]["name"]
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
        found += [webhook["clientConfig"]["service"]["name"] for webhook in item.get("webhooks", ())]
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
        ("settings.RAY_WEBHOOK_RESIZE__BEYOND=deny", "RAY_WEBHOOK_RESIZE__BEYOND"),
        ("settings.RAY_WEBHOOK_TLS__SOURCE=files", "RAY_WEBHOOK_TLS__SOURCE"),
        ("settings.RAY_WEBHOOK_SERVING__PORT=1", "RAY_WEBHOOK_SERVING__PORT"),
        ("settings.RAY_WEBHOOK_SCHEDULING__PUBLISH=true", "RAY_WEBHOOK_SCHEDULING__PUBLISH"),
        ("schedulingGroups.publish=maybe", "schedulingGroups/publish"),
        ("settings.OTHER=x", "OTHER"),
    ],
)
def test_values_that_cannot_work_are_refused_by_name(flag: str, complaint: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as refusal:
        template("--set-string" if "settings." in flag else "--set", flag)
    assert complaint in refusal.value.stderr


def test_values_reach_the_objects() -> None:
    flags = "image.tag=v9,mutating.failurePolicy=Ignore,ignoredNamespaces={a,b},networkPolicy.enabled=false,priorityClassName=high"
    objects = helm("--set", f"{flags},schedulingGroups.publish=true")
    for name in ("ray-webhook", "ray-webhook-controller"):
        pod = one(objects, "Deployment", name)["spec"]["template"]["spec"]
        assert pod["containers"][0]["image"] == "ray-webhook:v9"
        assert pod["priorityClassName"] == "high"
    for webhook in one(objects, "MutatingWebhookConfiguration")["webhooks"]:
        assert webhook["failurePolicy"] == "Ignore"
        assert webhook["namespaceSelector"]["matchExpressions"][0]["values"] == ["ray-webhook", "kube-system", "a", "b"]
    assert not {"NetworkPolicy", "PriorityClass"} & {found["kind"] for found in objects}
