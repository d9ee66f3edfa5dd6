"""Memory of what was told of replicas: working it out again is most of a look at a RayCluster, and
of most replicas nothing has changed since the look before.
"""

from msgspec import Struct

from webhook.diagnostics.assigned_pods import Replica
from webhook.diagnostics.examination import ReplicaProblems, tell_afresh
from webhook.groups.group_config import RayClusterConfig

Key = tuple[str, int, str]
"""Group, index and name of a replica."""


class _Entry(Struct):
    """What was told, and what that followed from: objects that never change."""

    reasons: tuple[object, ...]
    told: ReplicaProblems


class Memory:
    """Tells of the replicas of one RayCluster what `tell_afresh` does."""

    def __init__(self) -> None:
        self.hits = 0
        self.misses = 0
        self._facts: RayClusterConfig | None = None
        self._entries: dict[Key, _Entry] = {}
        self._used: dict[Key, _Entry] = {}

    def begin(self, facts: RayClusterConfig) -> None:
        """Begin a look. What was not asked for in the one before is forgotten."""
        same = facts == self._facts
        self._entries, self._used = self._used if same else {}, {}
        self._facts = facts

    def tell(self, replica: Replica) -> ReplicaProblems:
        """Return what is wrong with what its hosts were told."""
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
