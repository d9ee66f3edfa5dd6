"""Features that KubeRay sets up itself: cases in addition to the examples."""

import pytest

from tests.validation.builders import (
    ClusterBuilder,
    a_cluster,
    a_job,
    found,
)
from webhook.validation.rule_settings import GATES, RuleSettings

ON = RuleSettings(gates=dict.fromkeys(GATES, True))
HEAD = "spec.headGroupSpec.template.spec"
COLLECTOR = "spec.historyServerOptions.collectorOptions"


def a_cluster_with_history(**env: str) -> ClusterBuilder:
    entries = [{"name": name, "value": value} for name, value in env.items()]
    return (
        a_cluster()
        .spec(historyServerOptions={"collectorOptions": {"image": "collector:v1", "env": entries}})
        .group()
    )


@pytest.mark.parametrize(
    ("env", "missing"),
    [
        ({"STORAGE_BACKEND": "gcs", "GCS_BUCKET": "b"}, 0),
        ({"STORAGE_BACKEND": "GCS"}, 1),
        ({"STORAGE_BACKEND": "aliyunoss", "ALIYUN_BUCKET": "b"}, 2),
        ({"STORAGE_BACKEND": "azureblob"}, 1),
        ({"STORAGE_BACKEND": "azureblob", "AZURE_STORAGE_ACCOUNT_URL": "u"}, 0),
        (
            {
                "STORAGE_BACKEND": "azureblob",
                "AZURE_STORAGE_AUTH_MODE": "connection_string",
                "AZURE_STORAGE_ACCOUNT_URL": "u",
            },
            1,
        ),
        (
            {
                "STORAGE_BACKEND": "azureblob",
                "AZURE_STORAGE_AUTH_MODE": " Default ",
                "AZURE_STORAGE_ACCOUNT_URL": "u",
            },
            0,
        ),
        ({"STORAGE_BACKEND": "one that is not known"}, 0),
        ({}, 1),
        ({"STORAGE_BACKEND": ""}, 1),
    ],
)
def test_a_storage_needs_its_variables(env: dict[str, str], missing: int) -> None:
    expected = {("history-storage-incomplete", f"{COLLECTOR}.env")} if missing else set()
    assert found(a_cluster_with_history(**env), ON) == expected


def test_rocksdb_finds_everything_that_is_set_by_hand() -> None:
    options = {
        "backend": "rocksdb",
        "redisAddress": "r",
        "redisUsername": {},
        "redisPassword": {},
        "externalStorageNamespace": "x",
    }
    cluster = (
        a_cluster()
        .spec(gcsFaultToleranceOptions=options)
        .head_env("RAY_gcs_storage", "x")
        .head_env("RAY_gcs_storage_path", "x")
    )
    pod = cluster.value["spec"]["headGroupSpec"]["template"]["spec"]
    pod["containers"][0]["volumeMounts"] = [
        {"name": "mine", "mountPath": "/data/gcs"},
        {"name": "other", "mountPath": "/x"},
    ]
    pod["volumes"] = [{"name": "mine", "emptyDir": {}}, {"name": "other", "emptyDir": {}}]
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
    cluster = (
        a_cluster()
        .spec(gcsFaultToleranceOptions={})
        .annotation("ray.io/external-storage-namespace", "x")
    )
    cluster.head(rayStartParams={"redis-password": "x", "redis-username": "x"})
    cluster.head_env("REDIS_PASSWORD", "x").head_env("RAY_REDIS_ADDRESS", "x").head_env(
        "REDIS_USERNAME", "x"
    )
    env = f"{HEAD}.containers[0].env"
    assert found(cluster) == {
        ("redis-settings-outside-options", "spec.headGroupSpec.rayStartParams[redis-password]"),
        ("redis-settings-outside-options", f"{env}[0].name"),
        ("redis-settings-outside-options", f"{env}[1].name"),
        (
            "redis-settings-outside-options",
            "metadata.annotations[ray.io/external-storage-namespace]",
        ),
        ("redis-username-outside-options", "spec.headGroupSpec.rayStartParams[redis-username]"),
        ("redis-username-outside-options", f"{env}[2].name"),
    }


