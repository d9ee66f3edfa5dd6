"""Table of the fields of a template that the API server checks, with the family and the check."""

from typing import Any, Final

from webhook.api.formats import is_dns_subdomain, is_label_value, is_qualified_name
from webhook.api.review import FORBIDDEN, REQUIRED
from webhook.validation.pods.amounts import claims_of_pod, overhead, pod_resources, resources
from webhook.validation.pods.containers import (
    RESTARTS,
    containers,
    devices,
    init_container,
    lifecycle_handler,
    main_container,
    mounts,
    ports,
    probe,
    resize_policies,
    restart_rules,
    variables,
    variables_from,
)
from webhook.validation.pods.families import (
    LABELS,
    LIFECYCLE,
    NAMES,
    PLACEMENT,
    PORTS,
    PROBES,
    SECURITY,
    VALUES,
    VOLUMES,
)
from webhook.validation.pods.inspection import (
    Check,
    Examine,
    Node,
    Pod,
    Way,
    entries,
    key,
    mapping,
    shown,
    text_of,
    tree,
)
from webhook.validation.pods.placement import (
    conditions,
    constraints,
    pod_term,
    preferred_term,
    required_terms,
    selected_labels,
    toleration,
    weighted_term,
)
from webhook.validation.pods.security_context import container_context, host, pod_context
from webhook.validation.pods.value_checks import (
    INT32_MAX,
    KEY_ADVICE,
    PORT_MAX,
    SUBDOMAIN_ADVICE,
    VALUE_ADVICE,
    dns_label,
    file_mode,
    is_address,
    not_negative,
    one_of,
    positive,
    required_subdomain,
    string,
    subdomain,
    user_id,
    within,
)
from webhook.validation.pods.volumes import volumes

_ANNOTATIONS_MAX: Final = 256 * 1024
_NAMESERVERS_MAX: Final = 3
_SEARCHES_MAX: Final = 32
_HOSTNAME_MAX: Final = 64

_pull_policy = one_of("Always", "IfNotPresent", "Never", empty=True)
_propagation = one_of("None", "HostToContainer", "Bidirectional")
_unsatisfiable = one_of("DoNotSchedule", "ScheduleAnyway")
_dns_policy = one_of("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None", empty=True)
_effect = one_of("NoSchedule", "PreferNoSchedule", "NoExecute", empty=True)
_profile_type = one_of("RuntimeDefault", "Localhost", "Unconfined")

_PROBE_ROWS: Final[tuple[tuple[str, str, Check], ...]] = (
    ("initialDelaySeconds", PROBES, not_negative),
    ("timeoutSeconds", PROBES, not_negative),
    ("periodSeconds", PROBES, not_negative),
    ("successThreshold", PROBES, not_negative),
    ("failureThreshold", PROBES, not_negative),
    ("terminationGracePeriodSeconds", PROBES, positive),
    ("httpGet.scheme", PROBES, one_of("HTTP", "HTTPS", empty=True)),
)
_CONTAINER_ROWS: Final[tuple[tuple[str, str, Check], ...]] = (
    ("imagePullPolicy", VALUES, _pull_policy),
    ("terminationMessagePolicy", VALUES, one_of("File", "FallbackToLogsOnError", empty=True)),
    ("ports[].containerPort", PORTS, within(1, PORT_MAX, zero=True)),
    ("ports[].hostPort", PORTS, within(1, PORT_MAX, zero=True)),
    ("ports[].protocol", VALUES, one_of("TCP", "UDP", "SCTP", empty=True)),
    ("volumeMounts[].mountPropagation", VALUES, one_of("None", "HostToContainer", "Bidirectional")),
    ("volumeMounts[].recursiveReadOnly", VALUES, one_of("Disabled", "IfPossible", "Enabled")),
    ("resizePolicy[].resourceName", VALUES, one_of("cpu", "memory")),
    ("resizePolicy[].restartPolicy", VALUES, one_of("NotRequired", "RestartContainer")),
    ("lifecycle.postStart.httpGet.scheme", LIFECYCLE, one_of("HTTP", "HTTPS", empty=True)),
    ("lifecycle.preStop.httpGet.scheme", LIFECYCLE, one_of("HTTP", "HTTPS", empty=True)),
    ("securityContext.runAsUser", SECURITY, user_id),
    ("securityContext.runAsGroup", SECURITY, user_id),
    ("securityContext.procMount", VALUES, one_of("Default", "Unmasked")),
    ("securityContext.seccompProfile.type", VALUES, _profile_type),
    ("securityContext.appArmorProfile.type", VALUES, _profile_type),
    *(
        (f"{name}.{path}", family, check)
        for name in ("livenessProbe", "readinessProbe", "startupProbe")
        for path, family, check in _PROBE_ROWS
    ),
)
_CONTAINER_PARTS: Final[tuple[tuple[str, Examine], ...]] = (
    ("ports", ports),
    ("env", variables),
    ("envFrom", variables_from),
    ("volumeMounts", mounts),
    ("volumeDevices", devices),
    ("resources", resources),
    ("resizePolicy", resize_policies),
    ("restartPolicyRules", restart_rules),
    ("lifecycle.postStart", lifecycle_handler),
    ("lifecycle.preStop", lifecycle_handler),
    ("securityContext", container_context),
)
_PROBE_PARTS: Final = tuple(
    (name, probe(name)) for name in ("livenessProbe", "readinessProbe", "startupProbe")
)


