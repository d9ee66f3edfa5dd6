"""Plans: what the pods of a replica receive, worked out for the first of them and kept for the others.

A plan is only used for a pod whose view equals that of the pod it was made for: pods of one replica come from one template,
and differ in nothing that is read here.
"""

from collections import OrderedDict
from typing import Final

from msgspec import Struct

from webhook.groups.clusters import ClusterFacts
from webhook.groups.seat import Seat
from webhook.kube import names
from webhook.kube.objects import Pod, WorkerGroup
from webhook.kube.review import Answer, Denied
from webhook.mutation.edit import Edit, SetEnv, Warn
from webhook.mutation.feasibility import obstacles
from webhook.mutation.fold import Operation, added_in_front, fold
from webhook.mutation.patch import NumberedPatch, SharedPatch
from webhook.mutation.pipeline import own_edits, shared_edits
from webhook.mutation.policy import DEFAULT_POLICY, Policy
from webhook.mutation.worker import Replica, Worker, read_replica

KEPT: Final = 256
"""Plans that are kept: replicas that come up at the same time, not all that live. A plan takes about 20 KiB."""


class Plan(Struct, gc=False):
    """What all hosts of a replica receive. `numbered` has their patches, when those differ in numbers alone."""

    replica: Replica
    edits: list[Edit]
    operations: list[Operation]
    patch: SharedPatch
    numbered: NumberedPatch | None
    warnings: tuple[str, ...]

    def edits_for(self, host: int) -> list[Edit]:
        """Return every edit of one host, its own first."""
        return [*own_edits(Worker(self.replica, host)), *self.edits]

    def operations_for(self, host: int) -> list[Operation]:
        """Return the patch of one host."""
        return fold(self.replica, own_edits(Worker(self.replica, host))) + self.operations

    def answer_for(self, host: int) -> Answer:
        """Return the answer for one host: a patch only when something changes."""
        if self.numbered is not None:
            return Answer((), self.numbered.of(host), self.warnings)
        own = own_edits(Worker(self.replica, host))
        patch = self.patch.after(fold(self.replica, own))
        warnings = tuple([edit.text for edit in own if isinstance(edit, Warn)]) + self.warnings
        return Answer((), patch, warnings)


class Planner:
    """Makes plans, and keeps the latest."""

    def __init__(self, policy: Policy = DEFAULT_POLICY) -> None:
        self._plans: OrderedDict[tuple[str, str, int, str], Plan] = OrderedDict()
        self._read: OrderedDict[tuple[str, str], Replica] = OrderedDict()
        self._policy = policy

    @property
    def policy(self) -> Policy:
        """The policy that plans follow."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        if policy != self._policy:
            self._policy = policy
            self._plans.clear()
            self._read.clear()

    def plan(self, pod: Pod, seat: Seat, cluster: ClusterFacts, group: WorkerGroup, *, assigned: bool) -> Plan:
        """Return the plan for the replica of a pod. Raises Denied when the replica cannot work."""
        key = (cluster.uid, group.group_name, seat.replica, seat.name)
        plan = self._plans.get(key)
        if plan is None or plan.replica.assigned != assigned or not _fits(plan.replica, pod, cluster, group):
            plan = self._plans[key] = make_plan(self._replica(pod, seat, cluster, group, assigned=assigned))
            if len(self._plans) > KEPT:
                self._plans.popitem(last=False)
        return plan

    def _replica(self, pod: Pod, seat: Seat, cluster: ClusterFacts, group: WorkerGroup, *, assigned: bool) -> Replica:
        """Return the replica of a pod: read from it, unless a replica of the same group was read from its like."""
        key = (cluster.uid, group.group_name)
        known = self._read.get(key)
        if known is not None and _fits(known, pod, cluster, group):
            return known.sibling(seat, assigned=assigned)
        replica = self._read[key] = read_replica(pod, seat, cluster, group, assigned=assigned, policy=self._policy)
        if len(self._read) > KEPT:
            self._read.popitem(last=False)
        return replica


def make_plan(replica: Replica) -> Plan:
    """Return the plan of a replica. Raises Denied with every reason when the replica cannot work."""
    causes = obstacles(replica)
    if causes:
        raise Denied(*causes)
    edits = shared_edits(replica)
    own = own_edits(Worker(replica, None))
    # How many variables a host adds for itself does not depend on which host it is.
    operations = fold(replica, edits, added_in_front(own))
    patch = SharedPatch(operations)
    numbered = NumberedPatch(fold(replica, own), patch) if _for_all_hosts(own) else None
    warnings = tuple([edit.text for edit in edits if isinstance(edit, Warn)])
    return Plan(replica, edits, operations, patch, numbered, warnings)


def _for_all_hosts(own: list[Edit]) -> bool:
    """Tell whether these edits of any host are those of every host but for its numbers.

    They are when all are additions. What a value of the user has come to, a replacement or a warning, one host may not need:
    the one for which the value is right.
    """
    return not any(isinstance(edit, Warn) or (isinstance(edit, SetEnv) and edit.slot >= 0) for edit in own)


def _fits(replica: Replica, pod: Pod, cluster: ClusterFacts, group: WorkerGroup) -> bool:
    """Tell whether a replica was read from a pod that is the same to every mutator, under the same facts."""
    if replica.cluster is not cluster or replica.group is not group:
        return False
    label = names.LABEL_LEGACY_REPLICA_INDEX
    read = replica.pod
    return read.spec == pod.spec and read.labels.get(label) == pod.labels.get(label)
