"""All rules, in order: action, who else refuses the value, and since which release of KubeRay."""

from collections.abc import Callable, Iterable
from inspect import cleandoc
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from webhook.validation import (
    accelerators,
    autoscaling,
    decoding,
    deletion,
    demands,
    fault_tolerance,
    feature_gates,
    groups,
    head_service,
    in_place_resize,
    lifecycle,
    limit_ranges,
    metadata,
    multislice,
    opt_ins,
    quota_forecast,
    ray_command,
    ray_start,
    raycronjob,
    rayjob,
    rayservice,
    scheduling,
    schema,
    security,
    serve_config,
    shard_groups,
    submission,
    updates,
    working_dir,
)
from webhook.validation.finding import ALWAYS, DENY, WARN, Fault, KubeRay, Level
from webhook.validation.pods.families import FAMILIES
from webhook.validation.ray_object import RayObject

T = TypeVar("T")

Check = Callable[[T], Iterable[Fault]]

KUBERAY: Final = "KubeRay"
API_SERVER: Final = "API server"
RAY: Final = "Ray"
NO_ONE_ELSE: Final = "no one else"

_CLUSTER: Final = "ValidateRayClusterSpec"
_JOB: Final = "ValidateRayJobSpec"
_DELETION: Final = "validateDeletionConfiguration"
_BACKEND: Final = "validateGcsFaultToleranceBackend"
_IDLE_TIMEOUT: Final = "validateWorkerGroupIdleTimeout"
_METADATA: Final = tuple(
    f"Validate{kind}Metadata" for kind in ("RayCluster", "RayJob", "RayService")
)


class Rule(Struct, Generic[T], frozen=True):
    """A rule over views of type T; it is skipped if KubeRay is older than `since`."""

    id: str
    level: Level
    check: Check[T]
    since: KubeRay
    by: str
    """The program that refuses the value later, in the object or in objects created from it."""
    functions: tuple[str, ...] = ()
    """The functions of KubeRay's validation.go that refuse the value."""

    @property
    def text(self) -> str:
        """The documentation in paragraphs: problem, reason and source."""
        documentation = cleandoc(self.check.__doc__ or "")
        listed = ", ".join(f"`{name}`" for name in self.functions)
        return f"{documentation}\n\nKubeRay validation.go ({listed})" if listed else documentation


def deny(check: Check[T], *functions: str, by: str = "", since: KubeRay = ALWAYS) -> Rule[T]:
    """Return a rule, named like its function, that denies unless settings override this."""
    refused_by = by or (KUBERAY if functions else NO_ONE_ELSE)
    return Rule(_name(check), DENY, check=check, since=since, by=refused_by, functions=functions)


def warn(check: Check[T], *, by: str = NO_ONE_ELSE) -> Rule[T]:
    """Return a rule, named like its function, that warns unless settings override this."""
    return Rule(_name(check), WARN, check=check, since=ALWAYS, by=by)


def _name(check: Check[T]) -> str:
    name: str = getattr(check, "__name__", "")
    return name.replace("_", "-")


def _family(name: str, text: str) -> Rule[RayObject]:
    """Return the rule of a family of checks of pod templates."""

    def check(ray_object: RayObject) -> Iterable[Fault]:
        return ray_object.faults_of(name)

    check.__doc__ = text
    return Rule(name, DENY, check=check, since=ALWAYS, by=API_SERVER)


DECODING_RULES: Final = (deny(decoding.value_not_decodable, by=KUBERAY),)
"""The rules of values that stop KubeRay for all objects."""

