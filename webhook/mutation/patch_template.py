"""Patches of worker groups that were seen before: they differ as the seats of their pods do.

`answer.answer` works each patch out alone. Here the patch of a group is worked out once, for a seat
that cannot exist, and its index, its suffix and its host are left open; then a pod costs the
filling of a text. A patch is left open only when a second seat that cannot exist, filled in, gives
the patch that is worked out for it, byte by byte.
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
from webhook.mutation.answer import answer, edits
from webhook.mutation.edit import only_additions
from webhook.mutation.fold import encode, fold
from webhook.mutation.policy import DEFAULT_POLICY, Policy
from webhook.mutation.ray_pod import Replica, read_replica

KEPT_BYTES: Final = 16 * 1024 * 1024
"""All templates together; beyond, everything is forgotten. A group has some 10 KiB."""

_PROBES: Final = (HostIdentity(9876543, 7654321, "zz9zz"), HostIdentity(8765432, 6543217, "yy8yy"))
"""Seats that cannot exist, with the suffixes of names. No index is longer: where these fit, all do.
"""
_HOLDERS: Final = ("zzholderzzzz", "yyholderyyyy")
"""Holders that cannot exist, of these seats."""

_LETTERS: Final = ascii_lowercase + digits
_PROCESSES_MAX: Final = 16

# Holes are control characters, which JSON escapes, so no text has them.
_INDEX_HOLE: Final = b"\x00"
_SUFFIX_HOLE: Final = b"\x01"
_HOLDER_HOLE: Final = b"\x02"
_NUMBER_HOLES: Final = 3


class _Template(Struct, gc=False):
    """The JSON text of the patches of a group, with holes for index, suffix and `numbers`: those
    that follow from the host, as hole, step and first for `host` * step + first.

    Pods of one replica come one after the other, so index and suffix stay `filled` in.
    """

    text: bytes
    numbers: list[tuple[bytes, int, int]]
    index: int = -1
    suffix: str = ""
    filled: bytes = b""

    def of(self, seat: HostIdentity, suffix: str, holder: str) -> bytes:
        """Return the patch for one seat of a holder."""
        if seat.replica != self.index or suffix != self.suffix:
            self.index, self.suffix = seat.replica, suffix
            text = self.text.replace(_INDEX_HOLE, b"%d" % seat.replica)
            self.filled = text.replace(_SUFFIX_HOLE, suffix.encode())
        text = self.filled.replace(_HOLDER_HOLE, holder.encode()) if holder else self.filled
        for hole, step, first in self.numbers:
            text = text.replace(hole, b"%d" % (seat.host * step + first))
        return text


class _Group(Struct):
    """A worker group as its last pod showed it, and what is kept for pods like that.

    `template` is made for the second such pod; None says that pods of this group have to be worked
    out one by one.
    """

    pod: Pod
    cluster: RayClusterConfig
    group: WorkerGroup
    policy: Policy
    template: _Template | UnsetType | None = UNSET

    def like(self, pod: Pod, cluster: RayClusterConfig, group: WorkerGroup, policy: Policy) -> bool:
        """Return whether mutators see in a pod, but for its seat, what they saw: nothing is
        stale.
        """
        if self.cluster is not cluster or self.group is not group or self.policy != policy:
            return False
        mine, label = self.pod, names.LABEL_LEGACY_REPLICA_INDEX
        return (
            mine.spec == pod.spec
            and mine.metadata.annotations == pod.metadata.annotations
            and mine.labels.get(label) == pod.labels.get(label)
        )


class PatchCache:
    """Answers worker pods as `answer.answer` does, from templates where there are some."""

    def __init__(self, policy: Policy = DEFAULT_POLICY) -> None:
        self.hits = 0
        self.misses = 0
        self.policy = policy
        self._groups: dict[tuple[str, str, bool, bool], _Group] = {}
        self.size = 0

    def answer(
        self,
        pod: Pod,
        seat: HostIdentity,
        cluster: RayClusterConfig,
        group: WorkerGroup,
        *,
        holder: str = "",
    ) -> Answer:
        """Return the answer for a pod in its seat. Raises Denied when its replica cannot work."""
        key = (cluster.uid, group.group_name, bool(holder), bool(seat.name))
        known = self._groups.get(key)
        if known is not None and known.like(pod, cluster, group, self.policy):
            found = self._filled(known, seat, holder)
            if found is not None:
                self.hits += 1
                return found
        else:
            known = None
        self.misses += 1
        replica = read_replica(pod, seat, cluster, group, holder=holder, policy=self.policy)
        worked_out = answer(replica, seat.host)
        if known is None and not replica.head:
            self._groups[key] = _Group(pod, cluster, group, self.policy)
            self.size += 2 * len(worked_out.patch or b"")
            if self.size > KEPT_BYTES:
                self._groups.clear()
                self.size = 0
        return worked_out

    def _filled(self, known: _Group, seat: HostIdentity, holder: str) -> Answer | None:
        """Return the answer for a pod of a known group, or None when it has to be worked out."""
        if known.template is UNSET:
            known.template = self._template(known, seat, holder)
        suffix = _suffix_of(seat.name, known.group.group_name)
        if known.template is None or suffix is None:
            return None
        return Answer((), known.template.of(seat, suffix, holder) or None)

    def _template(self, known: _Group, seat: HostIdentity, holder: str) -> _Template | None:
        """Return the template of a group, or None when its patches differ in more than the seat."""
        if names.LABEL_REPLICA_NAME in str(known.pod.spec.affinity):
            return None  # such a term may be the one that a replica would be given
        cluster, group = known.cluster, known.group
        sample = read_replica(known.pod, seat, cluster, group, holder=holder, policy=self.policy)
        holders = _HOLDERS if holder else ("", "")
        one, other = [_probed(sample, *each) for each in zip(_PROBES, holders, strict=True)]
        if one is None or other is None:
            return None
        template = _opened(one, len(sample.processes))
        return template if template.of(_PROBES[1], _PROBES[1].name, holders[1]) == other else None


def _suffix_of(name: str, group: str) -> str | None:
    """Return what a replica's name adds to the group's, or None if KubeRay spells it otherwise."""
    if not name:
        return ""
    start, _, suffix = name.rpartition("-")
    whole = start == group and len(suffix) == SUFFIX_LENGTH and not suffix.strip(_LETTERS)
    return suffix if whole else None


def _probed(sample: Replica, probe: HostIdentity, holder: str) -> bytes | None:
    """Return the patch for a seat that cannot exist, or None when it hangs on what the user wrote.

    An addition is made for every seat. A replacement or a warning may not be: one seat may be the
    one for which the user's value is right.
    """
    name = f"{sample.group_name}-{probe.name}" if sample.name else ""
    replica = replace(sample, index=probe.replica, name=name, holder=holder)
    try:
        made = edits(replica, probe.host)
    except Denied:
        return None
    if not only_additions(made):
        return None
    patch = fold(replica, made)
    return encode(patch) if patch else b""


def _opened(text: bytes, processes: int) -> _Template:
    """Return the first probe's patch with holes where its index, suffix and host numbers stand."""
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
