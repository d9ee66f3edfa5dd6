"""The manifests, compared with the code."""

import re
from itertools import chain, product
from pathlib import Path

import httpx
import pytest
import yaml

from tests import builders
from tests.e2e.installation import granted
from tests.harness.fake_api import RAYCLUSTERS, FakeApi
from tests.harness.following import eventually
from tests.harness.publishing import a_cluster, counts, groups_of, opted_out, publishing, templates
from tests.harness.scenes import MUTATING
from tests.harness.scheduling_rules import PODGROUPS, WORKLOADS
from tests.harness.server import Running
from tests.manifests.render import (
    MODES,
    Object,
    container_of,
    environment,
    helm,
    installation,
    kustomize,
    labels_of,
    mounted,
    one,
    pod_of,
    settings_file,
    variables,
    webhooks,
)
from tests.webhook.certs.test_selfsigned import store, vault
from webhook.api import names
from webhook.cache import kuberay_release
from webhook.config.configuration import Settings, Tls, known
from webhook.config.sources import CONFIG, read_settings, variable
from webhook.groups.annotations import WORKER_GROUP
from webhook.httpserver.server import GRACE_SECONDS

pytestmark = pytest.mark.manifests

DEFAULTS = Settings()
PUBLISHING = "schedulingGroups.publish=true"
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
BINDINGS = "bindings.admission.ray.io"
EVICTIONS = "evictions.admission.ray.io"
LEASE = f"{DEFAULTS.installation.name}-controller"


