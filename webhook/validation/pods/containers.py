"""Checks of containers: names, images, ports, variables, mounts, probes and handlers."""

from collections.abc import Iterable, Iterator
from typing import Final

from webhook.api.formats import is_dns_label, is_dns_subdomain, is_qualified_name, list_choices
from webhook.api.objects import ALWAYS
from webhook.api.quantity import parse_quantity, read_quantity
from webhook.api.review import DUPLICATE, FORBIDDEN, NOT_FOUND, REQUIRED
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.pods.inspection import InspectedPod, format_value, whole, wrong
from webhook.validation.pods.value_checks import (
    DNS_LABEL_ADVICE,
    SUBDOMAIN_ADVICE,
    check_names,
    is_data_key,
    is_port_name,
    is_variable_name,
    suggestion,
)

RESTARTS: Final = ("Always", "OnFailure", "Never")
"""The restart policies of a container."""

PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_RESTARTING: Final = "RestartContainer"
_INITS: Final = "initContainers"
_PROBE_ACTIONS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_ACTIONS: Final = ("exec", "httpGet", "tcpSocket", "sleep")
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_FIELDS: Final = frozenset({
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
    "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
})  # fmt: skip
_RESOURCES: Final = frozenset(
    f"{kind}.{name}"
    for kind in ("limits", "requests")
    for name in ("cpu", "memory", "ephemeral-storage")
)
_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_BYTES: Final = frozenset(
    parse_quantity(f"1{suffix}")
    for suffix in ("", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
)
_CORES: Final = frozenset((parse_quantity("1m"), parse_quantity("1")))
_PORT_NAME_ADVICE: Final = (
    "write up to 15 lower-case letters, digits and '-', with a letter among them"
)
PADDED: Final = "image begins or ends with a space: remove the space"
_GRACE: Final = 30
"""Default grace period of a pod, in seconds."""


def names(listed: Field, pod: InspectedPod) -> Iterator[Fault]:
    """Report names of containers that are missing, invalid or duplicate."""
    inits = listed.token == _INITS
    container_names = (
        {(entry / "name").text for entry in (pod.spec / "containers").entries()} if inits else set()
    )
    for container in listed.entries():
        field = container / "name"
        name = field.text
        if field.value in (None, ""):
            yield Fault(field, f"{listed.token}[{container.token}] has no name", REQUIRED)
        elif name and not is_dns_label(name):
            yield wrong(field, DNS_LABEL_ADVICE)
        elif name in container_names:
            message = f"another container is named {format_value(name)}: rename one of them"
            yield Fault(field, message, DUPLICATE)
        elif name in pod.taken:
            message = f"KubeRay adds a container {format_value(name)}: rename this one"
            yield Fault(field, message, DUPLICATE, doubtful=not pod.taken[name])
        if name:
            container_names.add(name)


def is_padded(image: Field) -> bool:
    """Return whether an image has leading or trailing spaces."""
    return image.text != image.text.strip()


def image(container: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report a container without an image, or with spaces around it."""
    field = container / "image"
    if field.value in (None, ""):
        yield Fault(field, "image is not set: write one", REQUIRED)
    elif is_padded(field):
        yield Fault(field, PADDED)


def host_ports(listed: Field, pod: InspectedPod) -> Iterator[Fault]:
    """Report duplicate host ports, and those that differ from the port of the container."""
    host, inits = (pod.spec / "hostNetwork").flag, listed.token == _INITS
    taken: set[tuple[str, str, int]] = set()
    for container in listed.entries():
        # Init containers run one after the other, so they may use the same host port.
        if inits:
            taken = set()
        for port in (container / "ports").entries():
            host_port, inner = whole(port / "hostPort") or 0, whole(port / "containerPort") or 0
            number = host_port or (inner if host else 0)
            if host and host_port and host_port != inner and not inits:
                message = f"hostPort is {host_port}: with hostNetwork, write containerPort {inner}"
                yield Fault(port / "hostPort", message)
            place = ((port / "protocol").text or "TCP", (port / "hostIP").text, number)
            if number and place in taken:
                message = f"host port {number} is taken by another port: change one of them"
                yield Fault(port, message, DUPLICATE)
            taken.add(place)


def ports(listed: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report invalid and duplicate names of ports."""
    yield from check_names(
        listed, "port", lambda name: not name or is_port_name(name), _PORT_NAME_ADVICE
    )


def variables(listed: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report variables without a name, and sources that contradict each other or are empty."""
    for index, entry in enumerate(listed.value if type(listed.value) is list else ()):
        if type(entry) is not dict:
            continue
        name = entry.get("name")
        if type(name) is str and not is_variable_name(name):
            field = Field(entry, listed, index) / "name"
            yield wrong(field, "use printable characters other than '='")
        if type(entry.get("valueFrom")) is dict:
            yield from source_of(Field(entry, listed, index))


def source_of(entry: Field) -> Iterator[Fault]:
    """Report a source of a variable that contradicts its value, or is invalid."""
    source = entry / "valueFrom"
    source_names = [name for name in _SOURCES if (source / name).given]
    if not source_names:
        message = "valueFrom names no source: write one such as secretKeyRef"
        yield Fault(source, message, REQUIRED)
    elif (entry / "value").text:
        yield Fault(source, "it has value and valueFrom: keep one of the two")
    elif len(source_names) > 1:
        yield Fault(source, f"valueFrom has {' and '.join(source_names)}: keep one of them")
    for name in source_names:
        if name == "fieldRef":
            yield from field_ref(source / name, _FIELDS)
        elif name == "resourceFieldRef":
            yield from resource_ref(source / name)
        elif name != "fileKeyRef":
            yield from _key_ref(source / name)


def field_ref(value: Field, known: Iterable[str]) -> Iterator[Fault]:
    """Report a reference to a field that pods do not offer."""
    path = value / "fieldPath"
    head, bracket, rest = path.text.partition("['")
    if bracket and rest.endswith("']"):
        name = rest[:-2]
        label = head == "metadata.labels"
        if not label and head != "metadata.annotations":
            yield wrong(path, "only metadata.labels and annotations have keys")
        elif not is_qualified_name(name if label else name.lower()):
            yield wrong(path, "write a key")
    elif path.text not in known:
        yield wrong(path, suggestion(path.text, sorted(known), "write one such as metadata.name"))


def resource_ref(value: Field) -> Iterator[Fault]:
    """Report a reference to a resource that containers do not offer."""
    resource, divisor = value / "resource", value / "divisor"
    is_offered = resource.text in _RESOURCES or resource.text.startswith(_PAGES)
    if not is_offered:
        yield wrong(resource, "write one such as limits.cpu or requests.memory")
    amount, cores = read_quantity(divisor.value), resource.text.endswith(".cpu")
    if is_offered and amount and amount not in (_CORES if cores else _BYTES):
        advice = "write 1 or 1m" if cores else "write 1, or 1 with a suffix such as Mi"
        yield Fault(divisor, f"divisor is {format_value(divisor.value)}: {advice}")


def _key_ref(value: Field) -> Iterator[Fault]:
    name, key = value / "name", value / "key"
    if not is_dns_subdomain(name.text) and name.value in (name.text, None):
        yield wrong(name, SUBDOMAIN_ADVICE)
    if not is_data_key(key.text):
        yield wrong(key, "use letters, digits, '-', '_' and '.'")


def variables_from(entry: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report a source of variables that refers to no object, or to two."""
    source_names = [name for name in ("configMapRef", "secretRef") if (entry / name).given]
    if len(source_names) != 1:
        problem = "envFrom names no source" if not source_names else "envFrom names two sources"
        yield Fault(entry, f"{problem}: write configMapRef or secretRef")
    for name in source_names:
        name_field = entry / name / "name"
        if not is_dns_subdomain(name_field.text.removesuffix("-")):
            yield wrong(name_field, SUBDOMAIN_ADVICE)


def mounts(listed: Field, pod: InspectedPod) -> Iterator[Fault]:
    """Report mounts of unknown volumes, and duplicate mount paths."""
    paths: set[str] = set()
    for mount in listed.entries():
        path = mount / "mountPath"
        if (mount / "name").text not in pod.volumes:
            yield _no_volume(mount, pod)
        if not path.text:
            yield Fault(path, "a mount has no mountPath", REQUIRED)
        elif path.text in paths:
            message = f"another mount has mountPath {format_value(path.text)}: change one of them"
            yield Fault(path, message, DUPLICATE)
        paths.add(path.text)
        if mount.size > 2:  # noqa: PLR2004 - a name and a path are what most have
            yield from _mount_options(mount)


def _no_volume(mount: Field, pod: InspectedPod) -> Fault:
    name = (mount / "name").text
    hint = suggestion(name, pod.volumes, "add it to volumes")
    return Fault(mount / "name", f"no volume is named {format_value(name)}: {hint}", NOT_FOUND)


def _mount_options(mount: Field) -> Iterator[Fault]:
    propagation, context = mount / "mountPropagation", mount.holder.holder / "securityContext"
    if propagation.text == "Bidirectional" and not (context / "privileged").flag:
        message = "mountPropagation Bidirectional needs securityContext.privileged: true"
        yield Fault(propagation, message, FORBIDDEN)


def devices(listed: Field, pod: InspectedPod) -> Iterator[Fault]:
    """Report block devices of unknown volumes."""
    for device in listed.entries():
        if (device / "name").text not in pod.volumes:
            yield _no_volume(device, pod)


def probe(field: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report a field that only other probes have."""
    threshold, period = field / "successThreshold", field / "terminationGracePeriodSeconds"
    readiness = field.called == "readinessProbe"
    number = whole(threshold)
    if not readiness and number not in (None, 0, 1):
        yield Fault(threshold, f"successThreshold of a {field.token} is {number}: write 1")
    if readiness and period.given:
        message = "a readinessProbe has no terminationGracePeriodSeconds: remove it"
        yield Fault(period, message, FORBIDDEN)


def handler(field: Field, pod: InspectedPod) -> Iterator[Fault]:
    """Report a probe or a hook without an action, with two actions, or with an invalid action."""
    options = _PROBE_ACTIONS if field.token in PROBES else _HOOK_ACTIONS
    actions = [name for name in options if (field / name).given]
    if not actions:
        if type(field.value) is dict:
            message = f"{field.token} has no {list_choices(options)}: add one"
            yield Fault(field, message, REQUIRED)
        return
    if len(actions) > 1:
        message = f"{field.token} has {' and '.join(actions)}: keep one of them"
        yield Fault(field, message, FORBIDDEN)
    yield from _action(field / actions[0], pod)


def _action(action: Field, pod: InspectedPod) -> Iterator[Fault]:
    if action.called == "exec":
        if not (action / "command").value:
            message = f"{action.holder.token} has no command: add one"
            yield Fault(action / "command", message, REQUIRED)
    elif action.called == "sleep":
        grace = whole(pod.spec / "terminationGracePeriodSeconds")
        grace = _GRACE if grace is None else max(grace, 1)  # the API server raises less to 1
        seconds = whole(action / "seconds") or 0
        if not 0 <= seconds <= grace:
            message = f"sleep is {seconds} s: write 0 to terminationGracePeriodSeconds, {grace}"
            yield Fault(action / "seconds", message)


def restart_policy(policy: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report an unknown restart policy. Kubernetes 1.34 drops the field."""
    if type(policy.value) is str and policy.value not in RESTARTS:
        message = (
            f"restartPolicy is {format_value(policy.value)}: write one of {', '.join(RESTARTS)}"
        )
        yield Fault(policy, message, doubtful=True)


def resize_policies(listed: Field, pod: InspectedPod) -> Iterator[Fault]:
    """Report duplicate resize policies, and restarts of a container that is never restarted."""
    resources: set[str] = set()
    for policy in listed.entries():
        resource, restart = (policy / "resourceName").text, policy / "restartPolicy"
        if resource in resources:
            message = f"resizePolicy lists {format_value(resource)} twice: keep one"
            yield Fault(policy, message, DUPLICATE)
        resources.add(resource)
        if pod.never and restart.text == _RESTARTING:
            message = "resizePolicy is RestartContainer, but these pods never restart: NotRequired"
            yield Fault(restart, message)


def lasting_only(field: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report a probe or a hook of an init container that ends."""
    container = field.holder if field.token in PROBES else field.holder.holder
    if (container / "restartPolicy").text != ALWAYS:
        message = (
            f"an init container that ends has no {field.token}: remove it, or make it a sidecar"
        )
        yield Fault(field, message, FORBIDDEN)
