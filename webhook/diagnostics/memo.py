"""Memoized problems of replicas: comparing hosts with their expected state is most of an
examination, and most replicas have not changed since the previous one.
"""

from msgspec import Struct

from webhook.diagnostics.assigned_pods import Replica
from webhook.diagnostics.examination import ReplicaProblems, tell_afresh
from webhook.groups.group_config import RayClusterConfig

Key = tuple[str, int, str]
"""Group, index and name of a replica."""


class _Entry(Struct):
    """The problems of a replica, and the immutable objects that they were computed from."""

    reasons: tuple[object, ...]
    told: ReplicaProblems


class Memory:
    """Memoizes `tell_afresh` for the replicas of one RayCluster."""

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0
        self._facts: RayClusterConfig | None = None
        self._entries: dict[Key, _Entry] = {}
        self._used: dict[Key, _Entry] = {}

    def begin(self, facts: RayClusterConfig) -> None:
        """Begin an examination. Entries that the previous one did not use are dropped."""
        same = facts == self._facts
        self._entries, self._used = self._used if same else {}, {}
        self._facts = facts

    def tell(self, replica: Replica) -> ReplicaProblems:
        """Return the problems of the hosts of a replica."""
        key = replica.group.name, replica.index, replica.name
        node = replica.group.cluster.lookups.node
        pods = replica.peers
        reasons = (*pods, *(node(pod.spec.node_name or "") for pod in pods))
        entry = self._entries.get(key)
        if entry is None or not _identical(entry.reasons, reasons):
            self.misses += 1
            entry = _Entry(reasons, tell_afresh(replica))
        else:
            self.hits += 1
        self._used[key] = entry
        return entry.told


def _identical(old: tuple[object, ...], new: tuple[object, ...]) -> bool:
    return len(old) == len(new) and all(a is b for a, b in zip(old, new, strict=True))