OBJECT_RULES: Final = (
    *DECODING_RULES,
    deny(metadata.name_too_long, *_METADATA, "ValidateRayCronJobSpec"),
    deny(metadata.name_not_dns_label, *_METADATA, since=(1, 4)),
    deny(feature_gates.feature_gate_off, _CLUSTER, _BACKEND, _DELETION),
    deny(metadata.initializing_timeout_invalid, "validateInitializingTimeout", since=(1, 5)),
    warn(metadata.webhook_name_unknown),
    warn(metadata.kuberay_name_unknown),
    deny(shard_groups.shard_index_beyond_count),
    deny(shard_groups.shard_index_copied),
    deny(metadata.annotation_value_invalid),
    deny(groups.identity_label_in_template),
    *(_family(name, documentation) for name, documentation in FAMILIES.items()),
    warn(lifecycle.placeholder_unresolved),
    warn(lifecycle.image_reference_invalid),
    deny(head_service.head_port_unnamed, by=KUBERAY),
    warn(metadata.ignore_label_not_true),
    warn(demands.demand_above_nodes),
    warn(working_dir.working_dir_no_archive, by=RAY),
)
CLUSTER_RULES: Final = (
    deny(updates.upgrade_strategy_unknown, "ValidateRayClusterUpgradeOptions"),
    deny(updates.upgrade_strategy_not_own, "ValidateRayClusterUpgradeOptions"),
    deny(groups.containers_missing, _CLUSTER),
    deny(groups.too_many_groups),
    deny(groups.raycluster_too_large),
    warn(groups.too_many_pods),
    deny(groups.group_name_duplicate, by=KUBERAY),
    deny(groups.group_host_names_duplicate),
    deny(groups.group_name_reserved),
    deny(groups.group_name_invalid),
    deny(groups.group_name_no_host_name),
    warn(groups.fqdn_too_long),
    deny(groups.num_of_hosts_invalid),
    deny(groups.replica_bounds_invalid, _CLUSTER, since=(1, 6)),
    warn(groups.replicas_out_of_bounds),
    warn(groups.max_replicas_unbounded),
    deny(accelerators.tpu_topology_mismatch),
    deny(accelerators.tpu_subslice_larger),
    warn(accelerators.tpu_subslice_apart),
    deny(accelerators.tpu_node_selector_missing),
    warn(accelerators.tpu_topology_unlisted, by=RAY),
    deny(accelerators.variables_too_large),
    warn(accelerators.device_outside_first_container),
    warn(accelerators.neuron_cores_missing),
    deny(accelerators.amd_visible_devices, by=RAY),
    warn(accelerators.identity_by_hand),
    warn(accelerators.head_not_counted),
    warn(lifecycle.shared_memory_above_limit),
    warn(lifecycle.volume_medium_unknown),
    warn(lifecycle.memory_below_mebibyte),
    warn(accelerators.accelerator_unknown),
    warn(lifecycle.head_memory_too_small),
    warn(lifecycle.master_address_local),
    warn(multislice.slice_count_mismatch),
    warn(multislice.multi_slice_autoscaled),
    warn(multislice.multi_slice_unreachable),
    deny(in_place_resize.ippr_malformed, by=RAY),
    deny(in_place_resize.ippr_value_too_low),
    deny(in_place_resize.ippr_group_not_resizable, by=RAY),
    warn(in_place_resize.ippr_without_effect),
    deny(autoscaling.idle_timeout_negative, _CLUSTER, _IDLE_TIMEOUT, since=(1, 6)),
    deny(autoscaling.idle_timeout_without_v2, _IDLE_TIMEOUT, since=(1, 6)),
    warn(autoscaling.idle_timeout_short),
    deny(autoscaling.priority_unsupported, "validateWorkerGroupPriority"),
    deny(autoscaling.group_suspend_autoscaled, _CLUSTER),
    deny(autoscaling.autoscaler_v2_switch_alone, _CLUSTER, since=(1, 5)),
    deny(autoscaling.autoscaler_version_twice, _CLUSTER),
    deny(autoscaling.restart_policy_with_v2, _CLUSTER),
    warn(autoscaling.restart_policy_not_never, by=KUBERAY),
    warn(autoscaling.multi_host_with_v1),
    deny(autoscaling.autoscaler_command_variable, _CLUSTER, since=(1, 7)),
    deny(autoscaling.param_ends_autoscaler, by=RAY),
    deny(autoscaling.autoscaled_without_groups, by=RAY),
    deny(autoscaling.group_resource_unreadable, by=RAY),
    deny(autoscaling.cpu_unknown, by=RAY),
    warn(autoscaling.devices_not_counted),
    deny(ray_start.resources_given_twice, "validateRayGroupResources"),
    deny(ray_start.labels_in_ray_start_params, "validateRayGroupLabels", since=(1, 5)),
    deny(ray_start.ray_label_invalid, "validateRayGroupLabels"),
    deny(ray_start.ray_label_reserved, by=RAY),
    warn(ray_start.ray_start_param_unknown, by=RAY),
    deny(ray_start.ray_start_value_invalid, by=RAY),
    deny(ray_start.dashboard_host_unreachable),
    deny(head_service.head_service_type_unknown, by=API_SERVER),
    deny(head_service.head_dashboard_off),
    deny(head_service.head_dashboard_port_mismatch),
    warn(ray_start.ray_version_unreadable),
    warn(ray_start.ray_version_mismatch),
    warn(ray_start.image_version_mismatch),
    warn(ray_start.variable_lost),
    warn(ray_start.variable_replaces_kuberay),
    warn(ray_command.ray_command_nested_shell),
    warn(ray_command.ray_command_never_ends),
    warn(ray_command.ray_command_syntax),
    deny(fault_tolerance.fault_tolerance_twice, _CLUSTER),
    deny(fault_tolerance.redis_address_alone, _CLUSTER),
    deny(fault_tolerance.redis_address_missing),
    deny(fault_tolerance.redis_settings_outside_options, _CLUSTER),
    deny(fault_tolerance.redis_username_outside_options, _CLUSTER),
    deny(fault_tolerance.rocksdb_with_redis_settings, _BACKEND),
    deny(fault_tolerance.rocksdb_claim_conflict, _BACKEND),
    deny(fault_tolerance.rocksdb_managed_storage, _BACKEND),
    deny(fault_tolerance.redis_with_storage, _BACKEND),
    deny(fault_tolerance.history_collector_missing, "validateCollectorOptions"),
    deny(fault_tolerance.history_managed_variable, "validateCollectorOptions"),
    deny(fault_tolerance.history_storage_incomplete, "validateCollectorOptions"),
    deny(fault_tolerance.history_container_taken, _CLUSTER),
    deny(security.auth_ray_too_old, _CLUSTER),
    deny(security.auth_kubernetes_conflict, _CLUSTER),
    deny(security.auth_kubernetes_unsupported, _JOB, "ValidateRayServiceSpec"),
    deny(security.network_policy_unused_rules, "validateNetworkPolicy"),
    deny(security.network_policy_group_name, "validateNetworkPolicy"),
    deny(security.network_policy_group_unknown, "validateNetworkPolicy"),
    deny(security.tls_set_by_hand, "validateTLSOptions"),
    warn(scheduling.gang_autoscaled),
    warn(scheduling.gang_other_scheduler),
    warn(scheduling.gang_label_value),
    warn(scheduling.scheduling_group_in_template),
    warn(scheduling.scheduling_group_obstacle),
    warn(scheduling.scheduling_group_not_served),
    warn(opt_ins.annotation_without_effect),
    warn(scheduling.compute_domain_not_kept),
    warn(scheduling.compute_domain_head_outside),
    warn(scheduling.compute_domain_claimed),
    warn(scheduling.compute_domain_shared_node),
    warn(scheduling.node_label_not_allowed),
    warn(scheduling.kueue_slices_missing),
    warn(scheduling.kueue_replicas_mixed),
    deny(scheduling.kueue_slice_size),
    warn(scheduling.kueue_too_many_groups),
    deny(scheduling.kueue_group_named_head),
    warn(scheduling.kueue_autoscaling_not_elastic),
    warn(lifecycle.host_network_dns),
    warn(lifecycle.grace_too_short),
)
JOB_RULES: Final = (
    deny(rayjob.job_suspend_without_shutdown, _JOB),
    deny(rayjob.job_suspend_with_selector, _JOB),
    deny(rayjob.job_ttl_invalid, _JOB, _DELETION, since=(1, 4)),
    deny(rayjob.job_without_cluster, _JOB),
    deny(rayjob.job_selector_without_name, _JOB, since=(1, 5)),
    deny(rayjob.job_sidecar_conflict, _JOB, since=(1, 5)),
    deny(rayjob.job_submission_mode_unknown),
    warn(rayjob.job_field_ignored),
    warn(rayjob.job_id_invalid),
    deny(rayjob.job_submitter_without_container),
    deny(rayjob.job_backoff_unsupported, _JOB),
    deny(rayjob.job_number_not_positive, _JOB),
    deny(rayjob.job_runtime_env_unreadable, _JOB),
    deny(rayjob.job_waiting_not_interactive, "ValidateRayJobStatus"),
    deny(rayjob.job_entrypoint_missing),
    deny(rayjob.job_entrypoint_resources_unreadable, by=RAY),
    deny(rayjob.job_submitter_restarts),
    deny(rayjob.job_runtime_env_value_invalid, by=RAY),
    warn(rayjob.job_runtime_env_key_unknown),
    warn(scheduling.kueue_job_not_shut_down),
    warn(submission.job_entrypoint_in_shell),
    warn(submission.job_runtime_env_in_shell),
    deny(deletion.deletion_mixed, _DELETION),
    deny(deletion.deletion_incomplete, _DELETION, "validateLegacyDeletionPolicies"),
    deny(deletion.deletion_none_with_shutdown, "validateLegacyDeletionPolicies"),
    deny(deletion.deletion_of_foreign_cluster, "validateDeletionRules"),
    deny(deletion.deletion_of_autoscaled_workers, "validateDeletionRules"),
    deny(deletion.deletion_condition_invalid, "validateDeletionCondition"),
    deny(deletion.deletion_rule_duplicate, "validateDeletionRules"),
    deny(deletion.deletion_order, "validateTTLConsistency"),
)
SERVICE_RULES: Final = (
    deny(rayservice.service_head_service_named, "ValidateRayServiceSpec"),
    deny(rayservice.service_upgrade_type_unknown, "ValidateRayServiceSpec"),
    deny(rayservice.service_upgrade_type_missing),
    deny(rayservice.service_deletion_delay_negative, "ValidateRayServiceSpec"),
    deny(rayservice.incremental_without_autoscaling, "ValidateClusterUpgradeOptions"),
    deny(rayservice.incremental_options_missing, "ValidateClusterUpgradeOptions"),
    deny(rayservice.incremental_option_invalid, "ValidateClusterUpgradeOptions"),
    deny(serve_config.serve_config_missing, by=RAY),
    deny(serve_config.serve_config_unreadable, by=RAY),
    deny(serve_config.serve_application_invalid, by=RAY),
    deny(serve_config.serve_value_invalid, by=RAY),
    warn(serve_config.serve_key_unknown),
    warn(head_service.serve_port_mismatch),
    warn(head_service.serve_unreachable),
)
CRON_RULES: Final = (
    deny(raycronjob.cron_schedule_invalid, "ValidateRayCronJobSpec"),
    deny(raycronjob.cron_time_zone_invalid, "ValidateRayCronJobSpec", since=(1, 7)),
)
SCALE_RULES: Final = (warn(multislice.slices_renumbered),)
"""Rules that also apply to an update that only scales."""

