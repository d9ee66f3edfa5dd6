"""Checks of volumes of a template: names, sources, and the files in them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from webhook.api.formats import DNS_LABEL_MAX, is_dns_label, is_dns_subdomain
from webhook.api.quantity import read_quantity
from webhook.api.review import DUPLICATE, FORBIDDEN, REQUIRED
from webhook.validation.field import Field
from webhook.validation.finding import Fault
from webhook.validation.pods.containers import field_ref, resource_ref
from webhook.validation.pods.inspection import Pod, shown, whole, wrong
from webhook.validation.pods.value_checks import (
    DNS_LABEL_ADVICE,
    SUBDOMAIN_ADVICE,
    climbs,
    descends,
    is_local,
    named,
)

_VOLUME_FIELDS: Final = frozenset({
    "metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels",
    "metadata.annotations",
})  # fmt: skip
_MODES: Final = ("ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod")
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "secret": ("secretName",),
    "configMap": ("name",),
    "persistentVolumeClaim": ("claimName",),
    "nfs": ("server", "path"),
    "hostPath": ("path",),
    "gitRepo": ("repository",),
    "csi": ("driver",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "cinder": ("volumeID",),
    "glusterfs": ("endpoints", "path"),
    "rbd": ("image", "monitors"),
    "cephfs": ("monitors",),
    "azureFile": ("secretName", "shareName"),
    "azureDisk": ("diskName", "diskURI"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "quobyte": ("registry", "volume"),
    "scaleIO": ("gateway", "system", "volumeName"),
    "storageos": ("volumeName",),
    "iscsi": ("targetPortal", "iqn"),
    "flexVolume": ("driver",),
    "image": ("reference",),
    "ephemeral": ("volumeClaimTemplate",),
}
"""The required fields of each source."""
_SOUND: Final[Mapping[str, tuple[str, Callable[[str], bool], str]]] = {
    "hostPath": ("path", lambda path: not climbs(path), "write it without '..'"),
    "nfs": ("path", lambda path: path.startswith("/"), "begin it with /"),
    "gitRepo": ("directory", descends, "write a relative path without '..'"),
    "csi": (
        "driver",
        lambda name: len(name) <= DNS_LABEL_MAX and is_dns_subdomain(name.lower()),
        SUBDOMAIN_ADVICE,
    ),
}
"""A field of each source with the check of its text, and advice."""


def volumes(listed: Field, _: Pod) -> Iterator[Fault]:
    """Report volumes with two sources, and names that are invalid or duplicate."""
    yield from named(listed, "volume", is_dns_label, DNS_LABEL_ADVICE)
    for volume in listed.entries():
        sources = [each for each, held in volume.map.items() if each != "name" and held is not None]
        if len(sources) == 1:
            yield from _source(volume / sources[0])
        elif sources:  # a volume without a source is an emptyDir
            text = f"it has {' and '.join(sources[:4])}: keep one source"
            yield Fault(volume / sources[1], text, FORBIDDEN)


def _source(source: Field) -> Iterator[Fault]:
    kind = str(source.token)
    if type(source.value) is not dict:
        return
    for name in _NEEDED.get(kind, ()):
        if source.map.get(name) in (None, "", []):
            yield Fault(source / name, f"{kind} has no {name}: set it", REQUIRED)
    if kind in _SOUND:
        name, sound, advice = _SOUND[kind]
        field = source / name
        if field.text and not sound(field.text):
            yield wrong(field, advice)
    if kind in _SPECIAL:
        yield from _SPECIAL[kind](source)


def _empty_dir(source: Field) -> Iterator[Fault]:
    size = source / "sizeLimit"
    if (read_quantity(size.value) or 0) < 0:
        yield Fault(size, f"sizeLimit is {shown(size.value)}: write 0 or more")


def _ephemeral(source: Field) -> Iterator[Fault]:
    claim = source / "volumeClaimTemplate" / "spec"
    modes, size = claim / "accessModes", claim / "resources" / "requests" / "storage"
    unknown = any(type(mode.value) is str and mode.value not in _MODES for mode in modes.items())
    if not modes.size or unknown:
        text = f"accessModes: write one such as {_MODES[0]} or {_MODES[1]}"
        yield Fault(modes, text, REQUIRED)
    amount = read_quantity(size.value)
    if not isinstance(size.value, str | int | float) or (amount is not None and amount <= 0):
        text = "a claim requests no storage: set resources.requests.storage"
        yield Fault(size, text, REQUIRED)


def _items(source: Field) -> Iterator[Fault]:
    for item in (source / "items").entries():
        if not (item / "key").text:
            yield Fault(item / "key", "an item has no key: set it", REQUIRED)
        yield from _path(item)


def _path(item: Field) -> Iterator[Fault]:
    path = item / "path"
    if not path.text:
        yield Fault(path, "a file has no path: set it", REQUIRED)
    elif not is_local(path.text):
        yield wrong(path, "write a relative path without '..'")


def _downward(source: Field) -> Iterator[Fault]:
    for item in (source / "items").entries():
        yield from _path(item)
        field, resource = item / "fieldRef", item / "resourceFieldRef"
        if field.given == resource.given:
            text = "a file needs fieldRef or resourceFieldRef: write one of the two"
            yield Fault(item, text, REQUIRED)
        if type(field.value) is dict:
            yield from field_ref(field, _VOLUME_FIELDS)
        elif type(resource.value) is dict:
            yield from resource_ref(resource, of_other=True)


def _projected(source: Field) -> Iterator[Fault]:
    seen: set[str] = set()
    for each in (source / "sources").entries():
        given = [name for name in _PROJECTIONS if (each / name).given]
        if len(given) > 1:
            yield Fault(each, f"it has {' and '.join(given)}: keep one source", FORBIDDEN)
        for name in given:
            held = each / name
            if type(held.value) is not dict:
                continue
            yield from _PROJECTIONS[name](held)
            bundle = name == "clusterTrustBundle"
            for item in (held,) if bundle else (held / "items").entries():
                path = (item / "path").text
                if path and path in seen:
                    text = f"another file of the volume has path {shown(path)}: change one of them"
                    yield Fault(held, text, DUPLICATE)
                seen.add(path)


def _named_items(held: Field) -> Iterator[Fault]:
    if not (held / "name").text:
        yield Fault(held / "name", f"{held.token} has no name: set it", REQUIRED)
    yield from _items(held)


def _token(held: Field) -> Iterator[Fault]:
    field = held / "expirationSeconds"
    seconds = whole(field)
    if seconds is not None and not 600 <= seconds <= 2**32:  # noqa: PLR2004 - the API's limits
        yield Fault(field, f"expirationSeconds is {seconds}: write 600 or more")
    yield from _path(held)


def _bundle(held: Field) -> Iterator[Fault]:
    if (held / "name").given == (held / "signerName").given:
        yield Fault(held, "write one of name and signerName", REQUIRED)
    yield from _path(held)


_SPECIAL: Final[Mapping[str, Callable[[Field], Iterable[Fault]]]] = {
    "emptyDir": _empty_dir,
    "ephemeral": _ephemeral,
    "secret": _items,
    "configMap": _items,
    "downwardAPI": _downward,
    "projected": _projected,
}
_PROJECTIONS: Final[Mapping[str, Callable[[Field], Iterable[Fault]]]] = {
    "secret": _named_items,
    "configMap": _named_items,
    "downwardAPI": _downward,
    "serviceAccountToken": _token,
    "clusterTrustBundle": _bundle,
    "podCertificate": lambda _: (),
}
