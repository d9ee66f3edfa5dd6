"""Features that KubeRay sets up itself: cases in addition to the examples."""

import pytest

from tests.harness.ray_objects import (
    Built,
    ClusterBuilder,
    a_cluster,
    a_job,
    a_service,
    findings,
    found,
    rules,
)
from webhook.api import names
from webhook.validation.rule_settings import GATES, RuleSettings

ON = RuleSettings(gates=dict.fromkeys(GATES, True))
HEAD = "spec.headGroupSpec.template.spec"
GROUP = "spec.workerGroupSpecs[0]"
RULE = {"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED", "ttlSeconds": 1}}
OPTIONS = "spec.upgradeStrategy.clusterUpgradeOptions"
COLLECTOR = "spec.historyServerOptions.collectorOptions"


def a_cluster_with_history(**env: str) -> ClusterBuilder:
    entries = [{"name": name, "value": value} for name, value in env.items()]
    collector = {"image": "collector:v1", "env": entries}
    return a_cluster().spec(historyServerOptions={"collectorOptions": collector}).group()


AZURE_BY_URL = {"STORAGE_BACKEND": "azureblob", "AZURE_STORAGE_ACCOUNT_URL": "u"}


@pytest.mark.parametrize(("env", "complete"), [
    ({"STORAGE_BACKEND": "gcs", "GCS_BUCKET": "b"}, True),
    ({"STORAGE_BACKEND": "GCS"}, False),
    ({"STORAGE_BACKEND": "aliyunoss", "ALIYUN_BUCKET": "b"}, False),
    ({"STORAGE_BACKEND": "azureblob"}, False), (AZURE_BY_URL, True),
    ({**AZURE_BY_URL, "AZURE_STORAGE_AUTH_MODE": "connection_string"}, False),
    ({**AZURE_BY_URL, "AZURE_STORAGE_AUTH_MODE": " Default "}, True),
    ({"STORAGE_BACKEND": "one that is not known"}, True),
    ({}, False), ({"STORAGE_BACKEND": ""}, False),
])  # fmt: skip
def test_a_storage_needs_its_variables(env: dict[str, str], complete: bool) -> None:
    wrong = {("history-storage-incomplete", f"{COLLECTOR}.env")}
    assert found(a_cluster_with_history(**env), ON) == (set() if complete else wrong)


@pytest.mark.parametrize(("built", "gate", "path"), [
    (a_cluster().group(suspend=True), "RayJobDeletionPolicy", f"{GROUP}.suspend"),
    (a_cluster().spec(gcsFaultToleranceOptions={"backend": "rocksdb"}),
     "GCSFaultToleranceEmbeddedStorage", "spec.gcsFaultToleranceOptions.backend"),
    (a_cluster_with_history(STORAGE_BACKEND="gcs", GCS_BUCKET="b"),
     "RayClusterHistoryServer", "spec.historyServerOptions"),
    (a_cluster().spec(networkPolicy={"mode": "DenyAll"}),
     "RayClusterNetworkPolicy", "spec.networkPolicy"),
    (a_job().spec(deletionPolicy="DeleteSelf"), "RayJobDeletionPolicy", "spec.deletionPolicy"),
    (a_job().spec(deletionStrategy={"deletionRules": [RULE]}),
     "RayJobDeletionPolicy", "spec.deletionStrategy"),
])  # fmt: skip
def test_a_field_needs_its_feature_gate(built: Built, gate: str, path: str) -> None:
    off = RuleSettings(gates={gate: False})
    (finding,) = findings(built, "feature-gate-off", settings=off)
    assert (finding.path, finding.level) == (path, "deny")
    assert findings(built, "feature-gate-off", settings=ON) == []


def test_rocksdb_finds_everything_that_is_set_by_hand() -> None:
    options = {
        "backend": "rocksdb", "redisAddress": "r", "redisUsername": {}, "redisPassword": {},
        "externalStorageNamespace": "x"}  # fmt: skip
    cluster = a_cluster().spec(gcsFaultToleranceOptions=options)
    cluster.head_env("RAY_gcs_storage", "x").head_env("RAY_gcs_storage_path", "x")
    mounts = [{"name": "mine", "mountPath": "/data/gcs"}, {"name": "other", "mountPath": "/x"}]
    cluster.head_container(volumeMounts=mounts)
    cluster.head_pod(volumes=[{"name": name, "emptyDir": {}} for name in ("mine", "other")])
    assert found(cluster, ON) == {
        *(
            ("rocksdb-with-redis-settings", f"spec.gcsFaultToleranceOptions.{name}")
            for name in options
            if name != "backend"
        ),
        ("rocksdb-managed-storage", f"{HEAD}.containers[0].env[0].name"),
        ("rocksdb-managed-storage", f"{HEAD}.containers[0].env[1].name"),
        ("rocksdb-managed-storage", f"{HEAD}.containers[0].volumeMounts[0]"),
    }


