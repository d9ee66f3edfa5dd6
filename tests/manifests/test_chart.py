"""The chart: its defaults, its parts, the effect of its values, and the values that it refuses."""

import base64
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import ROOT
from tests.manifests.render import (
    CHART,
    IMAGE,
    KUBE_VERSION,
    MODES,
    REGISTRY,
    Object,
    by_identity,
    container_of,
    environment,
    helm,
    installation,
    kustomize,
    labels_of,
    mounted,
    objects_in,
    one,
    pod_of,
    refusal,
    run,
    settings_file,
    template,
    variables,
    webhooks,
)
from webhook import __version__
from webhook.config.settings_file import API_VERSION, KIND
from webhook.config.sources import read_settings

pytestmark = pytest.mark.manifests

SERVE = "Deployment/ray-webhook"
POD = f"{SERVE}/spec/template/spec"
MAIN = f"{POD}/containers/ray-webhook"
CONTROLLER = "Deployment/ray-webhook-controller"
SECOND = f"{CONTROLLER}/spec/template/spec"
SIDE = f"{SECOND}/containers/ray-webhook-controller"
SERVICE = "Service/ray-webhook"
MUTATING = "MutatingWebhookConfiguration/ray-webhook/metadata/annotations"
VALIDATING = "ValidatingWebhookConfiguration/ray-webhook/metadata/annotations"
BUDGET = "PodDisruptionBudget/ray-webhook/spec"
LINUX = {"kubernetes.io/os": "linux"}
DIGEST = f"sha256:{'0' * 64}"
PORTS = "webhook.port=9443,webhook.adminPort=9090,webhook.hostNetwork=true"
PROBE = "probes.liveness.periodSeconds=30"
FAMILIES = "service.ipFamilyPolicy=PreferDualStack,service.ipFamilies={IPv6,IPv4}"
OWN = "controller.extraEnv[0].name=MINE,controller.extraEnv[0].value=a"
LABELS = "commonLabels.a=b,podLabels.a=c,monitoring.labels.a=d,monitoring.serviceMonitor=true"
SYNC_WAVE, INJECT = "argocd.argoproj.io/sync-wave", "cert-manager.io/inject-ca-from"
ISSUED = (
    "certificates.source=cert-manager,certificates.issuerRef.name=theirs,"
    "certificates.issuerRef.group=cert-manager.io,certificates.issuerRef.kind=ClusterIssuer"
)
WAVE = r"certificates.source=cert-manager,mutating.annotations.argocd\.argoproj\.io/sync-wave=x"


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


def test_every_object_of_a_namespace_names_it() -> None:
    policies = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    cluster_wide = {"ClusterRole", "ClusterRoleBinding", *policies}
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


