"""Checks of volumes of a template: names, sources, and the files in them."""

from collections.abc import Iterator, Mapping
from typing import Final

from webhook.api.formats import is_dns_label
from webhook.api.quantity import read_quantity
from webhook.api.review import FORBIDDEN, REQUIRED
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.pods.containers import field_ref, resource_ref
from webhook.validation.pods.inspection import InspectedPod, format_value, wrong
from webhook.validation.pods.value_checks import DNS_LABEL_ADVICE, check_names, is_local

_VOLUME_FIELDS: Final = frozenset({
    "metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels",
    "metadata.annotations",
})  # fmt: skip
_MODES: Final = ("ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod")
_PROJECTIONS: Final = ("secret", "configMap", "downwardAPI", "serviceAccountToken")
REQUIRED_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "secret": ("secretName",),
    "configMap": ("name",),
    "persistentVolumeClaim": ("claimName",),
    "nfs": ("server", "path"),
    "hostPath": ("path",),
    "csi": ("driver",),
    "azureFile": ("secretName", "shareName"),
    "image": ("reference",),
    "ephemeral": ("volumeClaimTemplate",),
}
"""The required fields of sources; the CRD does not require them, or allows them to be empty."""


def volumes(listed: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report volumes with two sources, and names that are invalid or duplicate."""
    yield from check_names(listed, "volume", is_dns_label, DNS_LABEL_ADVICE)
    for volume in listed.entries():
        sources = [
            name for name, value in volume.map.items() if name != "name" and value is not None
        ]
        if len(sources) > 1:  # a volume without a source is an emptyDir
            message = f"it has {' and '.join(sources[:4])}: keep one source"
            yield Fault(volume / sources[1], message, FORBIDDEN)


def source(value: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report required fields of a source that are not set."""
    kind = str(value.token)
    for name in REQUIRED_FIELDS[kind] if type(value.value) is dict else ():
        if value.map.get(name) in (None, "", []):
            yield Fault(value / name, f"{kind} has no {name}: set it", REQUIRED)


def empty_dir(value: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report a negative limit."""
    size = value / "sizeLimit"
    if (read_quantity(size.value) or 0) < 0:
        yield Fault(size, f"sizeLimit is {format_value(size.value)}: write 0 or more")


def claim(value: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report a claim in a template without access modes or storage."""
    spec = value / "volumeClaimTemplate" / "spec"
    modes, size = spec / "accessModes", spec / "resources" / "requests" / "storage"
    unknown = any(type(mode.value) is str and mode.value not in _MODES for mode in modes.items())
    if not modes.size or unknown:
        message = f"accessModes: write one such as {_MODES[0]} or {_MODES[1]}"
        yield Fault(modes, message, REQUIRED)
    amount = read_quantity(size.value)
    if not isinstance(size.value, str | int | float) or (amount is not None and amount <= 0):
        message = "a claim requests no storage: set resources.requests.storage"
        yield Fault(size, message, REQUIRED)


def file_path(value: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report a file without a path, or with an invalid one."""
    path = value / "path"
    if not path.text:
        yield Fault(path, "a file has no path: set it", REQUIRED)
    elif not is_local(path.text):
        yield wrong(path, "write a relative path without '..'")


def downward_item(value: Field, pod: InspectedPod) -> Iterator[Fault]:
    """Report a file of the downward API with an invalid path or without one source."""
    yield from file_path(value, pod)
    field, resource = value / "fieldRef", value / "resourceFieldRef"
    if field.given == resource.given:
        message = "a file needs fieldRef or resourceFieldRef: write one of the two"
        yield Fault(value, message, REQUIRED)
    if type(field.value) is dict:
        yield from field_ref(field, _VOLUME_FIELDS)
    elif type(resource.value) is dict:
        yield from resource_ref(resource)


def projection(value: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report an entry of a projected volume with two sources."""
    source_names = [name for name in _PROJECTIONS if (value / name).given]
    if len(source_names) > 1:
        yield Fault(value, f"it has {' and '.join(source_names)}: keep one source", FORBIDDEN)


def check_projection_name(value: Field, _: InspectedPod) -> Iterator[Fault]:
    """Report a Secret or ConfigMap without a name."""
    if not (value / "name").text:
        yield Fault(value / "name", f"{value.token} has no name: set it", REQUIRED)
