"""Table of the fields of a template that the API server checks, with the family and the check."""

from collections.abc import Iterator
from typing import Final

from webhook.api.formats import is_dns_subdomain, is_label_value, is_qualified_name
from webhook.api.review import FORBIDDEN, REQUIRED
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.pods import amounts, containers, placement, security_context
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
from webhook.validation.pods.inspection import Check, Node, Part, Pod, shown, tree, wrong
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
_DNS_MAX: Final = {"nameservers": 3, "searches": 32}
_HOSTNAME_MAX: Final = 64

_pull_policy = one_of("Always", "IfNotPresent", "Never", empty=True)
_dns_policy = one_of("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None", empty=True)
_scheme = one_of("HTTP", "HTTPS", empty=True)
_profile = one_of("RuntimeDefault", "Localhost", "Unconfined")
_port = within(1, PORT_MAX, zero=True)
_address = string(is_address, "write an IP address", empty=False)
_host_path = one_of(
    "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice",
    empty=True,
)  # fmt: skip

_SPREAD: Final = "spec.topologySpreadConstraints"
_NODES: Final = "spec.affinity.nodeAffinity"
_PODS: Final = "spec.affinity.podAffinity|podAntiAffinity"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_EACH: Final = "spec.containers|initContainers[]"
_PROBES: Final = f"{_EACH}.{'|'.join(containers.PROBES)}"
_HOOKS: Final = f"{_EACH}.lifecycle.{'|'.join(containers.HOOKS)}"
_SECONDS: Final = "initialDelaySeconds|timeoutSeconds|periodSeconds"
_FILES: Final = "secret|configMap|downwardAPI"

_ROWS: Final[tuple[tuple[str, str, Check], ...]] = (
    ("spec.restartPolicy", VALUES, one_of(*containers.RESTARTS, empty=True)),
    ("spec.dnsPolicy", VALUES, _dns_policy),
    ("spec.preemptionPolicy", VALUES, one_of("PreemptLowerPriority", "Never")),
    ("spec.os.name", VALUES, one_of("linux", "windows")),
    ("spec.serviceAccountName|priorityClassName|nodeName", NAMES, subdomain),
    ("spec.runtimeClassName", NAMES, required_subdomain),
    ("spec.hostname|subdomain", NAMES, dns_label),
    ("spec.hostAliases[].ip", NAMES, _address),
    ("spec.hostAliases[].hostnames[]", NAMES, required_subdomain),
    ("spec.dnsConfig.nameservers[]", NAMES, _address),
    (
        "spec.resourceClaims[].resourceClaimName|resourceClaimTemplateName",
        NAMES,
        required_subdomain,
    ),
    ("spec.schedulingGroup.podGroupName", NAMES, required_subdomain),
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
    ("spec.securityContext.seccompProfile|appArmorProfile.type", VALUES, _profile),
    ("spec.volumes[].hostPath.type", VALUES, _host_path),
    ("spec.volumes[].image.pullPolicy", VALUES, _pull_policy),
    (f"spec.volumes[].{_FILES}|projected.defaultMode", VOLUMES, file_mode),
    (f"spec.volumes[].{_FILES}.items[].mode", VOLUMES, file_mode),
    (f"spec.volumes[].projected.sources[].{_FILES}.items[].mode", VOLUMES, file_mode),
    ("spec.initContainers[].restartPolicy", VALUES, one_of(*containers.RESTARTS, empty=True)),
    (f"{_EACH}.imagePullPolicy", VALUES, _pull_policy),
    (
        f"{_EACH}.terminationMessagePolicy",
        VALUES,
        one_of("File", "FallbackToLogsOnError", empty=True),
    ),
    (f"{_EACH}.ports[].containerPort|hostPort", PORTS, _port),
    (f"{_EACH}.ports[].protocol", VALUES, one_of("TCP", "UDP", "SCTP", empty=True)),
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
    (f"{_EACH}.securityContext.seccompProfile|appArmorProfile.type", VALUES, _profile),
    (f"{_HOOKS}.httpGet.scheme", LIFECYCLE, _scheme),
    (f"{_PROBES}.httpGet.scheme", PROBES, _scheme),
    (f"{_PROBES}.{_SECONDS}|successThreshold|failureThreshold", PROBES, not_negative),
    (f"{_PROBES}.terminationGracePeriodSeconds", PROBES, positive),
)