@pytest.mark.parametrize(
    ("values", "field", "expected"),
    [
        (PORTS, f"{MAIN}/ports/https/containerPort", 9443),
        (PORTS, f"{MAIN}/ports/admin/containerPort", 9090),
        (PORTS, f"{MAIN}/env/RAY_WEBHOOK_SERVING__PORT/value", "9443"),
        (PORTS, f"{MAIN}/env/RAY_WEBHOOK_LISTEN__ADMIN_PORT/value", "9090"),
        (PORTS, f"{POD}/hostNetwork", True),
        (PORTS, f"{POD}/dnsPolicy", "ClusterFirstWithHostNet"),
        ("", f"{MAIN}/env/RAY_WEBHOOK_SERVING__PORT", None),
        ("", f"{POD}/dnsPolicy", None),
        ("", f"{POD}/volumes/clients", None),
        ("", f"{POD}/nodeSelector", LINUX),
        ("", f"{SERVICE}/spec/ipFamilyPolicy", None),
        ("", f"{SERVICE}/spec/ipFamilies", None),
        (FAMILIES, f"{SERVICE}/spec/ipFamilyPolicy", "PreferDualStack"),
        (FAMILIES, f"{SERVICE}/spec/ipFamilies", ["IPv6", "IPv4"]),
        (PROBE, f"{MAIN}/livenessProbe/periodSeconds", 30),
        (PROBE, f"{MAIN}/livenessProbe/failureThreshold", 3),
        (PROBE, f"{MAIN}/livenessProbe/httpGet", {"path": "/livez", "port": "admin"}),
        (OWN, f"{SIDE}/env/MINE/value", "a"),
        (OWN, f"{MAIN}/env/MINE", None),
        ("controller.extraArgs={--a=b}", f"{SIDE}/args", ["controller", "--a=b"]),
        ("controller.annotations.b=c", f"{CONTROLLER}/metadata/annotations", {"b": "c"}),
        ("controller.nodeSelector.a=b", f"{SECOND}/nodeSelector", LINUX | {"a": "b"}),
        ("controller.nodeSelector.a=b", f"{POD}/nodeSelector", LINUX),
        ("strategy.type=Recreate", f"{SERVE}/spec/strategy", {"type": "Recreate"}),
        ("runtimeClassName=gvisor", f"{POD}/runtimeClassName", "gvisor"),
        ("runtimeClassName=gvisor", f"{SECOND}/runtimeClassName", "gvisor"),
        ("priorityClassName=high", f"{POD}/priorityClassName", "high"),
        ("priorityClassName=high", f"{SECOND}/priorityClassName", "high"),
        ("image.tag=v9", f"{MAIN}/image", f"{IMAGE}:v9"),
        ("image.tag=v9", f"{SIDE}/image", f"{IMAGE}:v9"),
        (
            f"image.repository=a/b,image.digest={DIGEST}",
            f"{MAIN}/image",
            f"{REGISTRY}/a/b@{DIGEST}",
        ),
        ("podDisruptionBudget.minAvailable=50%", f"{BUDGET}/minAvailable", "50%"),
        ("podDisruptionBudget.minAvailable=50%", f"{BUDGET}/maxUnavailable", None),
        ("annotations.a=b", f"{SERVE}/metadata/annotations/a", "b"),
        ("service.annotations.a=b", f"{SERVICE}/metadata/annotations/a", "b"),
        ("mutating.annotations.a=b", f"{MUTATING}/a", "b"),
        ("validating.annotations.a=b", f"{VALIDATING}/a", "b"),
        (LABELS, f"{SERVE}/spec/template/metadata/labels/a", "c"),
        (LABELS, "ServiceMonitor/ray-webhook/metadata/labels/a", "d"),
        (LABELS, f"{SERVICE}/metadata/labels/a", "b"),
        (ISSUED, "Certificate/ray-webhook-tls/spec/issuerRef/name", "theirs"),
        (ISSUED, "Certificate/ray-webhook-tls/spec/issuerRef/kind", "ClusterIssuer"),
        (ISSUED, "Issuer", None),
        (WAVE, MUTATING, {SYNC_WAVE: "x", INJECT: "ray-webhook/ray-webhook-tls"}),
        ("networkPolicy.enabled=false", "NetworkPolicy", None),
        ("priorityClassName=high", "PriorityClass", None),
        ("podDisruptionBudget.enabled=false", "PodDisruptionBudget", None),
        ("flowSchema.enabled=true", "FlowSchema/ray-webhook/kind", "FlowSchema"),
    ],
)
def test_a_value_is_in_a_field(values: str, field: str, expected: object) -> None:
    found: Any = {}
    for each in helm(values):
        found.setdefault(each["kind"], {})[each["metadata"]["name"]] = each
    for word in field.split("/"):
        if isinstance(found, list):
            found = {item["name"]: item for item in found}
        found = found.get(word) if found is not None else None
    assert found == expected


def test_names_and_labels_can_be_your_own() -> None:
    names = "fullnameOverride=gate,commonLabels.team=ml,podLabels.tier=edge"
    objects = helm(names, "schedulingGroups.publish=true")
    assert {found["metadata"]["name"].partition("-")[0] for found in objects} == {"gate"}
    for found in objects:
        labels = found["metadata"]["labels"]
        assert labels["team"] == "ml"
        assert labels["app.kubernetes.io/version"] == __version__
        assert labels["helm.sh/chart"] == f"ray-webhook-{__version__}"
    for name in ("gate", "gate-controller"):
        labels = labels_of(objects, name)
        assert (labels["team"], labels["tier"]) == ("ml", "edge")
        assert "team" not in one(objects, "Deployment", name)["spec"]["selector"]["matchLabels"]
    assert one(helm("nameOverride=gate", release="x"), "Deployment", "x-gate")


def test_the_account_can_be_one_that_exists() -> None:
    objects = helm("serviceAccount.create=false,serviceAccount.name=theirs")
    accounts = [found["metadata"]["name"] for found in objects if found["kind"] == "ServiceAccount"]
    assert accounts == ["ray-webhook-controller"]
    assert pod_of(objects)["serviceAccountName"] == "theirs"
    assert {subject["name"] for found in objects for subject in found.get("subjects", ())} == {
        "theirs",
        "ray-webhook-controller",
    }


