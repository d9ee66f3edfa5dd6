"""Table of the fields of a template that the API server checks, with the family and the check."""

from collections.abc import Iterator
from typing import Final

from webhook.api.formats import DNS_LABEL_MAX, is_dns_subdomain, is_label_value, is_qualified_name
from webhook.api.review import REQUIRED
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.pods import amounts, containers, placement, security_context, volumes
from webhook.validation.pods.families import (
    IMAGES,
    LABELS,
    LIFECYCLE,
    LIMITS,
    MOUNTS,
    NAMES,
    PLACEMENT,
    PORTS,
    PROBES,
    QUANTITIES,
    SECURITY,
    VALUES,
    VARIABLES,
    VOLUMES,
)
from webhook.validation.pods.inspection import Check, InspectedPod, Node, Part, format_value, tree
from webhook.validation.pods.value_checks import (
    INT32_MAX,
    KEY_ADVICE,
    PORT_MAX,
    SUBDOMAIN_ADVICE,
    VALUE_ADVICE,
    dns_label,
    file_mode,
    is_address,
    is_straight,
    is_variable_name,
    not_negative,
    one_of,
    port_or_name,
    positive,
    relative_path,
    required_subdomain,
    string,
    subdomain,
    user_id,
    within,
)

_DNS_MAX: Final = {"nameservers": 3, "searches": 32}

_pull_policy = one_of("Always", "IfNotPresent", "Never", empty=True)
_dns_policy = one_of("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None", empty=True)
_scheme = one_of("HTTP", "HTTPS", empty=True)
_profile = one_of("RuntimeDefault", "Localhost", "Unconfined")
_address = string(is_address, "write an IP address", empty=False)
_search = string(
    lambda text: text == "." or is_dns_subdomain(text.removesuffix(".").replace("_", "-")),
    SUBDOMAIN_ADVICE,
    empty=False,
)
_absolute_path = string(lambda path: path.startswith("/"), "begin it with /")
_driver = string(
    lambda name: len(name) <= DNS_LABEL_MAX and is_dns_subdomain(name.lower()), SUBDOMAIN_ADVICE
)
_key = string(is_qualified_name, KEY_ADVICE, empty=False)
_host_path = one_of(
    "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice",
    empty=True,
)  # fmt: skip

_SPREAD: Final = "spec.topologySpreadConstraints"
_NODES: Final = "spec.affinity.nodeAffinity"
_PODS: Final = "spec.affinity.podAffinity|podAntiAffinity"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_TERMS: Final = "nodeSelectorTerms[].matchExpressions"
_POD_TERMS: Final = (f"{_PODS}.{_REQUIRED}[]", f"{_PODS}.{_PREFERRED}[].podAffinityTerm")
_SELECTORS: Final = "labelSelector|namespaceSelector"
_EACH: Final = "spec.containers|initContainers[]"
_INITS: Final = "spec.initContainers[]"
_PROBES: Final = "|".join(containers.PROBES)
_HOOKS: Final = "lifecycle.postStart|preStop"
_ACTIONS: Final = "httpGet|tcpSocket|grpc"
_SECONDS: Final = "initialDelaySeconds|timeoutSeconds|periodSeconds"
_PROFILES: Final = "seccompProfile|appArmorProfile"
_VOLUME: Final = "spec.volumes[]"
_PROJECTED: Final = f"{_VOLUME}.projected.sources"
_FILES: Final = "secret|configMap|downwardAPI"