def _below(path: str, rows: Any) -> Any:  # noqa: ANN401 - rows of either kind
    return tuple((f"{path}.{row[0]}", *row[1:]) for row in rows)


_SELECTOR: Final = "affinity.{}.{}DuringSchedulingIgnoredDuringExecution"
_ROWS: Final[tuple[tuple[str, str, Check], ...]] = (
    ("restartPolicy", VALUES, one_of("Always", "OnFailure", "Never", empty=True)),
    ("dnsPolicy", VALUES, _dns_policy),
    ("preemptionPolicy", VALUES, one_of("PreemptLowerPriority", "Never")),
    ("os.name", VALUES, one_of("linux", "windows")),
    ("serviceAccountName", NAMES, subdomain),
    ("priorityClassName", NAMES, subdomain),
    ("runtimeClassName", NAMES, required_subdomain),
    ("nodeName", NAMES, subdomain),
    ("hostname", NAMES, dns_label),
    ("subdomain", NAMES, dns_label),
    ("hostAliases[].ip", NAMES, string(is_address, "write an IP address", empty=False)),
    ("hostAliases[].hostnames[]", NAMES, required_subdomain),
    ("dnsConfig.nameservers[]", NAMES, string(is_address, "write an IP address", empty=False)),
    ("resourceClaims[].resourceClaimName", NAMES, required_subdomain),
    ("resourceClaims[].resourceClaimTemplateName", NAMES, required_subdomain),
    ("schedulingGroup.podGroupName", NAMES, required_subdomain),
    ("activeDeadlineSeconds", LIFECYCLE, within(1, INT32_MAX, wide=True)),
    ("tolerations[].effect", VALUES, _effect),
    ("topologySpreadConstraints[].maxSkew", PLACEMENT, positive),
    ("topologySpreadConstraints[].minDomains", PLACEMENT, positive),
    ("topologySpreadConstraints[].whenUnsatisfiable", VALUES, _unsatisfiable),
    ("topologySpreadConstraints[].nodeAffinityPolicy", VALUES, one_of("Honor", "Ignore")),
    ("topologySpreadConstraints[].nodeTaintsPolicy", VALUES, one_of("Honor", "Ignore")),
    *(
        (f"{_SELECTOR.format(kind, 'preferred')}[].weight", PLACEMENT, within(1, 100))
        for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity")
    ),
    *(
        (f"securityContext.{name}", SECURITY, user_id)
        for name in ("fsGroup", "runAsUser", "runAsGroup", "supplementalGroups[]")
    ),
    ("securityContext.fsGroupChangePolicy", VALUES, one_of("OnRootMismatch", "Always")),
    ("securityContext.supplementalGroupsPolicy", VALUES, one_of("Merge", "Strict")),
    ("securityContext.seLinuxChangePolicy", VALUES, one_of("Recursive", "MountOption")),
    ("securityContext.seccompProfile.type", VALUES, _profile_type),
    ("securityContext.appArmorProfile.type", VALUES, _profile_type),
    (
        "volumes[].hostPath.type",
        VALUES,
        one_of(
            "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice",
            "BlockDevice", empty=True,
        ),
    ),
    ("volumes[].image.pullPolicy", VALUES, _pull_policy),
    *(
        (f"volumes[].{name}", VOLUMES, file_mode)
        for name in (
            "secret.defaultMode", "secret.items[].mode",
            "configMap.defaultMode", "configMap.items[].mode",
            "downwardAPI.defaultMode", "downwardAPI.items[].mode",
            "projected.defaultMode", "projected.sources[].secret.items[].mode",
            "projected.sources[].configMap.items[].mode",
            "projected.sources[].downwardAPI.items[].mode",
        )
    ),
)  # fmt: skip