def _ephemeral(listed: Field, _: Pod) -> Iterator[Fault]:
    """Report containers that cannot be created with a pod."""
    if listed.value:
        text = "ephemeralContainers cannot be created with a pod: remove them"
        yield Fault(listed, text, FORBIDDEN)


def _no_servers(spec: Field, _: Pod) -> Iterator[Fault]:
    """Report a pod without name servers."""
    if spec.map.get("dnsPolicy") == "None" and not (spec / "dnsConfig" / "nameservers").value:
        text = "dnsPolicy None needs dnsConfig.nameservers: write one, or another policy"
        yield Fault(spec / "dnsConfig", text, REQUIRED)


def _host_name(name: Field, pod: Pod) -> Iterator[Fault]:
    """Report an invalid name of a host, and fields that contradict it."""
    for other in ("setHostnameAsFQDN", "hostNetwork"):
        if (pod.spec / other).flag:
            text = f"hostnameOverride is set with {other}: keep one of them"
            yield Fault(name, text, FORBIDDEN)
    if len(name.text) > _HOSTNAME_MAX or not is_dns_subdomain(name.text):
        yield wrong(name, SUBDOMAIN_ADVICE)


def _gated(gates: Field, pod: Pod) -> Iterator[Fault]:
    """Report gates of a pod that has a node."""
    node = pod.spec / "nodeName"
    if gates.value and node.value:
        text = "nodeName is set beside schedulingGates: remove one of them"
        yield Fault(node, text, FORBIDDEN)


def _dns_config(config: Field, _: Pod) -> Iterator[Fault]:
    """Report more servers and domains than a resolver reads, and options without a name."""
    for name, most in _DNS_MAX.items():
        listed = config / name
        if type(listed.value) is list and listed.size > most:
            yield Fault(listed, f"{listed.size} {name}: write at most {most}")
    for domain in (config / "searches").items():
        plain = domain.text.removesuffix(".").replace("_", "-")
        if type(domain.value) is str and domain.text != "." and not is_dns_subdomain(plain):
            yield Fault(domain, f"searches has {shown(domain.text)}: {SUBDOMAIN_ADVICE}")
    for option in (config / "options").entries():
        if not (option / "name").text:
            yield Fault(option / "name", "an option has no name: set it", REQUIRED)


def _labels(labels: Field, _: Pod) -> Iterator[Fault]:
    """Report invalid label keys and values."""
    for name, value in labels.map.items():
        if not is_qualified_name(name):
            yield Fault(labels.key(name), f"label key is {shown(name)}: {KEY_ADVICE}")
        elif type(value) is str and not is_label_value(value):
            yield Fault(labels.key(name), f"label value is {shown(value)}: {VALUE_ADVICE}")


def _annotations(annotations: Field, _: Pod) -> Iterator[Fault]:
    """Report invalid annotation keys, and annotations above the maximum size."""
    for name in annotations.map:
        if not is_qualified_name(name.lower()):
            yield Fault(annotations.key(name), f"annotation key is {shown(name)}: {KEY_ADVICE}")
    size = sum(map(len, annotations.map)) + sum(map(len, annotations.strings.values()))
    if size > _ANNOTATIONS_MAX:
        text = f"annotations have {size} characters: write at most {_ANNOTATIONS_MAX}"
        yield Fault(annotations, text)


def _finalizers(finalizers: Field, _: Pod) -> Iterator[Fault]:
    """Report invalid names of finalizers."""
    for each in finalizers.items():
        if type(each.value) is str and not is_qualified_name(each.value):
            yield Fault(each, f"finalizer is {shown(each.value)}: {KEY_ADVICE}")