def test_a_trial_looks_after_namespaces_that_ask_for_it() -> None:
    objects = helm("optIn.enabled=true")
    asked = {"key": "admission.ray.io/enabled", "operator": "In", "values": ["true"]}
    entries = webhooks(objects)
    assert len(entries) == 4
    for entry in entries.values():
        assert asked in entry["namespaceSelector"]["matchExpressions"]


@pytest.mark.parametrize("mode", MODES)
def test_flags_variables_volumes_and_objects_can_be_added(mode: str) -> None:
    extra = {
        "extraArgs": ["--log.admissions=denied"],
        "extraEnv": [{"name": "MINE", "value": "1"}],
        "extraVolumes": [{"name": "mine", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "mine", "mountPath": "/mine"}],
        "extraObjects": [
            {
                "apiVersion": "v1",
                "kind": "LimitRange",
                "metadata": {"name": "{{ .Release.Name }}-mine"},
            }
        ],
        "topologySpreadConstraints": [
            {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
        ],
        "terminationGracePeriodSeconds": 60,
    }
    flags = [
        word
        for key, value in extra.items()
        for word in ("--set-json", f"{key}={json.dumps(value)}")
    ]
    objects = helm(f"certificates.source={mode}", flags=flags)
    container = container_of(objects)
    assert container["args"] == ["serve", "--log.admissions=denied"]
    assert {"name": "MINE", "value": "1"} in container["env"]
    assert {"name": "mine", "mountPath": "/mine"} in container["volumeMounts"]
    assert {"name": "mine", "emptyDir": {}} in pod_of(objects)["volumes"]
    assert one(objects, "LimitRange")["metadata"]["name"] == "ray-webhook-mine"
    assert pod_of(objects)["topologySpreadConstraints"] == extra["topologySpreadConstraints"]
    assert pod_of(objects)["terminationGracePeriodSeconds"] == 60


def test_a_secret_of_your_own_has_the_certificate_and_no_account_may_write_another(
    tmp_path: Path,
) -> None:
    authority = tmp_path / "ca.crt"
    authority.write_text("-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n")
    values = ("certificates.secretName=theirs", "evictions.enabled=true", "nodeLabels={zone}")
    bundle = ("--set-file", f"certificates.caBundle={authority}")
    objects = helm("certificates.source=secret", *values, flags=bundle)
    _, volume = mounted(objects, "tls", "ray-webhook")
    assert volume["secret"]["secretName"] == "theirs"
    assert "RAY_WEBHOOK_TLS__SOURCE" not in variables(objects)
    kinds = {found["kind"] for found in objects}
    assert not kinds & {"Secret", "Certificate", "Issuer"}
    resources = {
        resource
        for found in objects
        if found["kind"] in {"Role", "ClusterRole"} and found["metadata"]["name"] == "ray-webhook"
        for rule in found["rules"]
        for resource in rule["resources"]
    }
    assert not resources & {"secrets", "mutatingwebhookconfigurations"}
    for entry in webhooks(objects).values():
        given = base64.b64decode(entry["clientConfig"]["caBundle"])
        assert given == authority.read_bytes()


@pytest.mark.parametrize("kind", ["configMap", "secret"])
def test_authorities_of_clients_are_mounted_where_the_setting_says(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = f"webhook.clientAuthorities.{kind}=theirs,config.tls.clientNames={{api}}"
    objects = helm(flags)
    mount, volume = mounted(objects, "clients", "ray-webhook")
    held = volume[kind]
    assert held.get("name", held.get("secretName")) == "theirs"
    for name, value in environment(objects, "ray-webhook", tmp_path).items():
        monkeypatch.setenv(name, value)
    tls = read_settings([]).tls
    assert str(tls.client_ca) == f"{mount['mountPath']}/{held['items'][0]['path']}"
    assert tls.client_names == ["api"]


def test_reviews_come_from_everywhere_or_from_the_addresses_that_are_named() -> None:
    for blocks in ([], ["172.16.0.0/28", "fd00::/108"]):
        given = json.dumps({"enabled": True, "reviewsFrom": blocks})
        flags = ("--set-json", f"networkPolicy={given}")
        policy = one(helm(flags=flags), "NetworkPolicy", "ray-webhook")
        (reviews,) = (
            rule for rule in policy["spec"]["ingress"] if rule["ports"] == [{"port": "https"}]
        )
        assert [each["ipBlock"]["cidr"] for each in reviews.get("from", ())] == blocks


def test_monitoring_stacks_find_what_is_theirs() -> None:
    flags = (
        "serviceMonitor=true,prometheusRule=true,labels.release=prom,interval=30s,"
        "podMonitoring=true,dashboard.enabled=true"
    )
    objects = helm(*(f"monitoring.{flag}" for flag in flags.split(",")))
    for kind in ("ServiceMonitor", "PrometheusRule"):
        assert one(objects, kind)["metadata"]["labels"]["release"] == "prom"
    for kind in ("ServiceMonitor", "PodMonitoring"):
        assert one(objects, kind)["spec"]["endpoints"][0]["interval"] == "30s"
    labels = labels_of(objects)
    selector = one(objects, "PodMonitoring")["spec"]["selector"]
    assert selector["matchLabels"].items() <= labels.items()
    (components,) = selector["matchExpressions"]
    assert components["values"] == [
        labels_of(objects, name)[components["key"]]
        for name in ("ray-webhook", "ray-webhook-controller")
    ]
    runbooks = [
        rule["annotations"]["runbook_url"]
        for rule in one(objects, "PrometheusRule")["spec"]["groups"][0]["rules"]
    ]
    assert all(url.startswith("https://git.example.com/ray-webhook/blob/main/") for url in runbooks)
    dashboard = one(objects, "ConfigMap", "ray-webhook-dashboard")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    shipped = (ROOT / "manifests" / "monitoring" / "dashboard.json").read_text()
    assert json.loads(dashboard["data"]["ray-webhook.json"]) == json.loads(shipped)


def test_helm_test_checks_from_a_namespace_that_is_looked_after_with_rights_that_do_not_last() -> (
    None
):
    shown = template("--set", "test.namespace=team", "--show-only", "templates/test.yaml").stdout
    objects = objects_in(shown)
    assert {found["metadata"]["annotations"]["helm.sh/hook"] for found in objects} == {"test"}
    policies = {
        found["kind"]: found["metadata"]["annotations"]["helm.sh/hook-delete-policy"]
        for found in objects
    }
    assert policies == {
        "List": "before-hook-creation,hook-succeeded",
        "Pod": "before-hook-creation",
    }
    pod, rights = one(objects, "Pod"), one(objects, "List")
    assert pod["metadata"]["name"] == rights["metadata"]["name"], (
        "Helm 3 reads the log of a pod for each hook of a test"
    )
    account = one(rights["items"], "ServiceAccount")
    assert pod["spec"]["serviceAccountName"] == account["metadata"]["name"]
    (container,) = pod["spec"]["containers"]
    assert container["args"][-2:] == ["--namespace", "team"]
    service = one(helm(), "Service", "ray-webhook")["spec"]["selector"]
    assert not service.items() <= pod["metadata"]["labels"].items()


def test_helm_test_can_be_left_out() -> None:
    assert "ray-webhook-test" not in template("--set", "test.enabled=false").stdout


def test_every_value_that_a_template_reads_is_in_the_values() -> None:
    read = {
        name
        for template in (CHART / "templates").iterdir()
        for name in re.findall(r"(?:\.V|\$v)alues\.([a-zA-Z]+)", template.read_text())
    }
    values = {
        line.partition(":")[0]
        for line in (CHART / "values.yaml").read_text().splitlines()
        if line[:1].isalpha()
    }
    schema = json.loads((CHART / "values.schema.json").read_text())["properties"].keys()
    assert read == values == schema - {"enabled"}, "a parent chart sets it as a condition"


@pytest.mark.parametrize(("release", "flag"), [
    ("my.release", "image.tag=v1"),
    ("1st", "image.tag=v1"),
    *[
        ("x", f"fullnameOverride={name}")
        for name in ("a.b", "Upper", "1st", "-a", "on", "null", " ")
    ],
])  # fmt: skip
def test_names_that_no_service_can_have_are_refused(release: str, flag: str) -> None:
    text = refusal(flag, "--set-string", release)
    assert "set fullnameOverride to a name of small letters" in text


TEXTS = {
    "commonLabels.own": "common", "image.tag": "tag",
    "monitoring.dashboard.labels.own": "dashboard", "monitoring.labels.own": "monitoring",
    "networkPolicy.metricsNamespace": "metrics", "nodeSelector.own": "node", "podLabels.own": "pod",
    "podLabels.yaml": "yaml", "priorityClassName": "priority", "runtimeClassName": "runtime",
    "serviceAccount.name": "account", "test.namespace": "test",
    "webhook.clientAuthorities.configMap": "authorities", "webhook.clientAuthorities.key": "key",
}  # fmt: skip
"""Values of texts, to which a test gives numbers."""
ENABLED = ["evictions", "flowSchema", "monitoring.dashboard", "networkPolicy", "optIn", "repair"]


def test_texts_that_look_like_numbers_stay_texts() -> None:
    numbers = {text: f"{number}" for number, text in enumerate(TEXTS.values(), 20_000)}
    flags = [word for name in ENABLED for word in ("--set", f"{name}.enabled=true")]
    for name in ("serviceMonitor", "prometheusRule", "podMonitoring"):
        flags += ["--set", f"monitoring.{name}=true"]

    def rendered(values: dict[str, str], namespace: str) -> str:
        texts = [word for item in values.items() for word in ("--set-string", "=".join(item))]
        shown = template(*flags, *texts, release="ray-webhook", namespace=namespace).stdout
        return json.dumps(objects_in(shown))

    named = rendered({value: f"as-{text}" for value, text in TEXTS.items()}, "as-namespace")
    for text, number in {**numbers, "namespace": "10000"}.items():
        assert f"as-{text}" in named
        named = named.replace(f"as-{text}", number)
    values = {value: numbers[text] for value, text in TEXTS.items()}
    assert json.loads(rendered(values, "10000")) == json.loads(named)


def test_without_quotas_no_right_is_given_and_none_is_read() -> None:
    objects = helm("quotas.enabled=false")
    assert variables(objects)["RAY_WEBHOOK_VALIDATION__QUOTAS"] == "false"
    rules = [rule for found in objects for rule in found.get("rules") or ()]
    assert not any("resourcequotas" in rule.get("resources", ()) for rule in rules)


def test_names_that_the_chart_sets_itself_are_refused() -> None:
    templates = "".join(path.read_text() for path in (CHART / "templates").iterdir())
    taken = set(re.findall(r"\bRAY_WEBHOOK_[A-Z_]+", templates))
    assert len(taken) == 9
    for value in ("extraEnv", "controller.extraEnv"):
        for name in taken:
            assert "extraEnv" in refusal(f"{value}[0].name={name},{value}[0].value=a")
    for name in ("tls", "settings", "clients"):
        assert "extraVolumes" in refusal(f"extraVolumes[0].name={name}")
    for name in one(helm(), "Deployment", "ray-webhook")["metadata"]["labels"]:
        for value in ("commonLabels", "podLabels"):
            assert value in refusal(f"{value}={json.dumps({name: 'mine'})}", "--set-json")


def test_every_object_and_pod_names_its_component_and_selectors_match_no_other() -> None:
    monitoring = ",".join(f"monitoring.{part}=true" for part in ("serviceMonitor", "podMonitoring"))
    objects = helm(f"{monitoring},networkPolicy.enabled=true,flowSchema.enabled=true")
    key = "app.kubernetes.io/component"
    for found in objects:
        name, labels = found["metadata"]["name"], found["metadata"]["labels"]
        assert labels[key] == ("controller" if name.endswith("-controller") else "webhook"), name
    for name, component in (("ray-webhook", "webhook"), ("ray-webhook-controller", "controller")):
        deployment = one(objects, "Deployment", name)["spec"]
        selectors = [
            deployment["selector"]["matchLabels"],
            one(objects, "Service", name)["spec"]["selector"],
            one(objects, "NetworkPolicy", name)["spec"]["podSelector"]["matchLabels"],
        ]
        assert [each[key] for each in selectors] == [component] * 3
        for selector in selectors:
            assert selector.items() <= labels_of(objects, name).items()


def test_an_umbrella_chart_installs_it_on_its_condition(tmp_path: Path) -> None:
    umbrella = tmp_path / "platform"
    (umbrella / "charts").mkdir(parents=True)
    shutil.copytree(CHART, umbrella / "charts" / "ray-webhook")
    dependency = {"name": "ray-webhook", "version": __version__, "condition": "ray-webhook.enabled"}
    chart = {"apiVersion": "v2", "name": "platform", "version": "1.0.0"}
    (umbrella / "Chart.yaml").write_text(yaml.safe_dump(chart | {"dependencies": [dependency]}))
    values = {
        "global": {"imageRegistry": "mirror.example.com", "team": "ml"},
        "ray-webhook": {"enabled": True, "fullnameOverride": "gate"},
    }
    (umbrella / "values.yaml").write_text(yaml.safe_dump(values))
    rendered = run("helm", "template", "platform", str(umbrella), "--kube-version", KUBE_VERSION)
    objects = objects_in(rendered.stdout)
    image = container_of(objects, "gate")["image"]
    assert image == f"mirror.example.com/ray-webhook:{__version__}"
    off = ("--set", "ray-webhook.enabled=false")
    assert not run("helm", "template", "platform", str(umbrella), *off).stdout.strip()
