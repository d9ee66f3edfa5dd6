"""Cached patches of worker groups, with holes for the identities of their pods.

`pipeline.answer` computes each patch. This module computes the patch of a group once, for an
impossible identity, and replaces its index, suffix and host with holes; after that, a patch only
needs filling the holes. A template is used only if filling in a second impossible identity yields
exactly the bytes that `pipeline.answer` computes for it.
"""

from string import ascii_lowercase, digits
from typing import Final

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from webhook.api import names
from webhook.api.objects import Pod, WorkerGroup
from webhook.api.review import Answer, Denied
from webhook.groups.group_config import RayClusterConfig
from webhook.groups.identity import HostIdentity
from webhook.groups.naming import SUFFIX_LENGTH
from webhook.mutation.edit import SetEnv, Warn
from webhook.mutation.fold import encode, fold
from webhook.mutation.pipeline import answer, edits
from webhook.mutation.ray_pod import DEFAULT_POLICY, Policy, Replica, read_replica

KEPT_BYTES: Final = 16 * 1024 * 1024
"""Bytes of all templates together; the cache is cleared when they are exceeded. A group has about
10 KiB.
"""

_PROBES: Final = (HostIdentity(9876543, 7654321, "zz9zz"), HostIdentity(8765432, 6543217, "yy8yy"))
"""Impossible identities, with the suffixes of names. No index is longer: if the probes fit,
all do.
"""
_HOLDERS: Final = ("zzholderzzzz", "yyholderyyyy")
"""Impossible holders of these identities."""

_LETTERS: Final = ascii_lowercase + digits
_PROCESSES_MAX: Final = 16

# Holes are control characters, which JSON escapes, so that they do not occur in texts.
_INDEX_HOLE: Final = b"\x00"
_SUFFIX_HOLE: Final = b"\x01"
_HOLDER_HOLE: Final = b"\x02"
_NUMBER_HOLES: Final = 3


class _Template(Struct, gc=False):
    """The JSON text of the patches of a group, with holes for index, suffix and `numbers`: those
    that depend on the host, as (hole, step, first) for `host` * step + first.

    Pods of a replica are admitted consecutively, so index and suffix remain `filled` in.
    """

    text: bytes
    numbers: list[tuple[bytes, int, int]]
    index: int = -1
    suffix: str = ""
    filled: bytes = b""

    def of(self, identity: HostIdentity, suffix: str, holder: str) -> bytes:
        if identity.replica != self.index or suffix != self.suffix:
            self.index, self.suffix = identity.replica, suffix
            text = self.text.replace(_INDEX_HOLE, b"%d" % identity.replica)
            self.filled = text.replace(_SUFFIX_HOLE, suffix.encode())
        text = self.filled.replace(_HOLDER_HOLE, holder.encode()) if holder else self.filled
        for hole, step, first in self.numbers:
            text = text.replace(hole, b"%d" % (identity.host * step + first))
        return text


class _Group(Struct):
    """A worker group as of its last pod, with the template for similar pods.

    `template` is created for the second such pod; None if the patches of this group have to be
    computed individually.
    """

    pod: Pod
    cluster: RayClusterConfig
    group: WorkerGroup
    policy: Policy
    template: _Template | UnsetType | None = UNSET

    def like(self, pod: Pod, cluster: RayClusterConfig, group: WorkerGroup, policy: Policy) -> bool:
        """Return whether all inputs of the mutators equal those of the last pod, except for the
        identity.
        """
        if self.cluster is not cluster or self.group is not group or self.policy != policy:
            return False
        mine, meta, label = self.pod.metadata, pod.metadata, names.LABEL_LEGACY_REPLICA_INDEX
        return (
            self.pod.spec == pod.spec
            and mine.annotations == meta.annotations
            and (mine.labels or {}).get(label) == (meta.labels or {}).get(label)
        )


class PatchCache:
    """Computes the same response as `pipeline.answer`, from a template if possible."""

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0
        self._groups: dict[tuple[str, str, bool, bool], _Group] = {}
        self.size = 0

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
        key = (cluster.uid, group.group_name, bool(holder), bool(identity.name))
        known = self._groups.get(key)
        if known is not None and known.like(pod, cluster, group, policy):
            found = self._filled(known, identity, holder)
            if found is not None:
                self.hits += 1
                return found
        else:
            known = None
        self.misses += 1
        replica = read_replica(pod, identity, cluster, group, holder=holder, policy=policy)
        computed = answer(replica, identity.host)
        if known is None and not replica.head:
            self._groups[key] = _Group(pod, cluster, group, policy)
            self.size += 2 * len(computed.patch or b"")
            if self.size > KEPT_BYTES:
                self._groups.clear()
                self.size = 0
        return computed

    def _filled(self, known: _Group, identity: HostIdentity, holder: str) -> Answer | None:
        """Return the response for a pod of a known group, or None if it has to be computed."""
        if known.template is UNSET:
            known.template = _template(known, identity, holder)
        suffix = _suffix_of(identity.name, known.group.group_name)
        if known.template is None or suffix is None:
            return None
        return Answer((), known.template.of(identity, suffix, holder) or None)


def _template(known: _Group, identity: HostIdentity, holder: str) -> _Template | None:
    """Return the template of a group, or None if its patches differ in more than the
    identity.
    """
    if names.LABEL_REPLICA_NAME in str(known.pod.spec.affinity):
        return None  # the term may be equal to that of some replica
    cluster, group = known.cluster, known.group
    sample = read_replica(known.pod, identity, cluster, group, holder=holder, policy=known.policy)
    holders = _HOLDERS if holder else ("", "")
    one, other = [_probed(sample, *each) for each in zip(_PROBES, holders, strict=True)]
    if one is None or other is None:
        return None
    template = _opened(one, len(sample.processes))
    return template if template.of(_PROBES[1], _PROBES[1].name, holders[1]) == other else None


def _suffix_of(name: str, group: str) -> str | None:
    """Return the part of a replica's name after the name of its group, or None if the name does not
    have KubeRay's format.
    """
    if not name:
        return ""
    start, _, suffix = name.rpartition("-")
    whole = start == group and len(suffix) == SUFFIX_LENGTH and not suffix.strip(_LETTERS)
    return suffix if whole else None


def _probed(sample: Replica, probe: HostIdentity, holder: str) -> bytes | None:
    """Return the patch for an impossible identity, or None if it depends on values of the user.

    Additions apply to every identity. Replacements and warnings may not: the user's value may be
    right for one identity.
    """
    name = f"{sample.group_name}-{probe.name}" if sample.name else ""
    replica = replace(sample, index=probe.replica, name=name, holder=holder)
    try:
        made = edits(replica, probe.host)
    except Denied:
        return None
    if any(type(each) is Warn or (type(each) is SetEnv and each.slot >= 0) for each in made):
        return None
    patch = fold(replica, made)
    return encode(patch) if patch else b""


def _opened(text: bytes, processes: int) -> _Template:
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
    return _Template(text, [number for number in numbers if number[0] in text])
