"""Patches of worker groups that were seen before: the pods of a group differ in their seats, and so do their patches.

`answer.answer` works each patch out alone. Here the patch of a group is worked out once, for a seat that cannot exist, and its
index, its suffix and its host are left open; then a pod costs the filling of a text. A patch is left open only when a second
seat that cannot exist, filled in, gives the patch that is worked out for it, byte by byte.
"""

import re
from typing import Final

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from webhook.groups.clusters import ClusterFacts
from webhook.groups.seat import Seat
from webhook.kube import names
from webhook.kube.objects import Pod, WorkerGroup
from webhook.kube.review import Answer, Denied
from webhook.mutation.answer import answer, edits
from webhook.mutation.edit import only_additions
from webhook.mutation.fold import Pieces, fold_in_turn, pack, pieces
from webhook.mutation.policy import DEFAULT_POLICY, Policy
from webhook.mutation.worker import Replica, read_replica

KEPT_BYTES: Final = 16 * 1024 * 1024
"""All patches together; beyond, everything is forgotten. A group has about 3 KiB, and each of its replicas 5 KiB."""

_PROBES: Final = (Seat(9876543, 7654321, "zz9zz"), Seat(8765432, 6543217, "yy8yy"))
"""Seats that cannot exist; each name is what a replica's adds to its group's. No index is longer, so where these fit, all do."""

_SUFFIX: Final = re.compile(r"[a-z0-9]{5}")
_PROCESSES_MAX: Final = 16

_INDEX_HOLE: Final = b"\x00"
_SUFFIX_HOLE: Final = b"\x01"
# Holes are control characters, which JSON escapes, so no text has them. Those for numbers of the host begin here.
_NUMBER_HOLES: Final = 2


class _Number(Struct, frozen=True, gc=False):
    """A number that follows from the host: `host` * `step` + `first`, and the hole that it fills."""

    hole: bytes
    step: int
    first: int

    def of(self, host: int) -> bytes:
        """Return the number of one host."""
        return b"%d" % (host * self.step + self.first)


class _ReplicaPatch(Struct, frozen=True, gc=False):
    """The patches of the hosts of one replica: their own piece with holes for `numbers`, and the packed one that they share."""

    own: bytes
    numbers: list[_Number]
    shared: bytes

    def of(self, host: int) -> bytes | None:
        """Return the packed patch of one host, or None when it has no operations."""
        own = self.own
        for number in self.numbers:
            own = own.replace(number.hole, number.of(host))
        return pack(own) + self.shared or None


class _Template(Struct, frozen=True, gc=False):
    """The patches of a group, with index, suffix and numbers of the host left open."""

    own: bytes
    numbers: list[_Number]
    shared: bytes

    def of(self, index: int, suffix: str) -> _ReplicaPatch:
        """Return the patches of one replica."""
        digits, letters = b"%d" % index, suffix.encode()
        own, shared = (text.replace(_INDEX_HOLE, digits).replace(_SUFFIX_HOLE, letters) for text in (self.own, self.shared))
        return _ReplicaPatch(own, self.numbers, pack(shared))


class _Group(Struct):
    """A worker group as a pod showed it that was worked out, and what is kept for pods like it.

    `template` is made for the second such pod; None says that pods of this group have to be worked out one by one.
    """

    pod: Pod
    cluster: ClusterFacts
    group: WorkerGroup
    template: _Template | UnsetType | None = UNSET
    replicas: dict[tuple[int, str], _ReplicaPatch] = {}

    def like(self, pod: Pod, cluster: ClusterFacts, group: WorkerGroup) -> bool:
        """Tell whether a pod is, but for its seat, the same to every mutator. This is the one test of staleness."""
        if self.cluster is not cluster or self.group is not group:
            return False
        mine, label = self.pod, names.LABEL_LEGACY_REPLICA_INDEX
        return mine is pod or (
            mine.spec == pod.spec
            and mine.metadata.annotations == pod.metadata.annotations
            and mine.labels.get(label) == pod.labels.get(label)
        )


