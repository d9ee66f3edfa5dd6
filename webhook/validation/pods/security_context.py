"""Checks of security contexts, kernel parameters and host namespaces."""

import re
from collections.abc import Mapping
from typing import Any, Final

from webhook.api.review import FORBIDDEN, REQUIRED
from webhook.validation.pods.families import SECURITY
from webhook.validation.pods.inspection import Pod, Way, entries, mapping, shown, text_of
from webhook.validation.pods.value_checks import descends

_SYSCTL: Final = re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?")
_SYSCTL_MAX: Final = 253
_IPC: Final = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")
_LINUX_ONLY: Final = frozenset({
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy",
    "sysctls", "runAsUser", "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy",
    "seLinuxChangePolicy", "capabilities", "readOnlyRootFilesystem", "privileged",
    "allowPrivilegeEscalation", "procMount",
})  # fmt: skip
_CONTAINERS: Final = ("containers", "initContainers")


def container_context(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report a container's context that contradicts itself."""
    if type(value) is not dict:
        return
    if value.get("allowPrivilegeEscalation") is False:
        if value.get("privileged") is True:
            text = "privileged is true with allowPrivilegeEscalation false: change one of them"
            pod.report(SECURITY, way, text)
        added = mapping(value.get("capabilities")).get("add")
        if type(added) is list and "CAP_SYS_ADMIN" in added:
            text = "CAP_SYS_ADMIN is added with allowPrivilegeEscalation false: change one of them"
            pod.report(SECURITY, (*way, "capabilities", "add"), text)
    if text_of(value, "procMount") == "Unmasked" and pod.spec.get("hostUsers") is not False:
        text = "procMount Unmasked needs hostUsers: false in the pod's spec"
        pod.report(SECURITY, (*way, "procMount"), text)
    _profiles(value, way, pod)


def pod_context(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report a pod's context that the API server refuses."""
    if type(value) is dict:
        _sysctls(value.get("sysctls"), (*way, "sysctls"), pod)
        _profiles(value, way, pod)


def _profiles(value: Mapping[str, Any], way: Way, pod: Pod) -> None:
    for name in ("seccompProfile", "appArmorProfile"):
        profile = value.get(name)
        if type(profile) is not dict:
            continue
        held, path = profile.get("localhostProfile"), text_of(profile, "localhostProfile")
        place = (*way, name, "localhostProfile")
        if text_of(profile, "type") != "Localhost":
            if held is not None and text_of(profile, "type"):
                pod.report(SECURITY, place, "localhostProfile needs type Localhost: remove it")
        elif held is None or (name == "appArmorProfile" and not path.strip()):
            text = f"{name} of type Localhost names no profile: set localhostProfile"
            pod.report(SECURITY, place, text, REQUIRED)
        elif path != path.strip() if name == "appArmorProfile" else not descends(path):
            pod.wrong(SECURITY, place, path, "write a relative path without '..'")


def _sysctls(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    seen: set[str] = set()
    for index, each in entries(value):
        name = text_of(each, "name")
        place = (*way, index, "name")
        if len(name) > _SYSCTL_MAX or not _SYSCTL.fullmatch(name):
            text = f"sysctl is {shown(name)}: write a name such as net.core.somaxconn"
            pod.report(SECURITY, place, text)
        else:
            pod.once(seen, name, SECURITY, place, f"sysctl {shown(name)} is listed twice")
        dotted = name.replace("/", ".")
        shared = (
            "hostNetwork"
            if dotted.startswith("net.")
            else "hostIPC"
            if dotted.startswith(_IPC)
            else ""
        )
        if shared and pod.spec.get(shared) is True:
            text = f"sysctl {shown(name)} cannot be set with {shared}: remove one of them"
            pod.report(SECURITY, place, text)


def host(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report host namespaces that a pod cannot share at the same time."""
    if type(value) is not dict:
        return
    if value.get("hostUsers") is False:
        for name in ("hostPID", "hostIPC", "hostNetwork"):
            if value.get(name) is True:
                text = f"{name} is true with hostUsers false: change one of them"
                pod.report(SECURITY, (*way, name), text, FORBIDDEN)
    if value.get("shareProcessNamespace") is True and value.get("hostPID") is True:
        text = "shareProcessNamespace and hostPID are true: keep one of them"
        pod.report(SECURITY, (*way, "shareProcessNamespace"), text)
    name = text_of(mapping(value.get("os")), "name")
    if name == "windows":
        _windows(value, way, pod)
    elif name == "linux":
        for place, context in _contexts(value):
            if context.get("windowsOptions") is not None:
                text = "windowsOptions are set for a pod of Linux: remove them"
                pod.report(SECURITY, (*way, *place, "windowsOptions"), text, FORBIDDEN)


def _windows(value: Mapping[str, Any], way: Way, pod: Pod) -> None:
    found = [
        (*place, name)
        for place, context in _contexts(value)
        for name in context
        if name in _LINUX_ONLY and context[name] is not None
    ]
    found += [
        (name,)
        for name in ("hostUsers", "shareProcessNamespace", "resources")
        if value.get(name) is not None
    ]
    found += [(name,) for name in ("hostPID", "hostIPC") if value.get(name) is True]
    for place in found:
        text = f"{place[-1]} cannot be set for a pod of Windows: remove it"
        pod.report(SECURITY, (*way, *place), text, FORBIDDEN)


def _contexts(value: Mapping[str, Any]) -> list[tuple[Way, Mapping[str, Any]]]:
    found: list[tuple[Way, Mapping[str, Any]]] = [
        (("securityContext",), mapping(value.get("securityContext")))
    ]
    for listed in _CONTAINERS:
        for index, container in entries(value.get(listed)):
            place = (listed, index, "securityContext")
            found.append((place, mapping(container.get("securityContext"))))
    return found
