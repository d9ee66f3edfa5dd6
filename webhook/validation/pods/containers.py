"""Checks of containers: names, images, ports, variables, mounts, probes and handlers."""

from collections.abc import Mapping
from typing import Any, Final

from webhook.api.formats import is_dns_label, is_dns_subdomain, is_qualified_name
from webhook.api.objects import ALWAYS
from webhook.api.quantity import parse_quantity, read_quantity
from webhook.api.review import DUPLICATE, FORBIDDEN, NOT_FOUND, REQUIRED
from webhook.validation.pods.families import (
    IMAGES,
    LIFECYCLE,
    MOUNTS,
    NAMES,
    PORTS,
    PROBES,
    VARIABLES,
)
from webhook.validation.pods.inspection import (
    Examine,
    Pod,
    Way,
    entries,
    mapping,
    number_in,
    shown,
    text_of,
)
from webhook.validation.pods.value_checks import (
    DNS_LABEL_ADVICE,
    PORT_MAX,
    SUBDOMAIN_ADVICE,
    climbs,
    descends,
    is_data_key,
    is_header,
    is_port_name,
    is_variable_name,
    nearest,
    port_or_name,
)

RESTARTS: Final = ("Always", "OnFailure", "Never")
"""The restart policies of a container."""

_HANDLERS: Final = ("exec", "httpGet", "tcpSocket", "grpc", "sleep")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_FIELDS: Final = frozenset({
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
    "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
})  # fmt: skip
_OLD_FIELDS: Final = {"spec.host": "spec.nodeName"}
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
_GRACE: Final = 30
"""Default grace period of a pod, in seconds."""


