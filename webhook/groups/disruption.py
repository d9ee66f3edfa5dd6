"""Disruption budgets, counted in replicas: whether an eviction may disrupt one more.

See docs/lifecycle.md#evictions.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from webhook.api import names
from webhook.api.objects import WorkerGroup
from webhook.groups.identity_index import Occupancy

_SHOWN: Final = 8
"""Replicas in a refusal."""


class Budget(Struct, frozen=True, gc=False):
    """The disruption budget of a worker group, and its replicas with an allowed eviction that the
    watch has not delivered yet: whether it may still be in progress.
    """

    group: WorkerGroup
    occupancy: Occupancy
    limit: int
    leaving: Mapping[int, bool] = field(default_factory=dict)

    @property
    def disrupted(self) -> int:
        """Return the number of disrupted replicas: the desired ones that are not whole or are
        leaving.
        """
        whole = self.occupancy.whole(self.group.num_of_hosts)
        whole -= sum(map(self.occupancy.is_whole, self.leaving))
        return max(0, self.group.desired - whole)

    def refusal(self, replica: int) -> str:
        """Return why no pod of a replica may be evicted, or an empty text: if the replica is
        disrupted already, or the budget allows another one. A process allows one replica at a time,
        so that several processes exceed the budget by at most one replica for each other process.
        """
        disrupted = self.disrupted  # sets the number of hosts of the occupancy
        if not self.occupancy.is_whole(replica):
            return ""
        # An allowed eviction may not have been made: others may be disrupted since then
        if disrupted - (replica in self.leaving) >= self.limit:
            return self._describe_refusal(replica, disrupted)
        for other, in_progress in self.leaving.items():
            if in_progress and replica not in self.leaving and self.occupancy.is_whole(other):
                return (
                    f"worker group {self.group.group_name}: the eviction of replica {other} is in "
                    f"progress; that of replica {replica} is possible in a few seconds"
                )
        return ""

    def _describe_refusal(self, replica: int, disrupted: int) -> str:
        group, annotation = self.group, names.ANNOTATION_MAX_DISRUPTED
        start = f"worker group {group.group_name}: the eviction would disrupt replica {replica}"
        if not self.limit:
            return f"{start}, and {annotation} is 0: raise it, or delete the pod"
        hosts, indices = group.num_of_hosts, sorted({*self.occupancy.broken(), *self.leaving})
        described = [
            f"replica {index} ({self.occupancy.ready_of(index)} of {hosts} ready)"
            for index in indices[:_SHOWN]
        ]
        if len(indices) > _SHOWN:
            described.append(f"{len(indices) - _SHOWN} more")
        if (absent := disrupted - len(indices)) > 0:
            described.append(f"{absent} not created")
        return (
            f"{start}, and {disrupted} of at most {self.limit} ({annotation}) are disrupted: "
            f"{', '.join(described)}; the eviction is possible when they are ready"
        )
