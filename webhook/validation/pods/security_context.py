"""Checks of security contexts, kernel parameters and host namespaces."""

import re
from collections.abc import Iterator
from typing import Final

from webhook.api.review import FORBIDDEN, REQUIRED
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.pods.inspection import InspectedPod, format_value, wrong
from webhook.validation.pods.value_checks import descends

_SYSCTL: Final = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_SYSCTL_MAX: Final = 253
_SHARED: Final = {
    ("net.",): "hostNetwork",
    ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."): "hostIPC",
}
"""Beginnings of names of kernel parameters, and the field that shares their namespace."""


def container_context(context: Field, pod: InspectedPod) -> Iterator[Fault]:
    """Report a container's context that contradicts itself."""
    if (context / "allowPrivilegeEscalation").value is False:
        if (context / "privileged").flag:
            message = "privileged is true with allowPrivilegeEscalation false: change one of them"
            yield Fault(context, message)
        added = context / "capabilities" / "add"
        if any(capability.value == "CAP_SYS_ADMIN" for capability in added.items()):
            message = (
                "CAP_SYS_ADMIN is added with allowPrivilegeEscalation false: change one of them"
            )
            yield Fault(added, message)
    mount = context / "procMount"
    if mount.text == "Unmasked" and (pod.spec / "hostUsers").value is not False:
        yield Fault(mount, "procMount Unmasked needs hostUsers: false in the pod's spec")


def profile(value: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report a security profile without a path, or with an invalid one."""
    kind, path = (value / "type").text, value / "localhostProfile"
    plain, armor = path.text.strip(), value.called == "appArmorProfile"
    if kind != "Localhost":
        if kind and path.given:
            yield Fault(path, "localhostProfile needs type Localhost: remove it")
    elif not path.given or (armor and not plain):
        message = f"{value.token} of type Localhost names no profile: set localhostProfile"
        yield Fault(path, message, REQUIRED)
    elif path.text != plain if armor else not descends(path.text):
        yield wrong(path, "write a relative path without '..'")


def kernel_parameter(sysctl: Field, pod: InspectedPod) -> Iterator[Fault]:
    """Report an invalid kernel parameter, and one of a namespace of the host."""
    field = sysctl / "name"
    name = field.text
    if len(name) > _SYSCTL_MAX or not _SYSCTL.fullmatch(name):
        yield Fault(
            field, f"sysctl is {format_value(name)}: write a name such as net.core.somaxconn"
        )
    for prefixes, shared in _SHARED.items():
        if name.replace("/", ".").startswith(prefixes) and (pod.spec / shared).flag:
            message = f"sysctl {format_value(name)} cannot be set with {shared}: remove one of them"
            yield Fault(field, message)


def check_host_namespaces(users: Field, pod: InspectedPod) -> Iterator[Fault]:
    """Report namespaces of the host that a pod with users of its own cannot share."""
    for field in (pod.spec / name for name in ("hostPID", "hostIPC", "hostNetwork")):
        if users.value is False and field.flag:
            message = f"{field.token} is true with hostUsers false: change one of them"
            yield Fault(field, message, FORBIDDEN)


def check_shared_processes(shared: Field, pod: InspectedPod) -> Iterator[Fault]:
    """Report process namespaces that a pod cannot share at the same time."""
    if shared.flag and (pod.spec / "hostPID").flag:
        yield Fault(shared, "shareProcessNamespace and hostPID are true: keep one of them")