def _whole(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report fields of the spec that contradict each other."""
    host(value, way, pod)
    if type(value) is not dict:
        return
    if value.get("ephemeralContainers"):
        text = "ephemeralContainers cannot be created with a pod: remove them"
        pod.report(NAMES, (*way, "ephemeralContainers"), text, FORBIDDEN)
    if value.get("nodeName") and value.get("schedulingGates"):
        text = "nodeName is set beside schedulingGates: remove one of them"
        pod.report(PLACEMENT, (*way, "nodeName"), text, FORBIDDEN)
    if value.get("hostnameOverride") is not None:
        _hostname(value, way, pod)
    config = value.get("dnsConfig")
    servers = mapping(config).get("nameservers")
    if value.get("dnsPolicy") == "None" and not servers:
        text = "dnsPolicy None needs dnsConfig.nameservers: write one, or another policy"
        pod.report(NAMES, (*way, "dnsConfig"), text, REQUIRED)


def _hostname(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    name = text_of(value, "hostnameOverride")
    for other in ("setHostnameAsFQDN", "hostNetwork"):
        if value.get(other) is True:
            text = f"hostnameOverride is set with {other}: keep one of them"
            pod.report(NAMES, (*way, "hostnameOverride"), text, FORBIDDEN)
    if len(name) > _HOSTNAME_MAX or not is_dns_subdomain(name):
        pod.wrong(NAMES, (*way, "hostnameOverride"), name, SUBDOMAIN_ADVICE)


def _dns_config(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report more servers and domains than a resolver reads, and options without a name."""
    held = mapping(value)
    for name, most in (("nameservers", _NAMESERVERS_MAX), ("searches", _SEARCHES_MAX)):
        listed = held.get(name)
        if type(listed) is list and len(listed) > most:
            text = f"{len(listed)} {name}: write at most {most}"
            pod.report(NAMES, (*way, name), text)
    searches = held.get("searches")
    for index, each in enumerate(searches if type(searches) is list else ()):
        plain = each.removesuffix(".").replace("_", "-") if type(each) is str else "."
        if each != "." and type(each) is str and not is_dns_subdomain(plain):
            text = f"searches has {shown(each)}: {SUBDOMAIN_ADVICE}"
            pod.report(NAMES, (*way, "searches", index), text)
    for index, option in entries(held.get("options")):
        if not text_of(option, "name"):
            text = "an option has no name: set it"
            pod.report(NAMES, (*way, "options", index, "name"), text, REQUIRED)


def _labels(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report invalid label keys and values."""
    for name, text in mapping(value).items():
        place = (*way, key(name))
        if not is_qualified_name(name):
            pod.report(LABELS, place, f"label key is {shown(name)}: {KEY_ADVICE}")
        elif type(text) is str and not is_label_value(text):
            pod.report(LABELS, place, f"label value is {shown(text)}: {VALUE_ADVICE}")


def _annotations(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report invalid annotation keys, and annotations above the maximum size."""
    size = 0
    for name, text in mapping(value).items():
        if not is_qualified_name(name.lower()):
            text_shown = f"annotation key is {shown(name)}: {KEY_ADVICE}"
            pod.report(LABELS, (*way, key(name)), text_shown)
        size += len(name) + (len(text) if type(text) is str else 0)
    if size > _ANNOTATIONS_MAX:
        text = f"annotations have {size} characters: write at most {_ANNOTATIONS_MAX}"
        pod.report(LABELS, way, text)


def _finalizers(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report invalid names of finalizers."""
    for index, name in enumerate(value if type(value) is list else ()):
        if type(name) is str and not is_qualified_name(name):
            pod.report(LABELS, (*way, index), f"finalizer is {shown(name)}: {KEY_ADVICE}")


_PARTS: Final[tuple[tuple[str, Examine], ...]] = (
    ("", _whole),
    ("containers", containers),
    ("initContainers", containers),
    ("containers[]", main_container),
    ("initContainers[]", init_container),
    ("volumes", volumes),
    ("nodeSelector", selected_labels),
    (f"{_SELECTOR.format('nodeAffinity', 'required')}", required_terms),
    (f"{_SELECTOR.format('nodeAffinity', 'preferred')}[]", preferred_term),
    *(
        (f"{_SELECTOR.format(kind, need)}[]", term)
        for kind in ("podAffinity", "podAntiAffinity")
        for need, term in (("required", pod_term), ("preferred", weighted_term))
    ),
    ("tolerations[]", toleration),
    ("topologySpreadConstraints", constraints),
    ("schedulingGates", conditions("name")),
    ("readinessGates", conditions("conditionType")),
    ("securityContext", pod_context),
    ("resourceClaims", claims_of_pod),
    ("resources", pod_resources),
    ("overhead", overhead),
    ("dnsConfig", _dns_config),
)

TEMPLATE: Final[Node] = tree(
    (
        *_below("spec", _ROWS),
        *_below("spec.containers[]", _CONTAINER_ROWS),
        *_below("spec.initContainers[]", _CONTAINER_ROWS),
        ("spec.initContainers[].restartPolicy", VALUES, one_of(*RESTARTS, empty=True)),
    ),
    (
        ("metadata.labels", _labels),
        ("metadata.annotations", _annotations),
        ("metadata.finalizers", _finalizers),
        *((f"spec.{path}".removesuffix("."), part) for path, part in _PARTS),
        *_below("spec.containers[]", (*_CONTAINER_PARTS, *_PROBE_PARTS)),
        *_below("spec.initContainers[]", (*_CONTAINER_PARTS, *_PROBE_PARTS)),
    ),
)
"""The checks of a template."""

CONTAINER: Final[Node] = tree(_CONTAINER_ROWS, _CONTAINER_PARTS)
"""The checks of a container that KubeRay adds for its own options."""
