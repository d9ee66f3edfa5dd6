"""Plans: what the pods of a replica receive, worked out for the first of them and kept for the others.

A plan is only used for a pod whose view equals that of the pod it was made for: pods of one replica come from one template,
and differ in nothing that is read here.
"""

from collections import OrderedDict
from typing import Final

from msgspec import UNSET, Struct, UnsetType

from webhook.groups.clusters import ClusterFacts
from webhook.groups.seat import Seat
from webhook.kube import names
from webhook.kube.objects import Pod, WorkerGroup
from webhook.kube.review import Answer, Denied
from webhook.mutation.edit import Edit, Warn, only_additions
from webhook.mutation.feasibility import obstacles
from webhook.mutation.fold import Operation, encode, fold, fold_in_turn
from webhook.mutation.patch import NumberedPatch, SharedPatch, leave_open
from webhook.mutation.patch_template import PatchTemplate, read_template
from webhook.mutation.pipeline import own_edits, shared_edits
from webhook.mutation.policy import DEFAULT_POLICY, Policy
from webhook.mutation.worker import Replica, Worker, read_replica

KEPT: Final = 256
"""Plans that are kept: replicas that come up at the same time, not all that live. A plan takes about 20 KiB."""


class Plan(Struct, gc=False):
    """What all hosts of a replica receive.

    `numbered` has their patches, unless these differ in more than numbers: then `shared` has what they end with.
    """

    replica: Replica
    numbered: NumberedPatch | None
    shared: SharedPatch | None = None
    warnings: tuple[str, ...] = ()

    def edits_for(self, host: int) -> list[Edit]:
        """Return every edit of one host, its own first."""
        return [*own_edits(Worker(self.replica, host)), *shared_edits(self.replica)]

    def operations_for(self, host: int) -> list[Operation]:
        """Return the patch of one host."""
        own, shared = fold_in_turn(self.replica, own_edits(Worker(self.replica, host)), shared_edits(self.replica))
        return own + shared

    def answer_for(self, host: int) -> Answer:
        """Return the answer for one host: a patch only when something changes."""
        if self.numbered is not None:
            return Answer((), self.numbered.of(host), self.warnings)
        own = own_edits(Worker(self.replica, host))
        patch = self.shared.after(encode(fold(self.replica, own))) if self.shared else None
        warnings = tuple([edit.text for edit in own if isinstance(edit, Warn)]) + self.warnings
        return Answer((), patch, warnings)


class _Sample(Struct, gc=False):
    """A replica of a group as it was read, and the pattern of all of them: made for the second one, None when there is none."""

    replica: Replica
    pattern: PatchTemplate | UnsetType | None = UNSET


class Planner:
    """Makes plans, and keeps the latest."""

    def __init__(self, policy: Policy = DEFAULT_POLICY) -> None:
        self._plans: OrderedDict[tuple[str, str, int, str], Plan] = OrderedDict()
        self._samples: OrderedDict[tuple[str, str], _Sample] = OrderedDict()
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
            self._samples.clear()

    def plan(self, pod: Pod, seat: Seat, cluster: ClusterFacts, group: WorkerGroup, *, assigned: bool) -> Plan:
        """Return the plan for the replica of a pod. Raises Denied when the replica cannot work."""
        key = (cluster.uid, group.group_name, seat.replica, seat.name)
        plan = self._plans.get(key)
        if plan is None or plan.replica.assigned != assigned or not _fits(plan.replica, pod, cluster, group):
            plan = self._plans[key] = self._make(pod, seat, cluster, group, assigned=assigned)
            if len(self._plans) > KEPT:
                self._plans.popitem(last=False)
        return plan

    def _make(self, pod: Pod, seat: Seat, cluster: ClusterFacts, group: WorkerGroup, *, assigned: bool) -> Plan:
        """Return a new plan: by the pattern of its group, if a replica of it was read from a pod like this one."""
        key = (cluster.uid, group.group_name)
        sample = self._samples.get(key)
        if sample is None or sample.replica.assigned != assigned or not _fits(sample.replica, pod, cluster, group):
            replica = read_replica(pod, seat, cluster, group, assigned=assigned, policy=self._policy)
            self._samples[key] = _Sample(replica)
            if len(self._samples) > KEPT:
                self._samples.popitem(last=False)
            return make_plan(replica)
        if sample.pattern is UNSET:
            sample.pattern = read_template(sample.replica)
        replica = sample.replica.sibling(seat, assigned=assigned)
        patch = sample.pattern.patch_of(replica) if sample.pattern else None
        return Plan(replica, patch) if patch else make_plan(replica)


def make_plan(replica: Replica) -> Plan:
    """Return the plan of a replica. Raises Denied with every reason when the replica cannot work."""
    causes = obstacles(replica)
    if causes:
        raise Denied(*causes)
    edits = shared_edits(replica)
    own = own_edits(Worker(replica, None))
    first, then = fold_in_turn(replica, own, edits)
    shared = SharedPatch(encode(then))
    numbered = NumberedPatch(*leave_open(first), shared) if only_additions(own) else None
    warnings = tuple([edit.text for edit in edits if type(edit) is Warn])
    return Plan(replica, numbered, shared, warnings)


def _fits(replica: Replica, pod: Pod, cluster: ClusterFacts, group: WorkerGroup) -> bool:
    """Tell whether a replica was read from a pod that is the same to every mutator, under the same facts."""
    if replica.cluster is not cluster or replica.group is not group:
        return False
    read, label = replica.pod, names.LABEL_LEGACY_REPLICA_INDEX
    if read is pod:
        return True
    return read.spec == pod.spec and read.annotations == pod.annotations and read.labels.get(label) == pod.labels.get(label)
