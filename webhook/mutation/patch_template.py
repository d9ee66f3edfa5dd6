"""Patterns: the patches of a group's replicas, which differ in nothing but index and name, with both left open.

Mutators know nothing of patterns. One is made from the patches of two replicas that do not exist, and only if these differ in their
indices and names alone: a text of the user that looks like one of them rules the pattern out.
"""

import re
from typing import Final

from msgspec import Struct

from webhook.groups.seat import Seat
from webhook.kube import names
from webhook.kube.review import Denied
from webhook.mutation.edit import only_additions
from webhook.mutation.feasibility import obstacles
from webhook.mutation.fold import encode, fold_in_turn
from webhook.mutation.host_text import HostText
from webhook.mutation.patch import NumberedPatch, SharedPatch, leave_open
from webhook.mutation.pipeline import own_edits, shared_edits
from webhook.mutation.worker import Replica, Worker

_PROBES: Final = ((9876543, "zz9zz"), (8765432, "yy8yy"))
"""Index and suffix of replicas that do not exist. No index that exists is longer, so where these fit, every index does."""

_SUFFIX: Final = re.compile(r"[a-z0-9]{5}")


class _Text(Struct, frozen=True, gc=False):
    """A text with holes: the parts between those for a suffix, each in the pieces between those for an index."""

    parts: list[list[bytes]]

    def filled(self, index: bytes, suffix: bytes) -> bytes:
        """Return the text of one replica."""
        return suffix.join([index.join(pieces) for pieces in self.parts])


class PatchTemplate(Struct, frozen=True, gc=False):
    """What the hosts of any replica of a group receive, which is no warning and replaces nothing."""

    own: _Text
    shared: _Text
    numbers: list[HostText]

    def patch_of(self, replica: Replica) -> NumberedPatch | None:
        """Return the patches of a replica, or None when its name is not spelt as KubeRay spells them."""
        group, name = replica.group_name, replica.name
        suffix = name[len(group) + 1 :]
        if name and (not name.startswith(f"{group}-") or not _SUFFIX.fullmatch(suffix)):
            return None
        digits, letters = b"%d" % replica.index, suffix.encode()
        return NumberedPatch(self.own.filled(digits, letters), self.numbers, SharedPatch(self.shared.filled(digits, letters)))


def read_template(replica: Replica) -> PatchTemplate | None:
    """Return the pattern of the group of a replica that was read, or None when its replicas differ in more than index and name.

    A template with affinity terms about replicas has none: such a term may be what one of the replicas would be given.
    """
    if names.LABEL_REPLICA_NAME in str(replica.pod.spec.affinity):
        return None
    one, other = [_probe(replica, *probe) for probe in _PROBES]
    if one is None or other is None or (one.own, one.shared) != (other.own, other.shared):
        return None
    return one


def _probe(replica: Replica, index: int, suffix: str) -> PatchTemplate | None:
    """Return what a replica that does not exist would receive, its index and its name left open."""
    name = f"{replica.group_name}-{suffix}" if replica.name else ""
    probe = replica.sibling(Seat(index, 0, name), assigned=replica.assigned)
    try:
        if obstacles(probe):
            return None
        shared, own = shared_edits(probe), own_edits(Worker(probe, None))
    except Denied:
        return None
    if not only_additions((*shared, *own)):
        return None
    first, then = fold_in_turn(probe, own, shared)
    text, numbers = leave_open(first)
    return PatchTemplate(_opened(text, index, suffix), _opened(encode(then), index, suffix), numbers)


def _opened(text: bytes, index: int, suffix: str) -> _Text:
    return _Text([part.split(b"%d" % index) for part in text.split(suffix.encode())])
