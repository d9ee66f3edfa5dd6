"""The identity of a pod by its labels: the labels of KubeRay, and that of the previous webhook."""

import re
from collections.abc import Callable
from functools import partial
from sys import intern
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct, field, structs

from webhook.api import names
from webhook.api.formats import LABEL_VALUE, read_mark, shorten
from webhook.api.objects import ObjectMeta, Outline, OutlineMeta, Pod, PodSpec, Strings
from webhook.api.review import INVALID, REQUIRED, Cause, Denied
from webhook.groups.google_labels import read_legacy_identity
from webhook.groups.identity import MAX_HOSTS, MAX_REPLICAS, GroupKey, HostIdentity
from webhook.groups.identity_index import Member, name_hash

_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")
_TEXT_MAX: Final = 63
"""Maximum characters of uids and holders; only users write longer ones."""
_specs: Final = msgspec.json.Decoder(PodSpec)


class _Condition(Struct, frozen=True, gc=False):
    type: str = ""
    status: str = ""


_READY: Final = _Condition("Ready", "True")


class WorkerStatus(Struct, frozen=True, gc=False):
    """The fields of the status of a worker pod that are read."""

    conditions: tuple[_Condition, ...] | None = None

    @property
    def ready(self) -> bool:
        """Return whether the pod has the condition Ready."""
        return _READY in (self.conditions or ())