@pytest.mark.parametrize("mode", MODES)
def test_every_variable_of_the_pods_is_a_setting_and_its_value_is_valid(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = installation(mode, PUBLISHING)
    for name in ("ray-webhook", "ray-webhook-controller"):
        with monkeypatch.context() as patch:
            data = environment(objects, name, tmp_path)
            assert data.keys() <= {CONFIG, *map(variable, known())}
            for key, value in data.items():
                patch.setenv(key, value)
            settings = read_settings([])
        assert settings.serving.drain_seconds == 10
        assert settings.installation.components == ["events", "pod-groups"]
        assert settings.tls.source == (
            "self-signed" if (name, mode) == ("ray-webhook", "self-signed") else "files"
        )
        assert settings.installation.name == DEFAULTS.installation.name


@pytest.mark.parametrize("name", ["ray-webhook", "ray-webhook-controller"])
def test_the_file_with_settings_is_mounted_where_the_variable_says(name: str) -> None:
    objects = installation("self-signed", PUBLISHING)
    mount, volume = mounted(objects, "settings", name)
    stored = one(objects, "ConfigMap")
    (held,) = stored["data"]
    assert variables(objects, name)[CONFIG] == f"{mount['mountPath']}/{held}"
    assert volume["configMap"]["name"] == stored["metadata"]["name"]


@pytest.mark.parametrize("mode", MODES)
def test_ports_agree_from_the_webhook_configuration_to_the_listener(mode: str) -> None:
    objects = installation(mode)
    service, container = one(objects, "Service", "ray-webhook"), container_of(objects)
    ports = {port["name"]: port for port in service["spec"]["ports"]}
    listening = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert listening == {"https": DEFAULTS.serving.port, "admin": DEFAULTS.listen.admin_port}
    assert {port["targetPort"] for port in ports.values()} == listening.keys()
    for webhook in webhooks(objects).values():
        called = webhook["clientConfig"]["service"]
        assert called["port"] == ports["https"]["port"]
        assert called["name"] == service["metadata"]["name"]
    assert {container[probe]["httpGet"]["port"] for probe in PROBES} == {"admin"}
    monitor = one(kustomize("manifests/monitoring"), "ServiceMonitor")["spec"]
    assert monitor["endpoints"][0]["port"] in ports
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()


def test_the_configuration_of_the_tests_of_diagnoses_is_that_of_the_chart() -> None:
    assert yaml.safe_load(MUTATING.read_text()) == one(helm(), "MutatingWebhookConfiguration")


def test_paths_of_webhooks_are_routes(server: Running) -> None:
    found = webhooks(installation("self-signed")).values()
    paths = {webhook["clientConfig"]["service"]["path"] for webhook in found}
    with httpx.Client(verify=False) as client:  # noqa: S501 - only whether the path is there
        assert {client.get(server.url + path).status_code for path in paths} == {
            httpx.codes.METHOD_NOT_ALLOWED
        }


def test_paths_of_probes_and_metrics_are_routes(server: Running) -> None:
    container = container_of(installation("self-signed"))
    monitor = one(kustomize("manifests/monitoring"), "ServiceMonitor")["spec"]
    paths = {container[probe]["httpGet"]["path"] for probe in PROBES}
    paths |= {endpoint["path"] for endpoint in monitor["endpoints"]}
    assert paths == {"/livez", "/readyz", "/metrics"}
    assert [httpx.get(server.admin + path).status_code for path in paths] == [200, 200, 200]


def test_pods_are_selected_by_labels_that_kuberay_protects_and_only_where_they_are_wanted() -> None:
    found = webhooks(installation("self-signed", "nodeLabels={rack}", "evictions.enabled=true"))
    for name in ("pods.admission.ray.io", "optional-pods.admission.ray.io"):
        (label,) = found[name]["objectSelector"]["matchExpressions"]
        assert label == {
            "key": names.LABEL_NODE_TYPE,
            "operator": "In",
            "values": [names.NODE_TYPE_HEAD, names.NODE_TYPE_WORKER],
        }
        (rule,) = found[name]["rules"]
        assert (rule["apiGroups"], rule["resources"]) == ([""], ["pods"])
        assert rule["operations"] == ["CREATE"]
    for entry in found.values():
        namespace, ignore = entry["namespaceSelector"]["matchExpressions"]
        assert namespace["values"] == [
            "ray-webhook", "kube-system", "kube-public", "kube-node-lease",
        ]  # fmt: skip
        assert ignore == {"key": names.LABEL_IGNORE, "operator": "NotIn", "values": ["true"]}


def test_the_policy_of_tenants_protects_every_label_that_anti_affinity_selects() -> None:
    a_host = builders.a_pod().of("c").worker("g").gpu(8)
    template = {"spec": a_host.build()["spec"]}
    cluster = builders.a_cluster("c").group("g", hosts=2, template=template).build()
    cluster["metadata"]["annotations"] = {
        names.ANNOTATION_COMPUTE_DOMAIN: "replica",
        names.ANNOTATION_TOPOLOGY_KEY: "nvidia.com/gpu.clique",
    }
    pod = builders.decide(a_host, cluster).pod
    (terms,) = pod["spec"]["affinity"]["podAntiAffinity"].values()
    keys = set()
    for term in terms:
        expressions = term["labelSelector"]["matchExpressions"]
        assert (expressions[-1]["key"], expressions[-1]["operator"]) == (
            names.LABEL_NODE_TYPE,
            "In",
        )
        keys |= {expression["key"] for expression in expressions}
    by_kuberay = {names.LABEL_CLUSTER, names.LABEL_NODE_TYPE}
    policies = kustomize("manifests/policies/tenants")
    policy = one(policies, "ValidatingAdmissionPolicy", "ray-webhook-identity-labels")
    condition = policy["spec"]["matchConditions"][0]["expression"]
    protected, _, _ = condition.partition("].exists(k,")
    assert {names.LABEL_REPLICA_NAME, names.LABEL_COMPUTE_DOMAIN} <= keys - by_kuberay
    assert keys - by_kuberay <= set(re.findall(r"'([^']+)'", protected))


def test_no_entry_leaves_a_ray_object_out_by_its_own_label() -> None:
    """Else the setting `ignore.rayclusters` could not take that away."""
    for entry in webhooks(helm()).values():
        conditions = [each["expression"] for each in entry.get("matchConditions", ())]
        selectors = entry.get("objectSelector", {}).get("matchExpressions", ())
        assert not any(names.LABEL_IGNORE in text for text in conditions)
        assert names.LABEL_IGNORE not in {each["key"] for each in selectors}


def test_shards_are_asked_about_where_a_ray_cluster_names_the_annotation_that_the_code_reads() -> (
    None
):
    found = webhooks(installation("self-signed"))["shards.admission.ray.io"]
    (rule,) = found["rules"]
    assert (rule["apiGroups"], rule["resources"]) == ([names.RAY_GROUP], ["rayclusters"])
    assert rule["operations"] == ["CREATE", "UPDATE"]
    grouped, unsettled = (condition["expression"] for condition in found["matchConditions"])
    assert f'"{names.ANNOTATION_SHARD_GROUP}" in' in grouped
    assert f'["{names.ANNOTATION_SHARD_GROUP}", "{names.ANNOTATION_SHARD_INDEX}"]' in unsettled
    assert found["sideEffects"] == "NoneOnDryRun"
    assert found["reinvocationPolicy"] == "Never", (
        "an index that is to be generated a name for cannot be told from another's"
    )


@pytest.mark.parametrize("mode", MODES)
def test_entries_fail_closed_for_what_cannot_run_without_the_webhook(mode: str) -> None:
    def policies(*values: str) -> dict[str, str]:
        entries = webhooks(installation(mode, "nodeLabels={rack}", *values))
        assert entries.pop(BINDINGS)["failurePolicy"] == "Ignore"
        return {name.partition(".")[0]: entry["failurePolicy"] for name, entry in entries.items()}

    optional, clusters = {"optional-pods": "Ignore"}, {"clusters": "Ignore"}
    needed = {"pods": "Fail", "shards": "Fail"}
    assert policies() == needed | optional | clusters
    assert policies("mutating.failClosed=all") == needed | clusters
    assert policies("validating.failurePolicy=Fail") == needed | optional | {"clusters": "Fail"}
    trial = dict.fromkeys(needed, "Ignore")
    assert policies("mutating.failurePolicy=Ignore") == trial | optional | clusters


def test_a_pod_is_asked_about_by_one_entry_and_waits_longer_where_it_has_to() -> None:
    found = webhooks(helm("mutating.timeoutSeconds=20"))
    needed, optional = found["pods.admission.ray.io"], found["optional-pods.admission.ray.io"]
    differing = {"name", "matchConditions", "failurePolicy", "timeoutSeconds"}
    assert {key for key in needed if needed[key] != optional[key]} == differing
    (condition,), (negated,) = (each["matchConditions"] for each in (needed, optional))
    assert negated["expression"] == f"!({condition['expression']})"
    assert (needed["timeoutSeconds"], optional["timeoutSeconds"]) == (20, 2)
    for name in (
        names.LABEL_NODE_TYPE,
        names.LABEL_REPLICA_INDEX,
        names.LABEL_HOST_INDEX,
        names.ANNOTATION_HOLDER,
        names.RESOURCE_TPU,
    ):
        assert f'"{name}"' in condition["expression"]
    every = webhooks(helm("mutating.failClosed=all"))["pods.admission.ray.io"]
    assert "matchConditions" not in every


@pytest.mark.parametrize("mode", MODES)
def test_argo_cd_applies_the_entries_after_the_webhook_and_removes_them_before(mode: str) -> None:
    waves = {
        found["kind"]: found["metadata"]
        .get("annotations", {})
        .get("argocd.argoproj.io/sync-wave", "0")
        for found in installation(mode)
    }
    later = {kind for kind, wave in waves.items() if int(wave) > 0}
    assert later == {"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}


@pytest.mark.parametrize("mode", MODES)
def test_the_pod_is_restricted_and_has_time_to_drain(mode: str) -> None:
    objects = installation(mode)
    deployment = one(objects, "Deployment", "ray-webhook")["spec"]
    pod, container = pod_of(objects), container_of(objects)
    assert deployment["replicas"] == 2
    assert deployment["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    }
    context = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert pod["securityContext"] == context, "without ids, which OpenShift assigns"
    security = {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["securityContext"] == security
    drain = float(yaml.safe_load(settings_file(objects))["serving"]["drainSeconds"])
    assert drain > 0
    assert pod["terminationGracePeriodSeconds"] > drain + GRACE_SECONDS
    assert pod["enableServiceLinks"] is False
    assert "cpu" not in container["resources"]["limits"]


def test_the_mounted_secret_is_where_the_settings_look() -> None:
    objects = installation("cert-manager")
    mount, volume = mounted(objects, "tls", "ray-webhook")
    assert volume["secret"]["defaultMode"] == 0o444, "for any user, such as those of OpenShift"
    files = {Path(mount["mountPath"]) / item["path"] for item in volume["secret"]["items"]}
    assert files == {Tls().cert_dir / "tls.crt", Tls().cert_dir / "tls.key"}
    assert "subPath" not in mount
    leaf = one(objects, "Certificate", "ray-webhook-tls")["spec"]
    assert leaf["secretName"] == volume["secret"]["secretName"]
    service = one(objects, "Service", "ray-webhook")["metadata"]
    name = f"{service['name']}.{service['namespace']}.svc"
    assert leaf["dnsNames"] == [name, f"{name}.cluster.local"]


def test_the_leaf_is_signed_by_the_authority_and_never_by_the_self_signed_issuer() -> None:
    objects = installation("cert-manager")
    leaf = one(objects, "Certificate", "ray-webhook-tls")["spec"]
    root = one(objects, "Certificate", "ray-webhook-ca")["spec"]
    issuer = one(objects, "Issuer", leaf["issuerRef"]["name"])["spec"]
    assert issuer == {"ca": {"secretName": root["secretName"]}}
    assert root["isCA"]
    assert leaf["privateKey"] == {"algorithm": "ECDSA", "size": 256, "rotationPolicy": "Always"}
    for mode, injected in (("cert-manager", "ray-webhook/ray-webhook-tls"), ("self-signed", None)):
        for found in installation(mode):
            if found["kind"].endswith("WebhookConfiguration"):
                annotations = found["metadata"]["annotations"]
                assert annotations.get("cert-manager.io/inject-ca-from") == injected


async def test_the_self_signed_mode_may_do_what_it_does_and_nothing_else() -> None:
    async with FakeApi().serving() as api:
        store(api)
        async with vault(api) as fetch:
            await fetch()
    verbs = {"list": "get", "patch": "patch"}
    wanted = {(verbs[each.verb], each.resource, each.name) for each in api.requests}
    definition = ("get", *kuberay_release.PATH.split("/")[-2:])
    leased = {(verb, "leases", LEASE) for verb in ("get", "patch")}
    assert {*wanted, definition} | leased == named_permissions(installation("self-signed"))
    assert {definition} | leased == named_permissions(installation("cert-manager"))


def named_permissions(objects: list[Object]) -> set[tuple[str, str, str]]:
    """Return verb, resource and name of every permission that is for named objects."""
    roles = (found for found in objects if "Role" in found["kind"])
    return {
        (verb, resource, name)
        for rule in chain.from_iterable(role.get("rules", ()) for role in roles)
        for verb, resource, name in product(
            rule["verbs"], rule["resources"], rule.get("resourceNames", ())
        )
    }


@pytest.mark.parametrize("mode", MODES)
def test_pods_and_rayclusters_are_read_everywhere_and_leases_are_written_in_the_own_namespace(
    mode: str,
) -> None:
    objects = installation(mode)
    unnamed = [
        (role["kind"], rule["apiGroups"], rule["resources"], rule["verbs"])
        for role in objects
        if "Role" in role["kind"] and "controller" not in role["metadata"]["name"]
        for rule in role.get("rules", ())
        if "resourceNames" not in rule
    ]
    read, written = ["list", "watch"], ["get", "list", "create", "update", "delete"]
    assert sorted(unnamed) == [
        ("ClusterRole", [""], ["limitranges", "resourcequotas"], read),
        ("ClusterRole", [""], ["pods"], read),
        ("ClusterRole", [names.RAY_GROUP], ["rayclusters"], read),
        ("Role", ["coordination.k8s.io"], ["leases"], written),
    ]
    accounts = {subject["name"] for found in objects for subject in found.get("subjects", ())}
    assert accounts == {"ray-webhook", "ray-webhook-controller"}
    assert {pod_of(objects, name)["serviceAccountName"] for name in accounts} == accounts


READ_BY_CONTROLLER = {
    *product(("list", "watch"), ("pods", "rayclusters", "nodes", "namespaces", "podgroups")),
    *product(("list", "watch"), ("mutatingwebhookconfigurations", "services")),
    *product(("list", "watch"), ("rayjobs", "rayservices")),
}
WRITTEN_BY_CONTROLLER = {*product(("create", "get", "patch"), ("leases", "events"))}


@pytest.mark.parametrize("mode", MODES)
def test_the_controller_may_write_events_and_its_lease_and_nothing_else(mode: str) -> None:
    rights = rights_of_controller(installation(mode))
    assert rights == READ_BY_CONTROLLER | WRITTEN_BY_CONTROLLER


def test_without_events_the_chart_has_no_rights_for_them_and_without_anything_no_controller() -> (
    None
):
    objects = helm(f"controller.events=false,{PUBLISHING}")
    assert not {right for right in rights_of_controller(objects) if "events" in right}
    given = variables(objects, "ray-webhook-controller")
    assert given[variable("installation.components")] == "pod-groups"
    without = helm("controller.events=false")
    assert not [found for found in without if "controller" in found["metadata"]["name"]]


def rights_of_controller(objects: list[Object]) -> set[tuple[str, str]]:
    return {(verb, name) for _, name, verb in granted(objects, "ray-webhook-controller")}


@pytest.mark.parametrize("mode", MODES)
def test_nothing_that_selects_the_pods_of_the_webhook_selects_those_of_the_controller(
    mode: str,
) -> None:
    objects = installation(mode, PUBLISHING)
    for name, other in (
        ("ray-webhook", "ray-webhook-controller"),
        ("ray-webhook-controller", "ray-webhook"),
    ):
        labels = labels_of(objects, name)
        for found in objects:
            selector = selected(found)
            if selector and selector.items() <= labels.items():
                assert found["metadata"]["name"] != other, found["kind"]


def selected(found: Object) -> dict[str, str]:
    spec = found.get("spec", {})
    pods: Object = spec.get("podSelector") or spec.get("selector") or {}
    labels: dict[str, str] = pods.get("matchLabels", pods)
    return labels


def test_probes_and_metrics_of_the_controller_are_at_the_port_of_its_settings() -> None:
    objects = installation("self-signed", "monitoring.serviceMonitor=true")
    container = container_of(objects, "ray-webhook-controller")
    assert container["ports"] == [{"name": "admin", "containerPort": DEFAULTS.listen.admin_port}]
    assert {container[probe]["httpGet"]["port"] for probe in PROBES} == {"admin"}
    service = one(objects, "Service", "ray-webhook-controller")
    monitor = one(kustomize("manifests/monitoring"), "ServiceMonitor")["spec"]
    assert monitor["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert [port["name"] for port in service["spec"]["ports"]] == [monitor["endpoints"][0]["port"]]
    assert service["spec"]["ports"][0]["targetPort"] == "admin"


async def test_with_scheduling_groups_the_controller_may_do_what_it_does_and_nothing_else() -> None:
    async with FakeApi(served={"v1", "v1beta1", "v1alpha2"}).serving() as api:
        api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP))
        async with publishing(api):
            await eventually(lambda: counts(api) == {"ray-head": 0, "ray-worker-tpu": 8})
            api.put(RAYCLUSTERS, a_cluster(WORKER_GROUP, workerGroupSpecs=groups_of(5)))
            await eventually(lambda: templates(api) == {"head": 0, "worker-tpu": 20})
            opted_out(api)
            await eventually(lambda: not api.objects(WORKLOADS))
        done = {
            (request.verb, request.resource)
            for request in api.requests
            if request.resource in {PODGROUPS, WORKLOADS}
        }
    (rule,) = added_rules(PUBLISHING)
    assert rule["apiGroups"] == [names.SCHEDULING_GROUP]
    assert done == {(verb, resource) for verb in rule["verbs"] for resource in rule["resources"]}


def added_rules(value: str) -> list[Object]:
    plain, more = (
        one(objects, "ClusterRole", "ray-webhook-controller")["rules"]
        for objects in (installation("self-signed"), installation("self-signed", value))
    )
    return [rule for rule in more if rule not in plain]


def test_with_compute_domains_the_controller_may_do_what_it_does_and_nothing_else() -> None:
    assert added_rules("computeDomains.enabled=true") == [
        {
            "apiGroups": [names.COMPUTE_DOMAIN_GROUP],
            "resources": ["computedomains"],
            "verbs": ["create", "delete", "list", "patch"],
        }
    ]


def test_evictions_are_reviewed_on_request_and_pass_without_an_answer() -> None:
    assert EVICTIONS not in webhooks(installation("self-signed"))
    entry = webhooks(installation("self-signed", "evictions.enabled=true"))[EVICTIONS]
    assert (entry["failurePolicy"], entry["timeoutSeconds"]) == ("Ignore", 2)
    assert entry["sideEffects"] == "NoneOnDryRun"
    assert entry["clientConfig"]["service"]["path"] == "/validate"
    (rule,) = entry["rules"]
    assert (rule["resources"], rule["operations"]) == (["pods/eviction"], ["CREATE"])


def test_bindings_are_asked_about_only_where_labels_of_nodes_are_passed_on() -> None:
    plain = installation("self-signed")
    assert BINDINGS not in webhooks(plain)
    objects = installation("self-signed", "nodeLabels={rack,nvidia.com/gpu.clique}")
    entry = webhooks(objects)[BINDINGS]
    assert (entry["failurePolicy"], entry["timeoutSeconds"]) == ("Ignore", 2)
    (rule,) = entry["rules"]
    assert (rule["resources"], rule["operations"]) == (["pods/binding"], ["CREATE"])
    nodes = [
        rule["verbs"]
        for rule in one(objects, "ClusterRole", "ray-webhook")["rules"]
        if rule["resources"] == ["nodes"]
    ]
    assert nodes == [["get", "list", "watch"]]