UPDATE_RULES: Final = (
    warn(updates.group_removed),
    warn(updates.group_reordered),
    warn(updates.num_of_hosts_changed),
    warn(updates.pods_stay_old),
    warn(updates.recreate_deletes_pods),
    warn(updates.service_starts_new_cluster),
    *SCALE_RULES,
    warn(opt_ins.annotation_for_new_pods),
    deny(shard_groups.shard_index_changed),
)
QUOTA_RULES: Final = (
    warn(quota_forecast.quota_exceeded, by=API_SERVER),
    warn(limit_ranges.limit_range_violated, by=API_SERVER),
)
"""Rules of the limits of a namespace, of new objects and of updates that change amounts."""

FILE_RULES: Final = (
    deny(schema.schema_violated, by=API_SERVER),
    deny(schema.field_unknown, by=API_SERVER),
    warn(schema.key_duplicate),
    warn(autoscaling.autoscaler_options_unused),
    warn(groups.zero_replicas_raised),
    warn(lifecycle.ray_stop_in_pre_stop),
)

RULES: Final[tuple[Rule[Any], ...]] = (
    *OBJECT_RULES,
    *CLUSTER_RULES,
    *JOB_RULES,
    *SERVICE_RULES,
    *CRON_RULES,
    *UPDATE_RULES,
    *QUOTA_RULES,
    *FILE_RULES,
)
