"""Checks of KubeRay 1.7 after creation, and the rule that makes each at admission.

https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/validation.go
"""

from typing import Final

from msgspec import Struct


class Parity(Struct, frozen=True):
    """One check of KubeRay: the function it is in, what it refuses, and our rules; or `why` there
    is none.
    """

    where: str
    refuses: str
    rules: tuple[str, ...] = ()
    why: str = ""


_CLUSTER: Final = "ValidateRayClusterSpec"
_JOB: Final = "ValidateRayJobSpec"
_SERVICE: Final = "ValidateRayServiceSpec"
_DELETION: Final = "validateDeletionConfiguration"
_RULES: Final = "validateDeletionRules"
_LEGACY: Final = "validateLegacyDeletionPolicies"
_OPTIONS: Final = "ValidateClusterUpgradeOptions"
_ROCKSDB: Final = "validateGcsFaultToleranceBackend"
_COLLECTOR: Final = "validateCollectorOptions"
_NETWORK: Final = "validateNetworkPolicy"
_TLS: Final = "validateTLSOptions"
_CRON: Final = "ValidateRayCronJobSpec"

PARITY: Final = (
    Parity("ValidateRayClusterMetadata", "name longer than 53 characters", ("name-too-long",)),
    Parity("ValidateRayClusterMetadata", "name not a DNS-1035 label", ("name-not-dns-label",)),
    Parity(
        "ValidateRayClusterUpgradeOptions",
        "unknown upgrade strategy",
        ("upgrade-strategy-unknown",),
    ),
    Parity(
        "ValidateRayClusterUpgradeOptions",
        "upgrade strategy on a cluster of a RayJob or RayService",
        ("upgrade-strategy-not-own",),
    ),
    Parity(
        "ValidateRayClusterStatus",
        "suspending and suspended at once",
        ("suspend-conditions-conflict",),
    ),
    Parity(_CLUSTER, "head or group without a container", ("containers-missing",)),
    Parity("validateRayGroupResources", "resources given twice", ("resources-given-twice",)),
    Parity(
        "validateRayGroupLabels", "labels as a start parameter", ("labels-in-ray-start-params",)
    ),
    Parity("validateRayGroupLabels", "labels that Kubernetes would refuse", ("ray-label-invalid",)),
    Parity(
        _CLUSTER,
        "no minReplicas or maxReplicas without autoscaling",
        why="the CRD's defaults fill both in before any admission",
    ),
    Parity(
        _CLUSTER,
        "negative or contradicting minReplicas and maxReplicas",
        ("replica-bounds-invalid",),
    ),
    Parity(
        "validateWorkerGroupIdleTimeout",
        "negative idle timeout of a group",
        ("idle-timeout-negative",),
    ),
    Parity(
        "validateWorkerGroupIdleTimeout",
        "idle timeout of a group without autoscaler v2",
        ("idle-timeout-without-v2",),
    ),
    Parity(
        "validateWorkerGroupPriority",
        "priority without Ray 2.56 or autoscaler v2",
        ("priority-unsupported",),
    ),
    Parity(
        _CLUSTER, "annotation and options of fault tolerance together", ("fault-tolerance-twice",)
    ),
    Parity(_CLUSTER, "RAY_REDIS_ADDRESS without fault tolerance", ("redis-address-alone",)),
    Parity(
        _CLUSTER,
        "redis-password, REDIS_PASSWORD, RAY_REDIS_ADDRESS, namespace beside options",
        ("redis-settings-outside-options",),
    ),
    Parity(_ROCKSDB, "RocksDB without its feature gate", ("rocksdb-gate-off",)),
    Parity(_ROCKSDB, "RocksDB with settings of Redis", ("rocksdb-with-redis-settings",)),
    Parity(
        _ROCKSDB,
        "claimName with size, storageClassName or accessModes",
        ("rocksdb-claim-conflict",),
    ),
    Parity(_ROCKSDB, "RocksDB's variables, mount or volume by hand", ("rocksdb-managed-storage",)),
    Parity(_ROCKSDB, "Redis with storage", ("redis-with-storage",)),
    Parity(_CLUSTER, "redis-username or REDIS_USERNAME", ("redis-username-outside-options",)),
    Parity(_CLUSTER, "suspended group without its feature gate", ("group-suspend-gate-off",)),
    Parity(
        _CLUSTER, "RAY_enable_autoscaler_v2 without autoscaling", ("autoscaler-v2-switch-alone",)
    ),
    Parity(_CLUSTER, "suspended group with autoscaling", ("group-suspend-autoscaled",)),
    Parity(_CLUSTER, "autoscaler version as option and variable", ("autoscaler-version-twice",)),
    Parity(
        _CLUSTER, "restartPolicy other than Never with autoscaler v2", ("restart-policy-with-v2",)
    ),
    Parity(
        "rayClusterReconcile",
        "restartPolicy other than Never with autoscaler v1 (an event only)",
        ("restart-policy-not-never",),
    ),
    Parity(_CLUSTER, "negative idle timeout of the autoscaler", ("idle-timeout-negative",)),
    Parity(
        _CLUSTER,
        "KUBERAY_GEN_AUTOSCALER_START_CMD in the autoscaler's env",
        ("autoscaler-command-variable",),
    ),
    Parity(_CLUSTER, "history server without its feature gate", ("history-gate-off",)),
    Parity(_COLLECTOR, "no collector, or no image", ("history-collector-missing",)),
    Parity(_COLLECTOR, "managed variables of the collector", ("history-managed-variable",)),
    Parity(
        _COLLECTOR, "no storage backend, or not all that it needs", ("history-storage-incomplete",)
    ),
    Parity(_CLUSTER, "a container named ray-history-collector", ("history-container-taken",)),
    Parity(
        _CLUSTER,
        "token authentication without Ray 2.52, or 2.55 with Kubernetes tokens",
        ("auth-ray-too-old",),
    ),
    Parity(
        _CLUSTER,
        "Kubernetes tokens with a secret, or without mode token",
        ("auth-kubernetes-conflict",),
    ),
    Parity(_CLUSTER, "network policy without its feature gate", ("network-policy-gate-off",)),
    Parity(
        _NETWORK,
        "rules for a direction that the mode leaves open",
        ("network-policy-unused-rules",),
    ),
    Parity(_NETWORK, "group name not a DNS-1123 label", ("network-policy-group-name",)),
    Parity(_NETWORK, "rules for a group that does not exist", ("network-policy-group-unknown",)),
    Parity(_CLUSTER, "TLS options without their feature gate", ("tls-gate-off",)),
    Parity(_TLS, "TLS variables or mounts by hand", ("tls-set-by-hand",)),
    Parity(
        "rayClusterReconcile",
        "TLS options without cert-manager",
        why="it depends on what else is installed, not on the object",
    ),
    Parity("ValidateRayJobMetadata", "name longer than 47 characters", ("name-too-long",)),
    Parity("ValidateRayJobMetadata", "name not a DNS-1035 label", ("name-not-dns-label",)),
    Parity(_JOB, "suspend without shutdownAfterJobFinishes", ("job-suspend-without-shutdown",)),
    Parity(_JOB, "negative ttlSecondsAfterFinished", ("job-ttl-invalid",)),
    Parity(
        _DELETION, "ttlSecondsAfterFinished without shutdownAfterJobFinishes", ("job-ttl-invalid",)
    ),
    Parity(_DELETION, "deletion strategy without its feature gate", ("deletion-gate-off",)),
    Parity(
        _DELETION,
        "deletion rules with shutdownAfterJobFinishes, or with onSuccess and onFailure",
        ("deletion-mixed",),
    ),
    Parity(_DELETION, "empty deletion strategy", ("deletion-incomplete",)),
    Parity(
        _LEGACY,
        "onSuccess or onFailure without the other, or without a policy",
        ("deletion-incomplete",),
    ),
    Parity(_LEGACY, "DeleteNone with shutdownAfterJobFinishes", ("deletion-none-with-shutdown",)),
    Parity(
        _RULES,
        "DeleteCluster or DeleteWorkers with clusterSelector",
        ("deletion-of-foreign-cluster",),
    ),
    Parity(_RULES, "DeleteWorkers with autoscaling", ("deletion-of-autoscaled-workers",)),
    Parity(
        "validateDeletionCondition",
        "not exactly one status, or a negative time",
        ("deletion-condition-invalid",),
    ),
    Parity(_RULES, "two rules with one policy for one status", ("deletion-rule-duplicate",)),
    Parity(
        "validateTTLConsistency", "times that contradict the order of deletion", ("deletion-order",)
    ),
    Parity(_JOB, "suspend with clusterSelector", ("job-suspend-with-selector",)),
    Parity(_JOB, "neither rayClusterSpec nor clusterSelector", ("job-without-cluster",)),
    Parity(_JOB, "clusterSelector without a cluster's name", ("job-selector-without-name",)),
    Parity(_JOB, "clusterSelector with SidecarMode", ("job-sidecar-conflict",)),
    Parity(
        _JOB, "backoffLimit with clusterSelector or InteractiveMode", ("job-backoff-unsupported",)
    ),
    Parity(
        _JOB,
        "SidecarMode with submitterPodTemplate, submitterConfig or a head that restarts",
        ("job-sidecar-conflict",),
    ),
    Parity(_JOB, "Kubernetes tokens in a RayJob", ("auth-kubernetes-unsupported",)),
    Parity(_JOB, "runtimeEnvYAML that is not YAML", ("job-runtime-env-unreadable",)),
    Parity(
        _JOB,
        "activeDeadlineSeconds or preRunningDeadlineSeconds not above 0",
        ("job-number-not-positive",),
    ),
    Parity(_JOB, "negative backoffLimit", ("job-number-not-positive",)),
    Parity(
        "ValidateRayJobStatus",
        "Waiting outside of InteractiveMode",
        ("job-waiting-not-interactive",),
    ),
    Parity(_CRON, "name longer than 36 characters", ("name-too-long",)),
    Parity(_CRON, "schedule with TZ, or that cannot be read", ("cron-schedule-invalid",)),
    Parity(_CRON, "empty or unknown timeZone", ("cron-time-zone-invalid",)),
    Parity("ValidateRayServiceMetadata", "name longer than 47 characters", ("name-too-long",)),
    Parity("ValidateRayServiceMetadata", "name not a DNS-1035 label", ("name-not-dns-label",)),
    Parity(
        "validateInitializingTimeout",
        "initializing timeout not a positive duration",
        ("initializing-timeout-invalid",),
    ),
    Parity(_SERVICE, "Kubernetes tokens in a RayService", ("auth-kubernetes-unsupported",)),
    Parity(_SERVICE, "a name for the head service", ("service-head-service-named",)),
    Parity(_SERVICE, "unknown upgrade strategy", ("service-upgrade-type-unknown",)),
    Parity(
        _SERVICE, "negative rayClusterDeletionDelaySeconds", ("service-deletion-delay-negative",)
    ),
    Parity(
        _OPTIONS, "incremental upgrade without autoscaling", ("incremental-without-autoscaling",)
    ),
    Parity(
        _OPTIONS,
        "incremental upgrade without options, step, interval or gateway",
        ("incremental-options-missing",),
    ),
    Parity(
        _OPTIONS,
        "percentage or interval out of range, or step above surge",
        ("incremental-option-invalid",),
    ),
    Parity("webhooks/v1", "two worker groups with one name", ("group-name-duplicate",)),
)