class PatchCache:
    """Answers for worker pods as `answer.answer` gives them, and what it keeps to give them sooner."""

    def __init__(self, policy: Policy = DEFAULT_POLICY) -> None:
        self.hits = 0
        """Answers that were filled in."""
        self.misses = 0
        """Answers that were worked out."""
        self._policy = policy
        self._groups: dict[tuple[str, str, bool, bool], _Group] = {}
        self.size = 0

    @property
    def policy(self) -> Policy:
        """The policy that answers follow."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        if policy != self._policy:
            self._policy = policy
            self._forget()

    def answer(self, pod: Pod, seat: Seat, cluster: ClusterFacts, group: WorkerGroup, *, assigned: bool) -> Answer:
        """Return the answer for a pod in its seat. Raises Denied when its replica cannot work."""
        key = (cluster.uid, group.group_name, assigned, bool(seat.name))
        known = self._groups.get(key)
        if known is not None and known.like(pod, cluster, group):
            found = self._filled(known, seat, assigned=assigned)
            if found is not None:
                self.hits += 1
                return found
        else:
            known = None
        self.misses += 1
        replica = read_replica(pod, seat, cluster, group, assigned=assigned, policy=self._policy)
        worked_out = answer(replica, seat.host)
        if known is None and not replica.head:
            self._groups[key] = _Group(pod, cluster, group)
            self._count(len(worked_out.patch or b""))
        return worked_out

    def _filled(self, known: _Group, seat: Seat, *, assigned: bool) -> Answer | None:
        """Return the answer for a pod of a known group, or None when it has to be worked out."""
        if known.template is UNSET:
            known.template = self._template(known, seat, assigned=assigned)
        template = known.template
        if template is None:
            return None
        patch = known.replicas.get((seat.replica, seat.name))
        if patch is None:
            suffix = _suffix_of(seat.name, known.group.group_name)
            if suffix is None:
                return None
            patch = known.replicas[seat.replica, seat.name] = template.of(seat.replica, suffix)
            self._count(len(patch.own) + len(patch.shared))
        return Answer((), patch.of(seat.host))

    def _template(self, known: _Group, seat: Seat, *, assigned: bool) -> _Template | None:
        """Return the template of a group, or None when its patches differ in more than the seat."""
        if names.LABEL_REPLICA_NAME in str(known.pod.spec.affinity):
            return None  # such a term may be the one that a replica would be given
        cluster, group = known.cluster, known.group
        sample = read_replica(known.pod, seat, cluster, group, assigned=assigned, policy=self._policy)
        one, other = [_probed(sample, probe) for probe in _PROBES]
        if one is None or other is None:
            return None
        template = _opened(one, _PROBES[0], len(sample.processes))
        filled = template.of(_PROBES[1].replica, _PROBES[1].name).of(_PROBES[1].host)
        return template if filled == other.packed() else None

    def _count(self, size: int) -> None:
        self.size += size
        if self.size > KEPT_BYTES:
            self._forget()

    def _forget(self) -> None:
        self._groups.clear()
        self.size = 0


def _suffix_of(name: str, group: str) -> str | None:
    """Return what a replica's name adds to the group's, as KubeRay spells it, or None for a name that is spelt otherwise."""
    if not name:
        return ""
    suffix = name[len(group) + 1 :]
    return suffix if name.startswith(f"{group}-") and _SUFFIX.fullmatch(suffix) else None


def _probed(sample: Replica, probe: Seat) -> Pieces | None:
    """Return the patch for a seat that cannot exist, or None when a part of it depends on what the user wrote.

    An addition is made for every seat. A replacement or a warning may not be: one seat may be the one for which the user's
    value is right.
    """
    name = f"{sample.group_name}-{probe.name}" if sample.name else ""
    replica = replace(sample, index=probe.replica, name=name)
    try:
        made = edits(replica, probe.host)
    except Denied:
        return None
    return pieces(*fold_in_turn(replica, *made)) if only_additions(made.all()) else None


def _opened(patch: Pieces, probe: Seat, processes: int) -> _Template:
    """Return a patch with holes where the index, the suffix and the numbers of a probe stand."""
    steps = [(1, 0), *((processes, first) for first in range(processes) if 1 < processes <= _PROCESSES_MAX)]
    numbers = [_Number(bytes([_NUMBER_HOLES + place]), *step) for place, step in enumerate(steps)]
    own, shared = patch
    for text, hole in ((b"%d" % probe.replica, _INDEX_HOLE), (probe.name.encode(), _SUFFIX_HOLE)):
        own, shared = own.replace(text, hole), shared.replace(text, hole)
    for number in numbers:
        own = own.replace(number.of(probe.host), number.hole)
    return _Template(own, [number for number in numbers if number.hole in own], shared)