def containers(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report duplicate container names and host ports."""
    names = _names(pod.spec.get("containers")) if way[-1] == "initContainers" else set()
    ports: set[tuple[str, str, int]] = set()
    for index, container in entries(value):
        _named(container, (*way, index), names, pod)
        if container.get("ports"):
            if way[-1] == "initContainers":
                ports = set()
            _host_ports(container, (*way, index), ports, pod)


def _names(value: Any) -> set[str]:  # noqa: ANN401 - JSON
    return {text_of(container, "name") for _, container in entries(value)}


def _named(container: Mapping[str, Any], way: Way, names: set[str], pod: Pod) -> None:
    name, image = text_of(container, "name"), container.get("image")
    if not name:
        if container.get("name") in (None, ""):
            pod.report(NAMES, (*way, "name"), f"{way[-2]}[{way[-1]}] has no name", REQUIRED)
    elif not is_dns_label(name):
        pod.wrong(NAMES, (*way, "name"), name, DNS_LABEL_ADVICE)
    elif name in names:
        text = f"another container is named {shown(name)}: rename one of them"
        pod.report(NAMES, (*way, "name"), text, DUPLICATE)
    elif name in pod.taken:
        text = f"KubeRay adds a container {shown(name)}: rename this one"
        certain = pod.taken[name]
        pod.report(NAMES, (*way, "name"), text, DUPLICATE, doubtful=not certain)
    names.add(name)
    if image in (None, ""):
        pod.report(IMAGES, (*way, "image"), "image is not set: write one", REQUIRED)
    padded_image(image, (*way, "image"), pod)


def padded_image(image: object, way: Way, pod: Pod) -> None:
    """Report an image with leading or trailing spaces."""
    if isinstance(image, str) and image != image.strip():
        pod.report(IMAGES, way, "image begins or ends with a space: remove the space")


def _host_ports(
    container: Mapping[str, Any], way: Way, taken: set[tuple[str, str, int]], pod: Pod
) -> None:
    host = pod.spec.get("hostNetwork") is True
    for index, port in entries(container.get("ports")):
        own, inner = number_in(port, "hostPort") or 0, number_in(port, "containerPort") or 0
        number = own or (inner if host else 0)
        if host and own and own != inner and way[0] == "spec" and way[-2] == "containers":
            text = f"hostPort is {own}: with hostNetwork, write containerPort {inner}"
            pod.report(PORTS, (*way, "ports", index, "hostPort"), text)
        if number:
            place = (text_of(port, "protocol") or "TCP", text_of(port, "hostIP"), number)
            if place in taken:
                text = f"host port {number} is taken by another port: change one of them"
                pod.report(PORTS, (*way, "ports", index), text, DUPLICATE)
            taken.add(place)


def ports(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report ports without a number, and port names that are invalid or duplicate."""
    names: set[str] = set()
    for index, port in entries(value):
        number, name = port.get("containerPort"), text_of(port, "name")
        if number == 0 and type(number) in (int, float):
            text = f"containerPort is 0: write 1 to {PORT_MAX}"
            pod.report(PORTS, (*way, index, "containerPort"), text, REQUIRED)
        if not name:
            continue
        if not is_port_name(name):
            pod.wrong(PORTS, (*way, index, "name"), name, _PORT_NAME_ADVICE)
        elif name in names:
            text = f"another port is named {shown(name)}: rename one of them"
            pod.report(PORTS, (*way, index, "name"), text, DUPLICATE)
        names.add(name)


def variables(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report variables without a name, and sources that contradict each other or are empty."""
    if type(value) is not list:
        return
    for index, entry in enumerate(value):
        if type(entry) is not dict:
            continue
        name = entry.get("name")
        if type(name) is str and not is_variable_name(name):
            pod.wrong(
                VARIABLES, (*way, index, "name"), name, "use printable characters other than '='"
            )
        source = entry.get("valueFrom")
        if type(source) is dict:
            source_of(entry, source, (*way, index), pod)


def source_of(entry: Mapping[str, Any], source: Mapping[str, Any], way: Way, pod: Pod) -> None:
    """Report a source of a variable that contradicts its value, or is invalid."""
    there = (*way, "valueFrom")
    given = [name for name in _SOURCES if source.get(name) is not None]
    if not given:
        text = "valueFrom names no source: write one such as secretKeyRef"
        pod.report(VARIABLES, there, text, REQUIRED)
    elif text_of(entry, "value"):
        pod.report(VARIABLES, there, "it has value and valueFrom: keep one of the two")
    elif len(given) > 1:
        pod.report(VARIABLES, there, f"valueFrom has {' and '.join(given)}: keep one of them")
    for name in given:
        held = mapping(source[name])
        if name == "fieldRef":
            field_ref(held, (*there, name), pod, VARIABLES, _FIELDS)
        elif name == "resourceFieldRef":
            resource_ref(held, (*there, name), pod, VARIABLES)
        elif name in ("configMapKeyRef", "secretKeyRef"):
            _key_ref(held, (*there, name), pod)


def field_ref(
    held: Mapping[str, Any], way: Way, pod: Pod, family: str, known: frozenset[str]
) -> None:
    """Report a reference to a field that pods do not offer."""
    path = text_of(held, "fieldPath")
    version = held.get("apiVersion")
    if version not in (None, "", "v1"):
        pod.wrong(family, (*way, "apiVersion"), version, "write v1")
        return
    head, bracket, rest = path.partition("['")
    if bracket and rest.endswith("']"):
        name = rest[:-2]
        label = head == "metadata.labels"
        if not label and head != "metadata.annotations":
            pod.wrong(
                family, (*way, "fieldPath"), path, "only metadata.labels and annotations have keys"
            )
        elif not is_qualified_name(name if label else name.lower()):
            pod.wrong(family, (*way, "fieldPath"), path, "write a key")
    elif _OLD_FIELDS.get(path, path) not in known:
        near = nearest(path, sorted(known))
        hint = f"did you mean {near}?" if near else "write one such as metadata.name"
        pod.wrong(family, (*way, "fieldPath"), path, hint)


def resource_ref(
    held: Mapping[str, Any], way: Way, pod: Pod, family: str, *, named: bool = False
) -> None:
    """Report a reference to a resource that containers do not offer."""
    resource = text_of(held, "resource")
    if named and not text_of(held, "containerName"):
        pod.report(family, (*way, "containerName"), "set containerName", REQUIRED)
    elif resource not in _RESOURCES and not resource.startswith(_PAGES):
        pod.wrong(
            family, (*way, "resource"), resource, "write one such as limits.cpu or requests.memory"
        )
    divisor = held.get("divisor")
    amount = read_quantity(divisor)
    cores = resource.endswith(".cpu")
    known = _CORES if cores else _BYTES
    checked = resource in _RESOURCES or resource.startswith(_PAGES)
    if amount and amount not in known and checked:
        advice = "write 1 or 1m" if cores else "write 1, or 1 with a suffix such as Mi"
        pod.wrong(family, (*way, "divisor"), divisor, advice)


def _key_ref(held: Mapping[str, Any], way: Way, pod: Pod) -> None:
    name, data = text_of(held, "name"), text_of(held, "key")
    if not is_dns_subdomain(name) and held.get("name", "") in (name, None):
        pod.wrong(VARIABLES, (*way, "name"), name, SUBDOMAIN_ADVICE)
    if not is_data_key(data):
        pod.wrong(VARIABLES, (*way, "key"), data, "use letters, digits, '-', '_' and '.'")


def variables_from(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report sources of variables that refer to no object, or to two."""
    for index, entry in entries(value):
        place = (*way, index)
        prefix = text_of(entry, "prefix")
        if prefix and not is_variable_name(prefix):
            pod.wrong(VARIABLES, (*place, "prefix"), prefix, "remove '='")
        given = [name for name in ("configMapRef", "secretRef") if entry.get(name) is not None]
        if len(given) != 1:
            text = "envFrom names no source" if not given else "envFrom names two sources"
            pod.report(VARIABLES, place, f"{text}: write configMapRef or secretRef")
        for name in given:
            held = text_of(mapping(entry[name]), "name")
            if not is_dns_subdomain(held.removesuffix("-")):
                pod.wrong(VARIABLES, (*place, name, "name"), held, SUBDOMAIN_ADVICE)


def mounts(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report mounts of unknown volumes, and duplicate mount paths."""
    paths: set[str] = set()
    for index, mount in entries(value):
        name, path = text_of(mount, "name"), text_of(mount, "mountPath")
        place = (*way, index)
        if name not in pod.volumes:
            pod.report(MOUNTS, (*place, "name"), _missing(name, pod), NOT_FOUND)
        if not path:
            pod.report(MOUNTS, (*place, "mountPath"), "a mount has no mountPath", REQUIRED)
        elif path in paths:
            text = f"another mount has mountPath {shown(path)}: change one of them"
            pod.report(MOUNTS, (*place, "mountPath"), text, DUPLICATE)
        paths.add(path)
        if len(mount) > 2:  # noqa: PLR2004 - a name and a path are what most have
            _mount_options(mount, place, pod)


def _missing(name: str, pod: Pod) -> str:
    near = nearest(name, pod.volumes)
    hint = f"did you mean {near}?" if near else "add it to volumes"
    return f"no volume is named {shown(name)}: {hint}"


def _mount_options(mount: Mapping[str, Any], way: Way, pod: Pod) -> None:
    sub, expression = text_of(mount, "subPath"), text_of(mount, "subPathExpr")
    for name, path in (("subPath", sub), ("subPathExpr", expression)):
        if path and not descends(path):
            pod.wrong(MOUNTS, (*way, name), path, "write a relative path without '..'")
    if sub and expression:
        pod.report(MOUNTS, (*way, "subPathExpr"), "subPath is set too: keep one of the two")
    propagation = text_of(mount, "mountPropagation")
    if propagation == "Bidirectional" and not _privileged(way, pod):
        text = "mountPropagation Bidirectional needs securityContext.privileged: true"
        pod.report(MOUNTS, (*way, "mountPropagation"), text, FORBIDDEN)
    recursive = text_of(mount, "recursiveReadOnly")
    if recursive in ("Enabled", "IfPossible"):
        if mount.get("readOnly") is not True:
            text = f"recursiveReadOnly is {recursive}: it needs readOnly: true"
            pod.report(MOUNTS, (*way, "recursiveReadOnly"), text, FORBIDDEN)
        if propagation not in ("", "None"):
            text = f"recursiveReadOnly is {recursive}: it needs mountPropagation None"
            pod.report(MOUNTS, (*way, "recursiveReadOnly"), text, FORBIDDEN)


def _privileged(way: Way, pod: Pod) -> bool:
    """Return whether the container of a mount is privileged."""
    container = mapping(pod.at(way[:-2]))
    return mapping(container.get("securityContext")).get("privileged") is True


def devices(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report block devices of an unknown volume, or of a volume that is not a claim."""
    names: set[str] = set()
    for index, device in entries(value):
        name, path = text_of(device, "name"), text_of(device, "devicePath")
        place = (*way, index)
        volume = pod.volumes.get(name)
        if volume is None:
            pod.report(MOUNTS, (*place, "name"), _missing(name, pod), NOT_FOUND)
        elif volume and not {"persistentVolumeClaim", "ephemeral"} & volume.keys():
            text = f"volume {shown(name)} is no persistentVolumeClaim: mount it instead"
            pod.report(MOUNTS, (*place, "name"), text)
        pod.once(names, name, MOUNTS, (*place, "name"), f"{shown(name)} is listed twice")
        if not path or climbs(path):
            pod.wrong(MOUNTS, (*place, "devicePath"), path, "write a path without '..'")


def mounted_and_device(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report volumes that a container uses both as a block device and as a mount."""
    listed = value.get("volumeDevices") if type(value) is dict else None
    if not listed:
        return
    held = {text_of(mount, "name") for _, mount in entries(value.get("volumeMounts"))}
    paths = {text_of(mount, "mountPath") for _, mount in entries(value.get("volumeMounts"))}
    for index, device in entries(listed):
        if text_of(device, "name") in held or text_of(device, "devicePath") in paths:
            text = f"volume {shown(text_of(device, 'name'))} is a device and a mount: keep one"
            pod.report(MOUNTS, (*way, "volumeDevices", index, "name"), text)
    if pod.spec.get("hostUsers") is False:
        text = "volumeDevices need the users of the host: remove hostUsers: false"
        pod.report(MOUNTS, (*way, "volumeDevices"), text, FORBIDDEN)


def probe(name: str) -> Examine:
    """Return the function that examines a probe of a kind."""

    def examine(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
        if type(value) is not dict:
            return
        handler(value, way, pod, PROBES)
        threshold = number_in(value, "successThreshold")
        if name != "readinessProbe" and threshold not in (None, 0, 1):
            text = f"successThreshold of a {name} is {threshold}: write 1"
            pod.report(PROBES, (*way, "successThreshold"), text)
        period = value.get("terminationGracePeriodSeconds")
        if name == "readinessProbe" and period is not None:
            text = "a readinessProbe has no terminationGracePeriodSeconds: remove it"
            pod.report(PROBES, (*way, "terminationGracePeriodSeconds"), text, FORBIDDEN)

    return examine


def lifecycle_handler(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report a hook that has no handler, or two."""
    if type(value) is dict:
        handler(value, way, pod, LIFECYCLE)


def handler(value: Mapping[str, Any], way: Way, pod: Pod, family: str) -> None:
    """Report a probe or hook without an action, with two actions, or with an invalid port."""
    known = [name for name in _HANDLERS if name != ("sleep" if family == PROBES else "grpc")]
    given = [name for name in known if value.get(name) is not None]
    if not given:
        text = f"{way[-1]} has no {', '.join(known[:-1])} or {known[-1]}: add one"
        pod.report(family, way, text, REQUIRED)
    elif len(given) > 1:
        pod.report(family, way, f"{way[-1]} has {' and '.join(given)}: keep one of them", FORBIDDEN)
    for name in given[:1]:
        _action(name, mapping(value[name]), (*way, name), pod, family)


def _action(name: str, held: Mapping[str, Any], way: Way, pod: Pod, family: str) -> None:
    if name == "exec":
        if not held.get("command"):
            pod.report(family, (*way, "command"), f"{way[-2]} has no command: add one", REQUIRED)
    elif name == "sleep":
        grace = number_in(pod.spec, "terminationGracePeriodSeconds")
        grace = _GRACE if grace is None else max(grace, 1)  # the API server raises less to 1
        seconds = number_in(held, "seconds") or 0
        if not 0 <= seconds <= grace:
            text = f"sleep is {seconds} s: write 0 to terminationGracePeriodSeconds, {grace}"
            pod.report(family, (*way, "seconds"), text)
    else:
        port = held.get("port")
        if advice := port_or_name(port) if port is not None else "":
            pod.wrong(family, (*way, "port"), port, advice)
        for index, header in entries(held.get("httpHeaders")):
            if not is_header(text_of(header, "name")):
                text = f"header is {shown(text_of(header, 'name'))}: use letters, digits and '-'"
                pod.report(family, (*way, "httpHeaders", index, "name"), text)


def main_container(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report an unknown restart policy. Kubernetes 1.34 drops the field."""
    mounted_and_device(value, way, pod)
    policy = value.get("restartPolicy") if type(value) is dict else None
    if type(policy) is str and policy not in RESTARTS:
        text = f"restartPolicy is {shown(policy)}: write one of {', '.join(RESTARTS)}"
        pod.report(LIFECYCLE, (*way, "restartPolicy"), text, doubtful=True)


def init_container(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report fields of an init container that are allowed only in containers that keep running."""
    mounted_and_device(value, way, pod)
    if type(value) is not dict or text_of(value, "restartPolicy") == ALWAYS:
        return
    places: list[tuple[str, Way]] = [(PROBES, (name,)) for name in _PROBES]
    places += [(LIFECYCLE, ("lifecycle", name)) for name in ("postStart", "preStop")]
    for family, place in places:
        if pod.at((*way, *place)) is not None:
            text = (
                f"an init container that ends has no {place[-1]}: remove it, or make it a sidecar"
            )
            pod.report(family, (*way, *place), text, FORBIDDEN)
    for index, policy in entries(value.get("resizePolicy")):
        if text_of(policy, "restartPolicy") == "RestartContainer":
            text = "an init container that ends cannot be restarted for a resize: NotRequired"
            place = (*way, "resizePolicy", index, "restartPolicy")
            pod.report(LIFECYCLE, place, text, doubtful=True)  # Kubernetes 1.34 accepts it


def restart_rules(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report restart rules in a container without a restart policy as default. Kubernetes 1.34
    drops them.
    """
    if type(value) is not list or not value:
        return
    if mapping(pod.at(way[:-1])).get("restartPolicy") is None:
        text = "restartPolicyRules need a restartPolicy of the container"
        pod.report(LIFECYCLE, way, text, REQUIRED, doubtful=True)
    for index, rule in entries(value):
        if rule.get("exitCodes") is None:
            text = "a rule has no exitCodes"
            pod.report(LIFECYCLE, (*way, index, "exitCodes"), text, REQUIRED, doubtful=True)


def resize_policies(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report duplicate resize policies, and restarts of a container that is never restarted."""
    seen: set[str] = set()
    for index, policy in entries(value):
        resource = text_of(policy, "resourceName")
        text = f"resizePolicy lists {shown(resource)} twice: keep one"
        pod.once(seen, resource, LIFECYCLE, (*way, index), text)
        if pod.never and text_of(policy, "restartPolicy") == "RestartContainer":
            text = "resizePolicy is RestartContainer, but these pods never restart: NotRequired"
            pod.report(LIFECYCLE, (*way, index, "restartPolicy"), text)
