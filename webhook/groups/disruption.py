"""Disruption budgets, counted in replicas: whether an eviction may disrupt one more.

See docs/lifecycle.md#evictions.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from webhook.api.objects import WorkerGroup
from webhook.groups.identity import GroupKey
from webhook.groups.identity_index import Occupancy

_SHOWN: Final = 8
"""Replicas in a refusal."""


class Eviction(Struct, frozen=True, gc=False):
    """An eviction of a worker of a group of which at most `limit` replicas may be disrupted, as the
    annotation or setting `source` says.
    """

    cluster: str
    group: WorkerGroup
    key: GroupKey
    limit: int
    source: str
    uid: str
    replica: int

    def disrupted(self, occupancy: Occupancy, evicting: Mapping[int, bool]) -> int:
        """Return the number of disrupted replicas: the desired ones that are not whole, or of
        which a pod is being evicted.
        """
        whole = occupancy.whole(self.group.num_of_hosts)
        return max(0, self.group.desired - whole + sum(map(occupancy.is_whole, evicting)))

    def refusal(self, occupancy: Occupancy, evicting: Mapping[int, bool]) -> str:
        """Return why the pod may not be evicted, or an empty text: if its replica is disrupted
        already, or the budget allows another one. `evicting` are the replicas with an allowed
        eviction that the watch has not delivered yet: whether it may still be in progress.

        A process allows one replica at a time, so that several processes exceed the budget by at
        most one replica for each other process.
        """
        disrupted = self.disrupted(occupancy, evicting)  # sets the number of hosts of the occupancy
        if not occupancy.is_whole(self.replica):
            return ""
        # An allowed eviction may not have been made: others may be disrupted since then
        if disrupted - (self.replica in evicting) >= self.limit:
            return self._describe_refusal(disrupted, occupancy, evicting)
        for other, in_progress in evicting.items():
            if in_progress and self.replica not in evicting and occupancy.is_whole(other):
                return (
                    f"worker group {self.group.group_name}: the eviction of replica {other} is in "
                    f"progress; that of replica {self.replica} is possible in a few seconds"
                )
        return ""

    def _describe_refusal(
        self, disrupted: int, occupancy: Occupancy, evicting: Mapping[int, bool]
    ) -> str:
        name, hosts = self.group.group_name, self.group.num_of_hosts
        start = f"worker group {name}: the eviction would disrupt replica {self.replica}"
        if not self.limit:
            return f"{start}, and {self.source} is 0: raise it, or delete the pod"
        indices = sorted({*occupancy.broken(), *evicting})
        described = [
            f"replica {index} ({occupancy.ready_of(index)} of {hosts} ready)"
            for index in indices[:_SHOWN]
        ]
        if len(indices) > _SHOWN:
            described.append(f"{len(indices) - _SHOWN} more")
        if (absent := disrupted - len(indices)) > 0:
            described.append(f"{absent} not created")
        return (
            f"{start}, and {disrupted} of at most {self.limit} ({self.source}) are disrupted: "
            f"{', '.join(described)}; the eviction is possible when they are ready"
        )
