"""Kueue's slices: at creation of a RayCluster with the annotation, its templates get annotations
that keep the hosts of each replica together.

Kueue reads the templates when it first observes the RayCluster, and compares them from then on, so
they are never changed later.

https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
"""

from typing import Any, Final

import msgspec
from msgspec import Struct, field

from webhook.admission.codec import decode_object
from webhook.api import names
from webhook.api.formats import is_qualified_name, pointer
from webhook.api.objects import Bare, ObjectMeta, Strings
from webhook.api.review import AdmissionRequest, Answer, BadReview
from webhook.groups.annotations import TOPOLOGY_KEY
from webhook.groups.kueue import read_kueue
from webhook.mutation.fold import Operation, encode, extended

_SAID: Final = (
    names.KUEUE_SLICE_REQUIRED_TOPOLOGY,
    names.KUEUE_SLICE_CONSTRAINTS,
    names.KUEUE_SLICE_SIZE,
    names.KUEUE_GROUP_NAME,
)
"""Annotations of users that set slices, or exclude them."""


class _Spec(Struct, rename="camel", frozen=True, gc=False):
    node_selector: Strings | None = None


class _Template(Struct, frozen=True, gc=False):
    metadata: ObjectMeta | None = None
    spec: _Spec = field(default_factory=_Spec)

    @property
    def annotations(self) -> Strings:
        return (self.metadata and self.metadata.annotations) or {}


class _Group(Struct, rename="camel", frozen=True, gc=False):
    group_name: str = ""
    num_of_hosts: int = 1
    replicas: int | None = 0
    template: _Template | None = None


class _Groups(Struct, rename="camel", frozen=True, gc=False):
    worker_group_specs: list[_Group] | None = None


class Templates(Bare, frozen=True):
    """A RayCluster, with the scheduling fields of its templates."""

    spec: _Groups = field(default_factory=_Groups)


_operations: Final = msgspec.json.Decoder(list[msgspec.Raw]).decode


def with_slices(answer: Answer, request: AdmissionRequest[Bare], body: bytes) -> Answer:
    """Return the response to a review of a RayCluster, with Kueue's slices if it has the
    annotation.
    """
    meta = request.object.metadata if request.object else ObjectMeta()
    if request.operation != "CREATE" or request.sub_resource or answer.causes or not asks(meta):
        return answer
    try:
        cluster = msgspec.convert(decode_object(body).object, Templates)
    except (msgspec.ValidationError, BadReview):
        return answer  # the API server rejects such a spec by its schema
    return joined(answer, *operations(cluster))


def asks(meta: ObjectMeta) -> bool:
    """Return whether Kueue's slices are written into the templates of a RayCluster."""
    return read_kueue(meta.annotations or {}, meta.labels or {}).slices


def operations(cluster: Templates) -> tuple[list[Operation], tuple[str, ...]]:
    """Return the operations on the templates of a RayCluster, and warnings for groups that are
    omitted.
    """
    key = TOPOLOGY_KEY.read(cluster.metadata.annotations or {})
    found: list[Operation] = []
    warnings = []
    for index, group in enumerate(cluster.spec.worker_group_specs or ()):
        template = group.template
        if template is None or group.num_of_hosts <= 1 or template.annotations.keys() & set(_SAID):
            continue
        level = key or _usual_level(template)
        if (group.replicas or 0) < 1:  # Kueue rejects a slice of more pods than the group has
            text = f"no slices for Kueue in group {group.group_name[:20]}: it has 0 replicas"
            warnings.append(text)
        elif is_qualified_name(level):
            found += _written(index, group.num_of_hosts, template, level)
        else:
            text = (
                f"no slices for Kueue in group {group.group_name[:20]}: name a topology level by "
                f"{names.ANNOTATION_TOPOLOGY_KEY}"
            )
            warnings.append(text)
    return found, tuple(warnings)


def _usual_level(template: _Template) -> str:
    """Return the topology level of a slice: the node pool, if pods select a whole TPU slice."""
    selector = template.spec.node_selector or {}
    whole = (
        names.NODE_TPU_TOPOLOGY in selector
        and names.ANNOTATION_SLICE_TOPOLOGY not in template.annotations
    )
    return names.NODE_POOL if whole else ""


def _written(index: int, hosts: int, template: _Template, level: str) -> list[Operation]:
    values = {names.KUEUE_SLICE_REQUIRED_TOPOLOGY: level, names.KUEUE_SLICE_SIZE: str(hosts)}
    path = pointer("spec", "workerGroupSpecs", index, "template", "metadata")
    if template.metadata is None:
        return [Operation("add", path, {"annotations": values})]
    return extended(f"{path}/annotations", template.metadata.annotations, values)


def joined(answer: Answer, added: list[Operation], warnings: tuple[str, ...]) -> Answer:
    """Return a response with additional operations and warnings."""
    before: list[Any] = _operations(answer.patch) if answer.patch else []
    patch = encode([*before, *added]) if added else answer.patch
    return Answer(answer.causes, patch, (*answer.warnings, *warnings), answer.rules)