@pytest.mark.parametrize(
    ("enabled", "rules"), [("true", set()), ("TRUE", set()), ("false", {"redis-address-alone"})]
)
def test_the_old_annotation_turns_fault_tolerance_on(enabled: str, rules: set[str]) -> None:
    cluster = (
        a_cluster()
        .annotation("ray.io/ft-enabled", enabled)
        .head_env("RAY_REDIS_ADDRESS", "redis:6379")
    )
    assert {rule for rule, _ in found(cluster)} == rules


def test_tls_by_hand_is_found_in_head_workers_and_autoscaler() -> None:
    mounts = [{"name": "ray-tls", "mountPath": "/x"}, {"name": "x", "mountPath": "/etc/ray/tls"}]
    volumes = [{"name": "ray-tls", "emptyDir": {}}, {"name": "x", "emptyDir": {}}]
    env = [{"name": "RAY_TLS_CA_CERT", "value": "x"}]
    cluster = (
        a_cluster()
        .spec(tlsOptions={"enabled": True})
        .autoscaled(env=env, volumeMounts=mounts)
        .head_env("RAY_USE_TLS", "1")
    )
    cluster.group(maxReplicas=3).container(volumeMounts=mounts).pod(volumes=volumes)
    cluster.value["spec"]["headGroupSpec"]["template"]["spec"]["volumes"] = volumes
    worker = "spec.workerGroupSpecs[0].template.spec.containers[0]"
    assert {path for rule, path in found(cluster, ON) if rule == "tls-set-by-hand"} == {
        f"{HEAD}.containers[0].env[0].name",
        f"{worker}.volumeMounts[0]",
        f"{worker}.volumeMounts[1]",
        "spec.autoscalerOptions.env[0].name",
        "spec.autoscalerOptions.volumeMounts[0]",
        "spec.autoscalerOptions.volumeMounts[1]",
    }
    assert found(cluster.spec(tlsOptions={"enabled": False}), ON) == set()


@pytest.mark.parametrize(
    ("version", "options", "path"),
    [
        ("2.52.0", {"mode": "token"}, None),
        ("v2.52", {"mode": "token"}, None),
        ("2.51.9", {"mode": "token"}, "spec.rayVersion"),
        ("latest", {"mode": "token"}, "spec.rayVersion"),
        ("2", {"mode": "token"}, "spec.rayVersion"),
        ("2.54.0", {"mode": "token", "enableK8sTokenAuth": True}, "spec.rayVersion"),
        ("2.55.0", {"mode": "token", "enableK8sTokenAuth": True}, None),
        ("2.55.0", {"enableK8sTokenAuth": True}, "spec.authOptions.mode"),
        ("2.10.0", {"mode": "disabled"}, None),
    ],
)
def test_authentication_needs_its_ray_release(
    version: str, options: dict[str, object], path: str | None
) -> None:
    cluster = a_cluster().spec(rayVersion=version, authOptions=options)
    assert {where for rule, where in found(cluster) if rule.startswith("auth-")} == (
        {path} if path else set()
    )


def test_network_policies_check_every_holder_of_rules() -> None:
    rules: dict[str, object] = {"ingressRules": [{}], "egressRules": [{}]}
    policy = {
        "mode": "DenyAllIngress",
        "head": rules,
        "worker": rules,
        "workerGroups": [{"groupName": "workers", **rules}],
    }
    assert {path for _, path in found(a_cluster().spec(networkPolicy=policy).group(), ON)} == {
        "spec.networkPolicy.head.egressRules",
        "spec.networkPolicy.worker.egressRules",
        "spec.networkPolicy.workerGroups[0].egressRules",
    }


def test_a_gang_has_one_scheduler() -> None:
    cluster = (
        a_cluster()
        .label("ray.io/gang-scheduling-enabled", "True")
        .group()
        .pod(schedulerName="volcano")
    )
    assert found(cluster) == set()
    assert found(cluster, ON) == {
        ("gang-other-scheduler", "spec.workerGroupSpecs[0].template.spec.schedulerName")
    }


def test_a_rayjob_passes_its_labels_on_to_its_cluster() -> None:
    job = a_job(a_cluster().autoscaled().group()).label("ray.io/gang-scheduling-enabled", "true")
    assert found(job) == {("gang-autoscaled", "metadata.labels[ray.io/gang-scheduling-enabled]")}