_PARTS: Final[tuple[tuple[str, str, Part], ...]] = (
    ("metadata.labels", LABELS, _labels),
    ("metadata.annotations", LABELS, _annotations),
    ("metadata.finalizers", LABELS, _finalizers),
    ("spec.hostUsers", SECURITY, security_context.isolated),
    ("spec.shareProcessNamespace", SECURITY, security_context.shared_processes),
    ("spec", NAMES, _no_servers),
    ("spec.ephemeralContainers", NAMES, _ephemeral),
    ("spec.hostnameOverride", NAMES, _host_name),
    ("spec.os", SECURITY, security_context.of_other_system),
    ("spec.dnsConfig", NAMES, _dns_config),
    ("spec.volumes", VOLUMES, volumes),
    ("spec.resourceClaims", QUANTITIES, amounts.claims_of_pod),
    ("spec.overhead", QUANTITIES, amounts.amounts),
    ("spec.resources", QUANTITIES, amounts.pod_resources),
    ("spec.resources.limits|requests", QUANTITIES, amounts.amounts),
    ("spec.resources", LIMITS, amounts.limits),
    ("spec.nodeSelector", PLACEMENT, placement.selected_labels),
    (f"{_NODES}.{_REQUIRED}", PLACEMENT, placement.required_terms),
    (f"{_NODES}.{_PREFERRED}[]", PLACEMENT, placement.preferred_term),
    (f"{_PODS}.{_REQUIRED}[]", PLACEMENT, placement.pod_term),
    (f"{_PODS}.{_PREFERRED}[]", PLACEMENT, placement.weighted_term),
    ("spec.tolerations[]", PLACEMENT, placement.toleration),
    (_SPREAD, PLACEMENT, placement.constraints),
    ("spec.schedulingGates|readinessGates", PLACEMENT, placement.gates),
    ("spec.schedulingGates", PLACEMENT, _gated),
    ("spec.securityContext", SECURITY, security_context.profiles),
    ("spec.securityContext.sysctls", SECURITY, security_context.kernel_parameters),
    ("spec.containers|initContainers", NAMES, containers.names),
    ("spec.containers|initContainers", PORTS, containers.host_ports),
    ("spec.containers[].restartPolicy", LIFECYCLE, containers.restart_policy),
    ("spec.initContainers[]", PROBES, containers.init_probes),
    ("spec.initContainers[]", LIFECYCLE, containers.init_hooks),
    (_EACH, IMAGES, containers.image),
    (f"{_EACH}.volumeMounts", MOUNTS, containers.mounts),
    (f"{_EACH}.volumeDevices", MOUNTS, containers.devices),
    (f"{_EACH}.restartPolicyRules", LIFECYCLE, containers.restart_rules),
    (f"{_EACH}.resizePolicy", LIFECYCLE, containers.resize_policies),
    (f"{_EACH}.ports", PORTS, containers.ports),
    (f"{_EACH}.env", VARIABLES, containers.variables),
    (f"{_EACH}.envFrom", VARIABLES, containers.variables_from),
    (f"{_EACH}.resources.limits|requests", QUANTITIES, amounts.amounts),
    (f"{_EACH}.resources", LIMITS, amounts.limits),
    (f"{_EACH}.resources.claims", QUANTITIES, amounts.claims_of_container),
    (f"{_EACH}.securityContext", SECURITY, security_context.container_context),
    (f"{_EACH}.securityContext", SECURITY, security_context.profiles),
    (_PROBES, PROBES, containers.probe),
    (_HOOKS, LIFECYCLE, containers.hook),
)

TEMPLATE: Final = tree(_ROWS, _PARTS)
"""The checks of a template."""

_container: Final = TEMPLATE.fields["spec"].fields["containers"].entries
CONTAINER: Final = Node(fields=_container.fields if _container else {})
"""The checks of the fields of a container, for one that KubeRay adds by its own options."""