def test_settings_of_redis_outside_of_the_options_are_all_found() -> None:
    storage = "ray.io/external-storage-namespace"
    cluster = a_cluster().spec(gcsFaultToleranceOptions={}).annotated(storage, "x")
    cluster.head(rayStartParams={"redis-password": "x", "redis-username": "x"})
    for name in ("REDIS_PASSWORD", "RAY_REDIS_ADDRESS", "REDIS_USERNAME"):
        cluster.head_env(name, "x")
    env = f"{HEAD}.containers[0].env"
    assert found(cluster) == {
        ("redis-settings-outside-options", "spec.headGroupSpec.rayStartParams[redis-password]"),
        ("redis-settings-outside-options", f"{env}[0].name"),
        ("redis-settings-outside-options", f"{env}[1].name"),
        ("redis-settings-outside-options", f"metadata.annotations[{storage}]"),
        ("redis-username-outside-options", "spec.headGroupSpec.rayStartParams[redis-username]"),
        ("redis-username-outside-options", f"{env}[2].name"),
    }


@pytest.mark.parametrize(
    ("enabled", "wrong"), [("true", set()), ("TRUE", set()), ("false", {"redis-address-alone"})]
)
def test_the_old_annotation_turns_fault_tolerance_on(enabled: str, wrong: set[str]) -> None:
    cluster = a_cluster().annotated("ray.io/ft-enabled", enabled)
    assert rules(cluster.head_env("RAY_REDIS_ADDRESS", "redis:6379")) == wrong


def test_tls_by_hand_is_found_in_head_workers_and_autoscaler() -> None:
    mounts = [{"name": "ray-tls", "mountPath": "/x"}, {"name": "x", "mountPath": "/etc/ray/tls"}]
    volumes = [{"name": "ray-tls", "emptyDir": {}}, {"name": "x", "emptyDir": {}}]
    env = [{"name": "RAY_TLS_CA_CERT", "value": "x"}]
    cluster = a_cluster().spec(tlsOptions={"enabled": True})
    cluster.autoscaled(env=env, volumeMounts=mounts).head_env("RAY_USE_TLS", "1")
    cluster.group(maxReplicas=3).container(volumeMounts=mounts).pod(volumes=volumes)
    cluster.head_pod(volumes=volumes)
    worker = "spec.workerGroupSpecs[0].template.spec.containers[0]"
    assert {path for rule, path in found(cluster, ON) if rule == "tls-set-by-hand"} == {
        f"{HEAD}.containers[0].env[0].name", f"{worker}.volumeMounts[0]",
        f"{worker}.volumeMounts[1]", "spec.autoscalerOptions.env[0].name",
        "spec.autoscalerOptions.volumeMounts[0]",
        "spec.autoscalerOptions.volumeMounts[1]"}  # fmt: skip
    assert found(cluster.spec(tlsOptions={"enabled": False}), ON) == set()


@pytest.mark.parametrize(("version", "options", "path"), [
    ("2.52.0", {"mode": "token"}, None), ("v2.52", {"mode": "token"}, None),
    ("2.51.9", {"mode": "token"}, "spec.rayVersion"),
    ("latest", {"mode": "token"}, "spec.rayVersion"),
    ("2", {"mode": "token"}, "spec.rayVersion"),
    ("2.54.0", {"mode": "token", "enableK8sTokenAuth": True}, "spec.rayVersion"),
    ("2.55.0", {"mode": "token", "enableK8sTokenAuth": True}, None),
    ("2.55.0", {"enableK8sTokenAuth": True}, "spec.authOptions.mode"),
    ("2.10.0", {"mode": "disabled"}, None),
])  # fmt: skip
def test_it_needs_a_ray_release(version: str, options: dict[str, object], path: str | None) -> None:
    cluster = a_cluster().spec(rayVersion=version, authOptions=options)
    assert {where for rule, where in found(cluster) if rule.startswith("auth-")} == (
        {path} if path else set()
    )


def test_network_policies_check_every_holder_of_rules() -> None:
    both: dict[str, object] = {"ingressRules": [{}], "egressRules": [{}]}
    groups = [{"groupName": "workers", **both}]
    policy = {"mode": "DenyAllIngress", "head": both, "worker": both, "workerGroups": groups}
    assert {path for _, path in found(a_cluster().spec(networkPolicy=policy).group(), ON)} == {
        "spec.networkPolicy.head.egressRules",
        "spec.networkPolicy.worker.egressRules",
        "spec.networkPolicy.workerGroups[0].egressRules",
    }