class WorkerPod(Struct, frozen=True, gc=False):
    """The fields of a live worker pod that are read. `spec` is decoded only for an adoption."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: Raw = field(default_factory=Raw)
    status: WorkerStatus | None = None


WORKER_POD_BYTES_MAX: Final = 128 * 1024
"""Of a worker pod that is read whole. Those of Ray have 10 KiB."""


class _PodOutlineLabels(Struct, frozen=True, omit_defaults=True):
    node_type: str | None = field(default=None, name=names.LABEL_NODE_TYPE)
    cluster: str | None = field(default=None, name=names.LABEL_CLUSTER)
    group: str | None = field(default=None, name=names.LABEL_GROUP)
    replica_index: str | None = field(default=None, name=names.LABEL_REPLICA_INDEX)
    replica_name: str | None = field(default=None, name=names.LABEL_REPLICA_NAME)
    host_index: str | None = field(default=None, name=names.LABEL_HOST_INDEX)
    mark: str | None = field(default=None, name=names.LABEL_MARKED_FOR_DELETION)


class _PodOutlineAnnotations(Struct, frozen=True, omit_defaults=True):
    holder: str | None = field(default=None, name=names.ANNOTATION_HOLDER)
    identity: str | None = field(default=None, name=names.ANNOTATION_IDENTITY)


class _OutlineOwner(Struct, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class _WorkerPodOutlineMeta(OutlineMeta, rename="camel", frozen=True, omit_defaults=True):
    labels: _PodOutlineLabels | None = None
    annotations: _PodOutlineAnnotations | None = None
    owner_references: list[_OutlineOwner] | None = None


class WorkerPodOutline(Outline, frozen=True):
    """The fields of a worker pod that are read however large it is: its identity. The variables of
    the previous webhook are not among them.
    """

    metadata: _WorkerPodOutlineMeta
    status: WorkerStatus | None = None

    def values(self) -> dict[str, Any]:
        meta = self.metadata
        owners = [owner for owner in meta.owner_references or () if owner.controller][:1]
        status = self.status and structs.replace(
            self.status, conditions=(_READY,) if self.status.ready else None
        )
        meta = structs.replace(meta, owner_references=owners)
        return Outline.values(structs.replace(self, metadata=meta, status=status))


def member_of(
    pod: WorkerPod | Pod, known: Member | None, reject: Callable[[GroupKey, Exception], None]
) -> Member | None:
    """Return the member of its group that a live pod is, or None if it has neither identity nor
    holder. `known` is its previous state; `reject` receives the error of invalid labels.

    A terminating pod frees its identity. A pod without identity labels that a previous webhook
    mutated is adopted. A live pod keeps its identity if its labels are removed, and its holder
    after any edit.
    """
    meta = pod.metadata
    if meta.deletion_timestamp:
        return None
    labels, uid = meta.labels or {}, meta.uid or ""
    key, identity, holder = _key_of(meta, labels), None, ""
    if key.cluster_uid:
        try:
            identity = identity_of(key.group, labels, lambda: _spec_of(pod), None)
        except (Denied, msgspec.DecodeError, UnicodeDecodeError) as error:
            reject(key, error)
    if known is not None:
        holder = known.holder
        if identity is None and known.key == key:
            identity = known.identity
    holder = holder or (meta.annotations or {}).get(names.ANNOTATION_HOLDER, "")
    if len(holder) > _TEXT_MAX:
        holder = ""
    if identity is None and not holder:
        return None
    mark = labels.get(names.LABEL_MARKED_FOR_DELETION)
    status = pod.status if isinstance(pod, WorkerPod) else None
    ready = status is not None and status.ready
    name = name_hash(key.namespace, meta.name or "")
    return Member(
        key,
        identity,
        holder=holder,
        marked=bool(mark and read_mark(mark, uid)),
        ready=ready,
        name=name,
    )


def _key_of(meta: ObjectMeta, labels: Strings) -> GroupKey:
    """Return the group of a pod; an empty key if its labels and owner disagree, because KubeRay
    does not count such a pod either.
    """
    cluster, group = labels.get(names.LABEL_CLUSTER), labels.get(names.LABEL_GROUP)
    if cluster and group:
        for owner in meta.owner_references or ():
            if owner.controller and owner.name == cluster and len(owner.uid) <= _TEXT_MAX:
                return GroupKey(meta.namespace or "", owner.uid, group)
    return GroupKey(meta.namespace or "", "", "")


def _spec_of(pod: WorkerPod | Pod) -> PodSpec:
    if isinstance(pod.spec, PodSpec):
        return pod.spec
    return _specs.decode(pod.spec) if pod.spec else PodSpec()


def identity_of(
    group: str,
    labels: Strings,
    spec: Callable[[], PodSpec] | None,
    hosts: int | None,
    bound: int = MAX_HOSTS,
) -> HostIdentity | None:
    """Return the identity of a pod of a group, by its labels or by the previous webhook, or None.

    All callers use this function, with different arguments on purpose:

    - `bound`: hosts below it are valid. A new pod has to be within `numOfHosts`, because its peers
      expect no other hosts. A live pod keeps the identity that it got while its group had more
      hosts, so that no other pod gets that identity.
    - `hosts`: the current number of hosts per replica, None if unknown. A replica of 1 host has no
      name, and an index is its whole identity. The watch of pods does not use RayClusters: it
      accepts an index without a name in any group, because a taken identity must not be assigned
      again, and an adopted replica keeps its name, which is unused in single-host groups.
    - `spec`: the source of the previous webhook's variables, None if only labels count. Repair, for
      example, handles only pods whose identity is in their labels.

    Raises Denied for invalid labels or variables of an identity, and msgspec.DecodeError or
    UnicodeDecodeError for variables that cannot be decoded.
    """
    alone = (hosts is None or hosts <= 1) and names.LABEL_HOST_INDEX not in labels
    carried = _parse_identity_labels(labels, 1 if alone else bound, partial(_part_of_live, hosts))
    previous = labels.get(names.LABEL_LEGACY_REPLICA_INDEX)
    if carried is not None or previous is None or spec is None:
        return carried
    identity = read_legacy_identity(group, previous, spec())
    if identity is None or identity.host >= bound:
        return None
    return HostIdentity(identity.replica, 0, "") if hosts == 1 and identity.host == 0 else identity


def is_labelled(labels: Strings) -> bool:
    """Return whether a pod has any identity label."""
    return not labels.keys().isdisjoint(names.IDENTITY_LABELS)


def read_identity_labels(labels: Strings, hosts: int) -> HostIdentity | None:
    """Return the identity in the labels of a pod of a group of `hosts` hosts, or None if there are
    no identity labels.

    Raises Denied if the labels are incomplete or invalid.
    """
    return _parse_identity_labels(labels, hosts, partial(_part, hosts))


def is_of_one_host(labels: Strings) -> bool:
    """Return whether a pod has the identity of a group of 1 host: an index alone."""
    return names.LABEL_REPLICA_INDEX in labels and labels.keys().isdisjoint(
        (names.LABEL_REPLICA_NAME, names.LABEL_HOST_INDEX)
    )


def _parse_identity_labels(
    labels: Strings, hosts: int, part: Callable[[], str]
) -> HostIdentity | None:
    """Return the identity in labels with a host below `hosts`. Raises Denied, with the text of
    `part` for an incomplete identity.
    """
    index = labels.get(names.LABEL_REPLICA_INDEX)
    name = labels.get(names.LABEL_REPLICA_NAME)
    host = labels.get(names.LABEL_HOST_INDEX)
    if index is None and name is None and host is None:
        return None
    # KubeRay gives single hosts an index alone.
    # https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/pod.go
    if hosts == 1 and index is not None and name is None and host is None:
        causes = _index_causes(names.LABEL_REPLICA_INDEX, index, MAX_REPLICAS)
        if causes:
            raise Denied(*causes)
        return HostIdentity(int(index), 0, "")
    if index is None or name is None or host is None:
        missing = [label for label in names.IDENTITY_LABELS if label not in labels]
        message = part()
        raise Denied(*(_cause(REQUIRED, label, message) for label in missing))
    causes = [
        *_index_causes(names.LABEL_REPLICA_INDEX, index, MAX_REPLICAS),
        *_name_causes(name),
        *_index_causes(names.LABEL_HOST_INDEX, host, hosts),
    ]
    if causes:
        raise Denied(*causes)
    return HostIdentity(int(index), int(host), intern(name))


def _index_causes(label: str, text: str, bound: int) -> list[Cause]:
    """Return the causes for a label that is not an index below `bound`; none if it is valid."""
    if not _INDEX.fullmatch(text):
        problem = (
            f"{shorten(text)!r} is not an index: it must be a decimal number from 0 to {bound - 1}"
        )
    elif int(text) >= bound:
        problem = f"{text} is out of range: this group has indices 0 to {bound - 1}"
    else:
        return []
    return [_cause(INVALID, label, problem)]


def _name_causes(text: str) -> list[Cause]:
    if text and LABEL_VALUE.fullmatch(text):
        return []
    message = f"{shorten(text)!r} is not a replica name: it must be a label value that is not empty"
    return [_cause(INVALID, names.LABEL_REPLICA_NAME, message)]


def _part(hosts: int) -> str:
    """Return the problem of a new pod with an incomplete identity."""
    return f"{_needs(hosts)}, or none of them; remove identity labels from the pod template"


def _part_of_live(hosts: int | None) -> str:
    """Return the problem of a live pod, whose group may have had other hosts."""
    return f"{_needs(hosts)}; recreate the pod, which may be older than numOfHosts"


def _needs(hosts: int | None) -> str:
    needed = "all three identity labels"
    if hosts == 1:
        needed = f"{names.LABEL_REPLICA_INDEX} alone, or {needed}"
    size = "several hosts" if hosts is None else f"{hosts} host{'' if hosts == 1 else 's'}"
    return f"the pod carries only a part of its identity: a group of {size} needs {needed}"


def _cause(reason: str, label: str, message: str) -> Cause:
    return Cause(reason, message, f"metadata.labels[{label}]")