_ROWS: Final[tuple[tuple[str, str, Check], ...]] = (
    ("spec.restartPolicy", VALUES, one_of(*containers.RESTARTS, empty=True)),
    ("spec.dnsPolicy", VALUES, _dns_policy),
    ("spec.preemptionPolicy", VALUES, one_of("PreemptLowerPriority", "Never")),
    ("spec.os.name", VALUES, one_of("linux", "windows")),
    ("spec.serviceAccountName|priorityClassName|nodeName", NAMES, subdomain),
    ("spec.runtimeClassName", NAMES, required_subdomain),
    ("spec.hostname|subdomain", NAMES, dns_label),
    ("spec.hostnameOverride", NAMES, required_subdomain),
    ("spec.hostAliases[].ip", NAMES, _address),
    ("spec.hostAliases[].hostnames[]", NAMES, required_subdomain),
    ("spec.dnsConfig.nameservers[]", NAMES, _address),
    ("spec.dnsConfig.searches[]", NAMES, _search),
    (
        "spec.resourceClaims[].resourceClaimName|resourceClaimTemplateName",
        NAMES,
        required_subdomain,
    ),
    ("spec.schedulingGroup.podGroupName", NAMES, required_subdomain),
    ("spec.readinessGates[].conditionType", PLACEMENT, _key),
    ("spec.schedulingGates[].name", PLACEMENT, _key),
    ("spec.activeDeadlineSeconds", LIFECYCLE, within(1, INT32_MAX, wide=True)),
    (
        "spec.tolerations[].effect",
        VALUES,
        one_of("NoSchedule", "PreferNoSchedule", "NoExecute", empty=True),
    ),
    (f"{_SPREAD}[].maxSkew|minDomains", PLACEMENT, positive),
    (f"{_SPREAD}[].whenUnsatisfiable", VALUES, one_of("DoNotSchedule", "ScheduleAnyway")),
    (f"{_SPREAD}[].nodeAffinityPolicy|nodeTaintsPolicy", VALUES, one_of("Honor", "Ignore")),
    (f"{_NODES}.{_PREFERRED}[].weight", PLACEMENT, within(1, 100)),
    (f"{_PODS}.{_PREFERRED}[].weight", PLACEMENT, within(1, 100)),
    ("spec.securityContext.fsGroup|runAsUser|runAsGroup", SECURITY, user_id),
    ("spec.securityContext.supplementalGroups[]", SECURITY, user_id),
    ("spec.securityContext.fsGroupChangePolicy", VALUES, one_of("OnRootMismatch", "Always")),
    ("spec.securityContext.supplementalGroupsPolicy", VALUES, one_of("Merge", "Strict")),
    ("spec.securityContext.seLinuxChangePolicy", VALUES, one_of("Recursive", "MountOption")),
    (f"spec.securityContext.{_PROFILES}.type", VALUES, _profile),
    (f"{_VOLUME}.hostPath.type", VALUES, _host_path),
    (f"{_VOLUME}.hostPath.path", VOLUMES, string(is_straight, "write it without '..'")),
    (f"{_VOLUME}.nfs.path", VOLUMES, _absolute_path),
    (f"{_VOLUME}.csi.driver", VOLUMES, _driver),
    (f"{_VOLUME}.image.pullPolicy", VALUES, _pull_policy),
    (f"{_VOLUME}.{_FILES}|projected.defaultMode", VOLUMES, file_mode),
    (f"{_VOLUME}.{_FILES}.items[].mode", VOLUMES, file_mode),
    (f"{_PROJECTED}[].{_FILES}.items[].mode", VOLUMES, file_mode),
    (
        f"{_PROJECTED}[].serviceAccountToken.expirationSeconds",
        VOLUMES,
        within(600, 2**32, wide=True),
    ),
    ("spec.initContainers[].restartPolicy", VALUES, one_of(*containers.RESTARTS, empty=True)),
    (f"{_EACH}.imagePullPolicy", VALUES, _pull_policy),
    (
        f"{_EACH}.terminationMessagePolicy",
        VALUES,
        one_of("File", "FallbackToLogsOnError", empty=True),
    ),
    (f"{_EACH}.ports[].containerPort", PORTS, within(1, PORT_MAX)),
    (f"{_EACH}.ports[].hostPort", PORTS, within(1, PORT_MAX, zero=True)),
    (f"{_EACH}.ports[].protocol", VALUES, one_of("TCP", "UDP", "SCTP", empty=True)),
    (f"{_EACH}.envFrom[].prefix", VARIABLES, string(is_variable_name, "remove '='")),
    (f"{_EACH}.volumeMounts[].subPath|subPathExpr", MOUNTS, relative_path),
    (
        f"{_EACH}.volumeMounts[].mountPropagation",
        VALUES,
        one_of("None", "HostToContainer", "Bidirectional"),
    ),
    (
        f"{_EACH}.volumeMounts[].recursiveReadOnly",
        VALUES,
        one_of("Disabled", "IfPossible", "Enabled"),
    ),
    (f"{_EACH}.resizePolicy[].resourceName", VALUES, one_of("cpu", "memory")),
    (f"{_EACH}.resizePolicy[].restartPolicy", VALUES, one_of("NotRequired", "RestartContainer")),
    (f"{_EACH}.securityContext.runAsUser|runAsGroup", SECURITY, user_id),
    (f"{_EACH}.securityContext.procMount", VALUES, one_of("Default", "Unmasked")),
    (f"{_EACH}.securityContext.{_PROFILES}.type", VALUES, _profile),
    (f"{_EACH}.{_HOOKS}.{_ACTIONS}.port", LIFECYCLE, port_or_name),
    (f"{_EACH}.{_PROBES}.{_ACTIONS}.port", PROBES, port_or_name),
    (f"{_EACH}.{_HOOKS}.httpGet.scheme", LIFECYCLE, _scheme),
    (f"{_EACH}.{_PROBES}.httpGet.scheme", PROBES, _scheme),
    (f"{_EACH}.{_PROBES}.{_SECONDS}|successThreshold|failureThreshold", PROBES, not_negative),
    (f"{_EACH}.{_PROBES}.terminationGracePeriodSeconds", PROBES, positive),
)


