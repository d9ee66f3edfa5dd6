"""Cached patches of worker groups, with holes for the identities of their pods.

`pipeline.answer` computes each patch. This module computes the patch of a group once, for an
impossible identity, and replaces its index, suffix and host with holes; after that, a patch only
needs filling the holes. A template is used only if filling in a second impossible identity yields
exactly the bytes that `pipeline.answer` computes for it.
"""

from functools import partial
from hashlib import sha256
from sys import getsizeof
from typing import Final
from weakref import ref

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from webhook.api import names
from webhook.api.objects import Pod, WorkerGroup
from webhook.api.review import Answer, Denied
from webhook.api.tenant_cache import TenantCache
from webhook.groups.group_config import RayClusterConfig
from webhook.groups.identity import HostIdentity
from webhook.groups.naming import is_suffix
from webhook.mutation.edit import SetEnv, Warn
from webhook.mutation.fold import encode, fold
from webhook.mutation.pipeline import answer, edits
from webhook.mutation.ray_pod import DEFAULT_POLICY, Policy, Replica, read_replica

_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of all templates together, with the inputs that they apply to. A group has about 10 KiB."""
_TEMPLATE_BYTES_MAX: Final = 64 * 1024
"""A longer patch, of a replica of more than 512 hosts, is computed for each pod; a longer input is
represented by its digest, which would take a tenth of the time of a review for each pod.
"""
_GROUP_BYTES: Final = 1024
"""Bytes of the objects of a group, in addition to its texts."""

_PROBES: Final = (HostIdentity(9876543, 7654321, "zz9zz"), HostIdentity(8765432, 6543217, "yy8yy"))
"""Impossible identities, with the suffixes of names. No index is longer: if the probes fit,
all do.
"""
_HOLDERS: Final = ("zzholderzzzz", "yyholderyyyy")
"""Impossible holders of these identities."""

_encode: Final = msgspec.json.Encoder().encode
_PROCESSES_MAX: Final = 16

# Holes are control characters, which JSON escapes, so that they do not occur in texts.
_INDEX_HOLE: Final = b"\x00"
_SUFFIX_HOLE: Final = b"\x01"
_HOLDER_HOLE: Final = b"\x02"
_NUMBER_HOLES: Final = 3


class _PatchText(Struct, gc=False):
    """The JSON text of the patches of a group, with holes for index, suffix, holder and `numbers`:
    those that depend on the host, as (hole, step, first) for `host` * step + first.
    """

    text: bytes
    numbers: list[tuple[bytes, int, int]]

    def of(self, identity: HostIdentity, suffix: str, holder: str) -> bytes:
        patch = self.text.replace(_INDEX_HOLE, b"%d" % identity.replica)
        patch = patch.replace(_SUFFIX_HOLE, suffix.encode())
        if holder:
            patch = patch.replace(_HOLDER_HOLE, holder.encode())
        for hole, step, first in self.numbers:
            patch = patch.replace(hole, b"%d" % (identity.host * step + first))
        return patch


Key = tuple[str, str, bool, bool]
"""The uid of the RayCluster, the worker group, and whether the pod has a holder, and a replica
name.
"""


class _GroupTemplate(Struct):
    """A worker group as of its last pod: the inputs of the mutators except for the identity, with
    the template for pods with the same inputs.

    `template` is created for the second such pod; None if the patches of this group have to be
    computed individually. The configuration of the RayCluster is not kept alive.
    """

    cluster: ref[RayClusterConfig]
    policy: Policy
    pod_input: bytes
    template: _PatchText | UnsetType | None = UNSET

    def applies(self, pod_input: bytes, cluster: RayClusterConfig, policy: Policy) -> bool:
        """Return whether all inputs equal those of the last pod, except for the identity."""
        return self.cluster() is cluster and self.policy == policy and self.pod_input == pod_input


class PatchCache:
    """Computes the same response as `pipeline.answer`, from a template if possible.

    The templates of a RayCluster are removed when its configuration changes, or it is deleted.
    """

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0
        self.groups: TenantCache[Key, _GroupTemplate] = TenantCache(_BYTES_MAX)

    def answer(
        self,
        pod: Pod,
        identity: HostIdentity,
        cluster: RayClusterConfig,
        group: WorkerGroup,
        policy: Policy = DEFAULT_POLICY,
        *,
        holder: str = "",
    ) -> Answer:
        """Return the response for a pod with its identity. Raises Denied if its replica cannot
        work.
        """
        # A RayCluster has one head, so no later pod would use its template.
        is_worker = cluster.groups.get(group.group_name) is group
        key = (cluster.uid, group.group_name, bool(holder), bool(identity.name))
        pod_input = _input_of(pod) if is_worker else b""
        cached_group = self.groups.get(cluster.namespace, key) if is_worker else None
        if cached_group is not None and cached_group.applies(pod_input, cluster, policy):
            if cached_group.template is UNSET:
                cached_group.template = _template(
                    pod, identity, cluster=cluster, group=group, policy=policy, holder=holder
                )
                self._put(cluster.namespace, key, cached_group)
            if (
                filled := _fill_template(cached_group.template, identity, group, holder)
            ) is not None:
                self.hits += 1
                return filled
            is_worker = False
        self.misses += 1
        replica = read_replica(pod, identity, cluster, group, holder=holder, policy=policy)
        computed = answer(replica, identity.host)
        if is_worker:
            gone = partial(self._drop, cluster.namespace, key)
            self._put(cluster.namespace, key, _GroupTemplate(ref(cluster, gone), policy, pod_input))
        return computed

    def _put(self, namespace: str, key: Key, group: _GroupTemplate) -> None:
        size = _GROUP_BYTES + sum(map(getsizeof, (*key[:2], group.pod_input)))
        if isinstance(group.template, _PatchText):
            size += getsizeof(group.template.text)
        self.groups.put(namespace, key, group, size)

    def _drop(self, namespace: str, key: Key, cluster: ref[RayClusterConfig]) -> None:
        """Remove a group whose RayCluster has another configuration, or was deleted."""
        cached_group = self.groups.get(namespace, key)
        if cached_group is not None and cached_group.cluster is cluster:
            self.groups.remove(namespace, key)


def _input_of(pod: Pod) -> bytes:
    """Return the fields of a pod that mutators read, except for its identity: as JSON, or the
    digest of it.
    """
    legacy = pod.labels.get(names.LABEL_LEGACY_REPLICA_INDEX)
    pod_input = _encode((pod.spec, pod.metadata.annotations, legacy))
    return pod_input if len(pod_input) <= _TEMPLATE_BYTES_MAX else sha256(pod_input).digest()


def _fill_template(
    template: _PatchText | UnsetType | None, identity: HostIdentity, group: WorkerGroup, holder: str
) -> Answer | None:
    """Return the response for a pod of a group with a template, or None if it has to be
    computed.
    """
    suffix = _suffix_of(identity.name, group.group_name)
    if not isinstance(template, _PatchText) or suffix is None:
        return None
    return Answer((), template.of(identity, suffix, holder) or None)


def _template(
    pod: Pod,
    identity: HostIdentity,
    cluster: RayClusterConfig,
    group: WorkerGroup,
    policy: Policy,
    holder: str,
) -> _PatchText | None:
    """Return the template of a group, or None if its patches differ in more than the
    identity, or are too long.
    """
    if names.LABEL_REPLICA_NAME in str(pod.spec.affinity):
        return None  # the term may be equal to that of some replica
    sample = read_replica(pod, identity, cluster, group, holder=holder, policy=policy)
    holders = _HOLDERS if holder else ("", "")
    patch, other = map(partial(_build_probe_patch, sample), _PROBES, holders)
    if patch is None or other is None or len(patch) > _TEMPLATE_BYTES_MAX:
        return None
    template = _insert_holes(patch, len(sample.processes))
    return template if template.of(_PROBES[1], _PROBES[1].name, holders[1]) == other else None


def _suffix_of(name: str, group: str) -> str | None:
    """Return the part of a replica's name after the name of its group, or None if the name does not
    have KubeRay's format.
    """
    if not name:
        return ""
    start, _, suffix = name.rpartition("-")
    return suffix if start == group and is_suffix(suffix) else None


def _build_probe_patch(sample: Replica, probe: HostIdentity, holder: str) -> bytes | None:
    """Return the patch for an impossible identity, or None if it depends on values of the user.

    Additions apply to every identity. Replacements and warnings may not: the user's value may be
    right for one identity.
    """
    name = f"{sample.group_name}-{probe.name}" if sample.name else ""
    replica = replace(sample, index=probe.replica, name=name, holder=holder)
    try:
        probe_edits = edits(replica, probe.host)
    except Denied:
        return None
    if any(type(edit) is Warn or (type(edit) is SetEnv and edit.slot >= 0) for edit in probe_edits):
        return None
    patch = fold(replica, probe_edits)
    return encode(patch) if patch else b""


def _insert_holes(text: bytes, processes: int) -> _PatchText:
    """Return the first probe's patch with holes for its index, suffix and host numbers."""
    probe = _PROBES[0]
    steps = [(1, 0)]
    if 1 < processes <= _PROCESSES_MAX:
        steps += [(processes, first) for first in range(processes)]
    numbers = [(bytes([_NUMBER_HOLES + place]), *step) for place, step in enumerate(steps)]
    text = text.replace(b"%d" % probe.replica, _INDEX_HOLE)
    text = text.replace(probe.name.encode(), _SUFFIX_HOLE)
    text = text.replace(_HOLDERS[0].encode(), _HOLDER_HOLE)
    for hole, step, first in numbers:
        text = text.replace(b"%d" % (probe.host * step + first), hole)
    return _PatchText(text, [number for number in numbers if number[0] in text])