def test_a_gang_has_one_scheduler() -> None:
    cluster = a_cluster().label("ray.io/gang-scheduling-enabled", "True").group()
    assert found(cluster.pod(schedulerName="volcano")) == set()
    assert found(cluster, ON) == {
        ("gang-other-scheduler", "spec.workerGroupSpecs[0].template.spec.schedulerName")
    }


def test_a_rayjob_passes_its_labels_on_to_its_cluster() -> None:
    job = a_job(a_cluster().autoscaled().group()).label("ray.io/gang-scheduling-enabled", "true")
    at = "metadata.labels[ray.io/gang-scheduling-enabled]"
    assert found(job, ON) == {("gang-autoscaled", at)}


@pytest.mark.parametrize("labels", [
    {"yunikorn.apache.org/app-id": "a"}, {"volcano.sh/queue-name": "q"}, {},
])  # fmt: skip
def test_other_schedulers_group_the_pods_of_autoscaled_clusters(labels: dict[str, str]) -> None:
    cluster = a_cluster().autoscaled().label(names.LABEL_GANG, "true").group()
    for key, value in labels.items():
        cluster.label(key, value)
    assert found(cluster) == found(a_job(cluster)) == set()
    assert found(a_job(a_cluster().autoscaled().group()).label(names.LABEL_GANG, "true")) == set()
    own = cluster.pod(schedulingGroup={"podGroupName": "mine"})
    (finding,) = findings(own)
    assert "KubeRay sets schedulingGroup" not in finding.message


def an_incremental_service(options: dict[str, object] | None) -> Built:
    strategy = {"type": "NewClusterWithIncrementalUpgrade", "clusterUpgradeOptions": options}
    return a_service(a_cluster().autoscaled().group()).spec(upgradeStrategy=strategy)


@pytest.mark.parametrize(("changed", "path"), [
    ({"stepSizePercent": 101}, f"{OPTIONS}.stepSizePercent"),
    ({"stepSizePercent": -1}, f"{OPTIONS}.stepSizePercent"),
    ({"maxSurgePercent": 101}, f"{OPTIONS}.maxSurgePercent"),
    ({"stepSizePercent": 11, "maxSurgePercent": 10}, f"{OPTIONS}.stepSizePercent"),
    ({"intervalSeconds": 0}, f"{OPTIONS}.intervalSeconds"),
    ({"intervalSeconds": None}, f"{OPTIONS}.intervalSeconds"),
    ({"gatewayClassName": ""}, f"{OPTIONS}.gatewayClassName"),
    ({"maxSurgePercent": None, "stepSizePercent": 100}, None),
])  # fmt: skip
def test_options_of_an_upgrade_are_in_range(changed: dict[str, object], path: str | None) -> None:
    options = {"stepSizePercent": 10, "maxSurgePercent": 50, "intervalSeconds": 30}
    service = an_incremental_service({**options, "gatewayClassName": "istio", **changed})
    assert {where for _, where in found(service)} == ({path} if path else set())


def test_an_incremental_upgrade_needs_options_and_is_not_checked_without_its_gate() -> None:
    assert found(an_incremental_service(None)) == {("incremental-options-missing", OPTIONS)}
    off = RuleSettings(gates={"RayServiceIncrementalUpgrade": False})
    assert found(an_incremental_service(None), off) == set()


@pytest.mark.parametrize(("built", "finding"), [
    (a_job().spec(ttlSecondsAfterFinished=-1), ("job-ttl-invalid", "spec.ttlSecondsAfterFinished")),
    (a_job().spec(deletionStrategy={}), ("deletion-incomplete", "spec.deletionStrategy")),
    (a_cluster().spec(historyServerOptions={}),
     ("history-collector-missing", "spec.historyServerOptions.collectorOptions")),
    (a_cluster().head_container(image="ray:2.55.1-py310").group()
     .container(image="ray:2.55.1-py311"),
     ("image-version-mismatch", f"{GROUP}.template.spec.containers[0].image")),
    (a_cluster().spec(rayVersion="2.56").autoscaled(version="v1").head_container(image="x")
     .group(priority=1), ("priority-unsupported", f"{GROUP}.priority")),
])  # fmt: skip
def test_the_other_side_of_a_rule(built: Built, finding: tuple[str, str]) -> None:
    assert found(built, ON) == {finding}


def test_both_forms_of_a_deletion_strategy_at_once_are_refused() -> None:
    both = {key: {"policy": "DeleteSelf"} for key in ("onSuccess", "onFailure")}
    assert found(a_job().spec(deletionStrategy=both | {"deletionRules": [RULE]})) == {
        ("deletion-mixed", "spec.deletionStrategy.deletionRules")
    }
