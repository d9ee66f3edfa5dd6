"""Rules of names, annotations and status conditions of Ray objects."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from webhook.api import names
from webhook.api.formats import nearest, shorten
from webhook.api.review import NOT_SUPPORTED
from webhook.groups.annotations import ANNOTATIONS, OPT_INS
from webhook.groups.naming import GENERATED_BASE_MAX, SUFFIX_LENGTH
from webhook.validation.crd import INT64
from webhook.validation.field import COMPARED_MAX
from webhook.validation.finding import Fault
from webhook.validation.ray_object import RayObject
from webhook.validation.schedule import parse_duration


def annotation_value_invalid(ray_object: RayObject) -> Iterator[Fault]:
    """An annotation of the webhook with an unknown value.

    The pods would start without the effect of the annotation, and only KubeRay would receive the
    warning. A shard group or a number of shards that is invalid would make the webhook refuse the
    RayClusters of a RayJob or RayService.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/
    """
    for row in OPT_INS:
        field = ray_object.annotation(row.annotation)
        if problem := row.problem(field.text, ray_object.settings.profiles):
            yield Fault(field, problem, NOT_SUPPORTED)


# https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/constant.go
LONGEST: Final = {
    names.RAYCLUSTER_KIND: 53,
    names.RAYJOB_KIND: 47,
    names.RAYSERVICE_KIND: 47,
    names.RAYCRONJOB_KIND: 36,
}
_DNS_1035: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUFFIX: Final = 6
"""Number of characters that KubeRay adds to the name of a RayCronJob for that of a RayJob."""
_SECONDS: Final = re.compile(r"[-+]?[0-9]{1,19}", re.ASCII)


def name_too_long(ray_object: RayObject) -> Iterator[Fault]:
    """A name that is too long for the characters that KubeRay adds.

    KubeRay appends up to 10 characters for services and clusters; Kubernetes allows 63 in total, so
    no object is created. KubeRay 1.6 accepts a RayCronJob with any name, but each RayJob of a
    RayCronJob whose name has more than 41 characters is refused.
    """
    kind, longest = ray_object.kind, LONGEST[ray_object.kind]
    name, prefix = ray_object.meta / "name", ray_object.meta / "generateName"
    length = len(name.text) or min(len(prefix.text), GENERATED_BASE_MAX) + SUFFIX_LENGTH
    if length <= longest:
        return
    since = (1, 4)
    if kind == names.RAYCRONJOB_KIND:
        since = (1, 6) if length + _SUFFIX > LONGEST[names.RAYJOB_KIND] else (1, 7)
    if name.text:
        message = f"the name has {length} characters: use at most {longest} for a {kind}"
        yield Fault(name, message, since=since)
    else:
        problem = f"generateName has {len(prefix.text)} characters and gets {SUFFIX_LENGTH} more"
        yield Fault(prefix, f"{problem}: use at most {longest} in all for a {kind}", since=since)


def name_not_dns_label(ray_object: RayObject) -> Iterator[Fault]:
    """A name that cannot be the name of a service.

    KubeRay names services after the object, and the name of a service is a DNS label that starts
    with a letter.
    """
    name, prefix = ray_object.meta / "name", ray_object.meta / "generateName"
    object_name = name.text or (prefix.text and prefix.text + "x")
    if object_name and not _DNS_1035.fullmatch(object_name):
        field = name if name.text else prefix
        advice = "use lower-case letters, digits, '-'; begin with a letter"
        if "{{" in field.text or "${" in field.text:
            advice = "a template, such as Helm's, has to be rendered first"
        yield Fault(field, f"the name is {shorten(field.text)!r}: {advice}")


def initializing_timeout_invalid(ray_object: RayObject) -> Iterator[Fault]:
    """An initializing timeout of a RayService that is not a positive duration.

    KubeRay does not start the service until the annotation can be parsed.
    """
    field = ray_object.annotation(names.ANNOTATION_INITIALIZING_TIMEOUT)
    if ray_object.kind == names.RAYSERVICE_KIND and field.text and not _positive(field.text):
        advice = "write a duration such as 5m or 1h, or a number of seconds"
        yield Fault(field, f"{shorten(field.text)!r}: {advice}")


def webhook_name_unknown(ray_object: RayObject) -> Iterator[Fault]:
    """An unknown label or annotation with the webhook's prefix.

    It has no effect. Usually the name is misspelt, or a label was written as an annotation or an
    annotation as a label. The label `admission.ray.io/ignore` has no effect either if the setting
    `ignore.rayclusters` is off.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/annotations/
    """
    for name, known_keys, other, other_keys in (
        ("annotations", ANNOTATIONS, "label", (names.LABEL_IGNORE,)),
        ("labels", (names.LABEL_IGNORE,), "annotation", ANNOTATIONS),
    ):
        field = ray_object.meta / name
        for key in field.map:
            if key == names.LABEL_IGNORE and name == "labels" and not ray_object.settings.ignoring:
                yield Fault(field.key(key), "no effect: the setting ignore.rayclusters is off")
            if not key.startswith(names.PREFIX) or key in known_keys:
                continue
            if key in other_keys:
                yield Fault(field.key(key), f"no effect among the {name}: write it as {other}")
                continue
            ends = [known_key.removeprefix(names.PREFIX) for known_key in known_keys]
            near = nearest(key.removeprefix(names.PREFIX), ends)
            meant = f"did you mean {near}? " if near else ""
            message = f"there is no such name: {meant}docs/annotations.md lists all"
            yield Fault(field.key(key), message, NOT_SUPPORTED)


def kuberay_name_unknown(ray_object: RayObject) -> Iterator[Fault]:
    """A label or annotation that is nearly one of KubeRay's, or a label of KubeRay among the
    annotations and the reverse.

    KubeRay ignores it: with `ray.io/ft-enable`, for example, the GCS is not fault tolerant.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/constant.go
    """
    kinds = (("annotations", _KUBERAY_ANNOTATIONS), ("labels", _KUBERAY_LABELS))
    for (name, known_keys), (other, other_keys) in (kinds, kinds[::-1]):
        field = ray_object.meta / name
        keys = (key for key in field.map if key.startswith(_KUBERAY_PREFIX))
        for key in islice(keys, COMPARED_MAX):
            if key in known_keys:
                continue
            if key in other_keys:
                yield Fault(field.key(key), f"no effect among the {name}: move it to {other}")
            elif near := nearest(key, known_keys, _MISSPELT):
                message = f"KubeRay does not read it: did you mean {near}?"
                yield Fault(field.key(key), message, NOT_SUPPORTED)


_KUBERAY_PREFIX: Final = f"{names.RAY_GROUP}/"
_KUBERAY_ANNOTATIONS: Final = (
    names.ANNOTATION_FT_ENABLED, names.ANNOTATION_EXTERNAL_STORAGE, names.ANNOTATION_IPPR,
    names.ANNOTATION_INITIALIZING_TIMEOUT, names.ENABLE_SERVE_SERVICE, names.OVERWRITE_COMMAND,
    "ray.io/disable-provisioned-head-restart", "ray.io/gcs-ft-deletion-timeout",
)  # fmt: skip
_KUBERAY_LABELS: Final = (names.LABEL_GANG, "ray.io/priority-class-name")
_MISSPELT: Final = 0.88
"""How much a misspelt name has in common with the right one."""


def ignore_label_not_true(ray_object: RayObject) -> Iterator[Fault]:
    """A label `admission.ray.io/ignore` with another value than `true`.

    Only `true` has an effect: the object is checked, and its pods are changed.

    https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/
    """
    field = (ray_object.meta / "labels").key(names.LABEL_IGNORE)
    if field.text and field.text != "true" and ray_object.settings.ignoring:
        yield Fault(
            field, f'"{shorten(field.text)}" has no effect: write "true", or remove the label'
        )


def _positive(text: str) -> bool:
    """Return whether Go parses a duration above zero, or whole seconds above zero."""
    duration = parse_duration(text)
    if duration is None and _SECONDS.fullmatch(text):
        return 0 < int(text) <= INT64[1]
    return (duration or 0) > 0
