"""Checks of volumes of a template: names, sources, and the files in them."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from webhook.api.formats import DNS_LABEL_MAX, is_dns_label, is_dns_subdomain
from webhook.api.quantity import read_quantity
from webhook.api.review import DUPLICATE, FORBIDDEN, REQUIRED
from webhook.validation.pods.containers import field_ref, resource_ref
from webhook.validation.pods.families import VOLUMES
from webhook.validation.pods.inspection import Pod, Way, entries, mapping, number_in, shown, text_of
from webhook.validation.pods.value_checks import (
    DNS_LABEL_ADVICE,
    SUBDOMAIN_ADVICE,
    climbs,
    descends,
    is_local,
)

_VOLUME_FIELDS: Final = frozenset({
    "metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels",
    "metadata.annotations",
})  # fmt: skip
_PROJECTED: Final = (
    "secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle",
    "podCertificate",
)  # fmt: skip
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


def volumes(value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    """Report volumes with two sources, and names that are invalid or duplicate."""
    names: set[str] = set()
    for index, volume in entries(value):
        name = text_of(volume, "name")
        place = (*way, index)
        if not is_dns_label(name):
            pod.wrong(VOLUMES, (*place, "name"), name, DNS_LABEL_ADVICE)
        elif name in names:
            text = f"another volume is named {shown(name)}: rename one of them"
            pod.report(VOLUMES, (*place, "name"), text, DUPLICATE)
        names.add(name)
        sources = [each for each, held in volume.items() if each != "name" and held is not None]
        if len(sources) == 1:
            _source(sources[0], volume[sources[0]], (*place, sources[0]), pod)
        elif sources:  # a volume without a source is an emptyDir
            text = f"it has {' and '.join(sources[:4])}: keep one source"
            pod.report(VOLUMES, (*place, sources[1]), text, FORBIDDEN)


def _source(kind: str, value: Any, way: Way, pod: Pod) -> None:  # noqa: ANN401 - JSON
    if type(value) is not dict:
        return
    for name in _NEEDED.get(kind, ()):
        if value.get(name) in (None, "", []):
            pod.report(VOLUMES, (*way, name), f"{kind} has no {name}: set it", REQUIRED)
    if kind in _SOUND:
        name, sound, advice = _SOUND[kind]
        text = text_of(value, name)
        if text and not sound(text):
            pod.wrong(VOLUMES, (*way, name), text, advice)
    special = _SPECIAL.get(kind)
    if special is not None:
        special(value, way, pod)


def _empty_dir(value: Mapping[str, Any], way: Way, pod: Pod) -> None:
    size = value.get("sizeLimit")
    if size is not None and (read_quantity(size) or 0) < 0:
        pod.wrong(VOLUMES, (*way, "sizeLimit"), size, "write 0 or more")


def _ephemeral(value: Mapping[str, Any], way: Way, pod: Pod) -> None:
    there = (*way, "volumeClaimTemplate", "spec")
    claim = mapping(mapping(value.get("volumeClaimTemplate")).get("spec"))
    modes = claim.get("accessModes")
    listed = modes if type(modes) is list else []
    if not listed or any(type(mode) is str and mode not in _MODES for mode in listed):
        text = f"accessModes: write one such as {_MODES[0]} or {_MODES[1]}"
        pod.report(VOLUMES, (*there, "accessModes"), text, REQUIRED)
    requests = mapping(mapping(claim.get("resources")).get("requests"))
    size = requests.get("storage")
    amount = read_quantity(size)
    if not isinstance(size, str | int | float) or (amount is not None and amount <= 0):
        text = "a claim requests no storage: set resources.requests.storage"
        pod.report(VOLUMES, (*there, "resources", "requests", "storage"), text, REQUIRED)


def _items(value: Mapping[str, Any], way: Way, pod: Pod) -> None:
    for index, item in entries(value.get("items")):
        place = (*way, "items", index)
        if not text_of(item, "key"):
            pod.report(VOLUMES, (*place, "key"), "an item has no key: set it", REQUIRED)
        _path(item, place, pod)


def _path(item: Mapping[str, Any], way: Way, pod: Pod, name: str = "path") -> None:
    path = text_of(item, name)
    if not path:
        pod.report(VOLUMES, (*way, name), f"a file has no {name}: set it", REQUIRED)
    elif not is_local(path):
        pod.wrong(VOLUMES, (*way, name), path, "write a relative path without '..'")


def _downward(value: Mapping[str, Any], way: Way, pod: Pod) -> None:
    for index, item in entries(value.get("items")):
        place = (*way, "items", index)
        _path(item, place, pod)
        field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
        if (field is None) == (resource is None):
            text = "a file needs fieldRef or resourceFieldRef: write one of the two"
            pod.report(VOLUMES, place, text, REQUIRED)
        if type(field) is dict:
            field_ref(field, (*place, "fieldRef"), pod, VOLUMES, _VOLUME_FIELDS)
        elif type(resource) is dict:
            resource_ref(resource, (*place, "resourceFieldRef"), pod, VOLUMES, named=True)


def _projected(value: Mapping[str, Any], way: Way, pod: Pod) -> None:
    paths: set[str] = set()
    for index, source in entries(value.get("sources")):
        place = (*way, "sources", index)
        given = [name for name in _PROJECTED if source.get(name) is not None]
        if len(given) > 1:
            pod.report(VOLUMES, place, f"it has {' and '.join(given)}: keep one source", FORBIDDEN)
        for name in given:
            held = source[name]
            if type(held) is dict:
                _projection(name, held, (*place, name), paths, pod)


def _projection(kind: str, held: Mapping[str, Any], way: Way, paths: set[str], pod: Pod) -> None:
    written = [text_of(item, "path") for _, item in entries(held.get("items"))]
    if kind == "downwardAPI":
        _downward(held, way, pod)
    elif kind in ("secret", "configMap"):
        if not text_of(held, "name"):
            pod.report(VOLUMES, (*way, "name"), f"{kind} has no name: set it", REQUIRED)
        _items(held, way, pod)
    elif kind == "serviceAccountToken":
        written = []
        seconds = number_in(held, "expirationSeconds")
        if seconds is not None and not 600 <= seconds <= 2**32:  # noqa: PLR2004 - the API's limits
            text = f"expirationSeconds is {seconds}: write 600 or more"
            pod.report(VOLUMES, (*way, "expirationSeconds"), text)
        _path(held, way, pod)
    elif kind == "clusterTrustBundle":
        written = [text_of(held, "path")]
        if (held.get("name") is None) == (held.get("signerName") is None):
            pod.report(VOLUMES, way, "write one of name and signerName", REQUIRED)
        _path(held, way, pod)
    for path in filter(None, written):
        text = f"another file of the volume has path {shown(path)}: change one of them"
        pod.once(paths, path, VOLUMES, way, text)


_SPECIAL: Final[Mapping[str, Callable[[Mapping[str, Any], Way, Pod], None]]] = {
    "emptyDir": _empty_dir,
    "ephemeral": _ephemeral,
    "secret": _items,
    "configMap": _items,
    "downwardAPI": _downward,
    "projected": _projected,
}