def _no_servers(spec: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report a pod without name servers."""
    if spec.map.get("dnsPolicy") == "None" and not (spec / "dnsConfig" / "nameservers").value:
        message = "dnsPolicy None needs dnsConfig.nameservers: write one, or another policy"
        yield Fault(spec / "dnsConfig", message, REQUIRED)


def _dns_config(config: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report more servers and domains than a resolver reads, and options without a name."""
    for name, most in _DNS_MAX.items():
        listed = config / name
        if type(listed.value) is list and listed.size > most:
            yield Fault(listed, f"{listed.size} {name}: write at most {most}")
    for option in (config / "options").entries():
        if not (option / "name").text:
            yield Fault(option / "name", "an option has no name: set it", REQUIRED)


def _labels(labels: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report invalid label keys and values."""
    for name, value in labels.map.items():
        if not is_qualified_name(name):
            yield Fault(labels.key(name), f"label key is {format_value(name)}: {KEY_ADVICE}")
        elif type(value) is str and not is_label_value(value):
            yield Fault(labels.key(name), f"label value is {format_value(value)}: {VALUE_ADVICE}")


def _annotations(annotations: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report invalid annotation keys."""
    for name in annotations.map:
        if not is_qualified_name(name.lower()):
            yield Fault(
                annotations.key(name), f"annotation key is {format_value(name)}: {KEY_ADVICE}"
            )


_PARTS: Final[tuple[tuple[str, str, Part], ...]] = (
    ("metadata.labels", LABELS, _labels),
    ("metadata.annotations", LABELS, _annotations),
    ("spec.hostUsers", SECURITY, security_context.check_host_namespaces),
    ("spec.shareProcessNamespace", SECURITY, security_context.check_shared_processes),
    ("spec", NAMES, _no_servers),
    ("spec.dnsConfig", NAMES, _dns_config),
    ("spec.volumes", VOLUMES, volumes.volumes),
    (f"{_VOLUME}.{'|'.join(volumes.REQUIRED_FIELDS)}", VOLUMES, volumes.source),
    (f"{_VOLUME}.emptyDir", VOLUMES, volumes.empty_dir),
    (f"{_VOLUME}.ephemeral", VOLUMES, volumes.claim),
    (f"{_VOLUME}.secret|configMap.items[]", VOLUMES, volumes.file_path),
    (f"{_VOLUME}.downwardAPI.items[]", VOLUMES, volumes.downward_item),
    (f"{_PROJECTED}[]", VOLUMES, volumes.projection),
    (f"{_PROJECTED}[].secret|configMap", VOLUMES, volumes.check_projection_name),
    (f"{_PROJECTED}[].secret|configMap.items[]", VOLUMES, volumes.file_path),
    (f"{_PROJECTED}[].downwardAPI.items[]", VOLUMES, volumes.downward_item),
    (f"{_PROJECTED}[].serviceAccountToken", VOLUMES, volumes.file_path),
    ("spec.resourceClaims", QUANTITIES, amounts.claims_of_pod),
    ("spec.overhead", QUANTITIES, amounts.amounts),
    ("spec.resources", QUANTITIES, amounts.pod_resources),
    ("spec.resources.limits|requests", QUANTITIES, amounts.amounts),
    ("spec.resources", LIMITS, amounts.limits),
    ("spec.nodeSelector", PLACEMENT, placement.check_selector_labels),
    (f"{_NODES}.{_REQUIRED}", PLACEMENT, placement.check_required_terms),
    (f"{_NODES}.{_REQUIRED}.{_TERMS}[]", PLACEMENT, placement.node_requirement),
    (
        f"{_NODES}.{_PREFERRED}[].preference.matchExpressions[]",
        PLACEMENT,
        placement.preferred_requirement,
    ),
    ("spec.tolerations[]", PLACEMENT, placement.toleration),
    (f"{_SPREAD}[]", PLACEMENT, placement.constraint),
    *((at, PLACEMENT, placement.pod_term) for at in _POD_TERMS),
    *(
        (f"{at}{below}", PLACEMENT, part)
        for at in (f"{_SPREAD}[]", *_POD_TERMS)
        for below, part in (
            ("", placement.label_keys),
            (f".{_SELECTORS}.matchLabels", placement.check_selector_labels),
            (f".{_SELECTORS}.matchExpressions[]", placement.label_requirement),
        )
    ),
    (f"spec.securityContext.{_PROFILES}", SECURITY, security_context.profile),
    ("spec.securityContext.sysctls[]", SECURITY, security_context.kernel_parameter),
    ("spec.containers|initContainers", NAMES, containers.names),
    ("spec.containers|initContainers", PORTS, containers.host_ports),
    ("spec.containers[].restartPolicy", LIFECYCLE, containers.restart_policy),
    (f"{_INITS}.{_PROBES}", PROBES, containers.lasting_only),
    (f"{_INITS}.{_HOOKS}", LIFECYCLE, containers.lasting_only),
    (_EACH, IMAGES, containers.image),
    (f"{_EACH}.volumeMounts", MOUNTS, containers.mounts),
    (f"{_EACH}.volumeDevices", MOUNTS, containers.devices),
    (f"{_EACH}.resizePolicy", LIFECYCLE, containers.resize_policies),
    (f"{_EACH}.ports", PORTS, containers.ports),
    (f"{_EACH}.env", VARIABLES, containers.variables),
    (f"{_EACH}.envFrom[]", VARIABLES, containers.variables_from),
    (f"{_EACH}.resources.limits|requests", QUANTITIES, amounts.amounts),
    (f"{_EACH}.resources", LIMITS, amounts.limits),
    (f"{_EACH}.resources.claims", QUANTITIES, amounts.claims_of_container),
    (f"{_EACH}.securityContext", SECURITY, security_context.container_context),
    (f"{_EACH}.securityContext.{_PROFILES}", SECURITY, security_context.profile),
    (f"{_EACH}.{_PROBES}", PROBES, containers.handler),
    (f"{_EACH}.{_PROBES}", PROBES, containers.probe),
    (f"{_EACH}.{_HOOKS}", LIFECYCLE, containers.handler),
)

TEMPLATE: Final = tree(_ROWS, _PARTS)
"""The checks of a template."""

_container: Final = TEMPLATE.fields["spec"].fields["containers"].entries
CONTAINER: Final = Node(fields=_container.fields if _container else {})
"""The checks of the fields of a container, for one that KubeRay adds by its own options."""
