"""State machine of repair: steps of KubeRay without its own indexing, of kubelets and of users;
repair may stop and restart at any step. In the end every replica is complete, every deleted replica
had lost a host, and each deletion is within the budget.
"""

from dataclasses import dataclass

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from tests.harness.single_process import next_identity
from tests.webhook.controller.test_plan import look
from webhook.controller.repair.plan import (
    EMPTY,
    INCOMPLETE,
    Action,
    Memory,
    Plan,
    Record,
    RepairGroup,
    RepairHost,
    RepairLimits,
)
from webhook.groups.identity import GroupKey, HostIdentity
from webhook.groups.identity_index import Member, Membership

KEY = GroupKey("ns", "uid", "g")
LIMITS = RepairLimits(wait=30.0, per_hour=1000)
LOOK = 5.0


@dataclass
class Pod:
    """A pod as the API server has it."""

    host: RepairHost
    version: int = 1


class Repair(RuleBasedStateMachine):
    """One worker group, from its creation to a state in which nothing moves any more."""

    @initialize(hosts=st.integers(2, 4), replicas=st.integers(1, 3), restart=st.booleans())
    def begin(self, hosts: int, replicas: int, *, restart: bool) -> None:
        """KubeRay is about to create the first pods."""
        self.hosts, self.replicas, self.restart = hosts, replicas, restart
        self.now, self.spec, self.numbers = 0.0, 1, 0
        self.pods: dict[str, Pod] = {}
        self.members = Membership()
        self.memory = Memory()
        self.was_whole: dict[str, frozenset[str]] = {}
        self.faulty: set[str] = set()
        self.marked: set[str] = set()
        self.record = EMPTY
        self.workers_to_delete: frozenset[str] = frozenset()
        self.head = True
        self.other = Memory()
        self.late: tuple[Record, Plan] | None = None
        self.kuberay_runs = True

    # KubeRay before 1.6, or with the gate off: it counts pods, whatever their identities.

    @rule(first=st.integers(0, 20))
    def kuberay(self, first: int = 0) -> None:
        """One pass: unhealthy pods go, missing ones are created, surplus ones deleted."""
        if not self.kuberay_runs:
            return
        self.head = True
        for uid in [
            uid for uid, pod in self.pods.items() if pod.host.ended or uid in self.workers_to_delete
        ]:
            self._delete(uid)
        missing = self.replicas * self.hosts - len(self.pods)
        for _ in range(missing):
            self._create()
        alive = [uid for uid, pod in self.pods.items() if not pod.host.deleting]
        alive = alive[first:] + alive[:first]
        for uid in alive[: max(-missing - (len(self.pods) - len(alive)), 0)]:
            self._delete(uid)

    def _create(self) -> None:
        self.numbers += 1
        uid = f"uid-{self.numbers}"
        identity = next_identity(self.members, KEY, self.hosts, uid)
        assert identity.name not in self._marked()
        self.pods[uid] = Pod(RepairHost(uid, uid, "1", identity, ours=True))
        self._report(uid)

    @rule(number=st.integers(0, 20))
    def kubelet(self, number: int) -> None:
        """A pod begins to run, or one that was deleted is gone."""
        if not self.pods:
            return
        uid = [*self.pods][number % len(self.pods)]
        if self.pods[uid].host.deleting:
            del self.pods[uid]
        elif not self.pods[uid].host.ended:
            self._change(uid, runs=True)

    @rule()
    def come_up(self) -> None:
        """Time enough for all pods to run, and for repair to see it."""
        self.kuberay()
        for _ in range(len(self.pods)):
            self.kubelets()
        self.remember()
        self.look(100)

    def kubelets(self) -> None:
        for number in range(len(self.pods) - 1, -1, -1):
            self.kubelet(number)

    @rule(number=st.integers(0, 20), how=st.sampled_from(["delete", "fail", "restart"]))
    def harm(self, number: int, how: str) -> None:
        """A host is deleted by hand or with its node, fails, or restarts its container; of a
        replica that was whole, or is on its way there.
        """
        alive = [uid for uid, pod in self.pods.items() if pod.host.lives]
        if not alive:
            return
        uid = alive[number % len(alive)]
        if how == "delete":
            self._delete(uid)
        elif how == "fail":
            self._change(uid, ended=True, runs=False)
        else:
            self._change(uid, restarts=self.pods[uid].host.restarts + 1)
            if self.restart and self.pods[uid].host.identity.name in self.record.whole:
                self.faulty.add(self.pods[uid].host.identity.name)

    @rule(replicas=st.integers(0, 3))
    def scale(self, replicas: int) -> None:
        if replicas != self.replicas:
            self.replicas = replicas
            self.spec += 1

    @rule(number=st.integers(0, 20), fewer=st.booleans())
    def name(self, number: int, *, fewer: bool) -> None:
        """An autoscaler wants a pod to leave, and its replica with it; or somebody by hand, who
        wants as many replicas as before. The name stays when the pod is gone.
        """
        if self.pods:
            self.workers_to_delete = frozenset({[*self.pods][number % len(self.pods)]})
            self.replicas -= fewer and self.replicas > 0
            self.spec += 1

    @rule(first=st.integers(1, 5))
    def change_of_mind(self, first: int) -> None:
        """The user wants a replica more, and no longer when its pods are there."""
        self.scale(self.replicas + 1)
        self.kuberay()
        self.scale(self.replicas - 1)
        self.kuberay(first)

    @rule()
    def lose_the_head(self) -> None:
        """The head pod goes; KubeRay makes another one."""
        self.head = False

    @rule()
    def kuberay_stops_or_starts(self) -> None:
        self.kuberay_runs = not self.kuberay_runs

    @rule(seconds=st.sampled_from([1.0, 20.0, 40.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(upto=st.integers(0, 5))
    def look(self, upto: int = 100) -> None:
        """Repair looks and acts, and may be stopped between two actions."""
        found = look(self._group(), self.record, self.memory, LIMITS, self.now)
        steps: list[Record | Action] = [*found.actions]
        if found.record != self.record:
            steps.insert(0, found.record)
        for step in steps[:upto]:
            self._perform(step)
        if upto < len(steps):
            self.memory = Memory()

    @rule()
    def another_process_takes_over(self) -> None:
        """What was remembered is lost."""
        self.memory = Memory()

    @rule()
    def another_process_looks(self) -> None:
        """A process that no longer leads looks once more, and is slow to act."""
        found = look(self._group(), self.record, self.other, LIMITS, self.now)
        self.late = (self.record, found)

    @rule()
    def another_process_acts(self) -> None:
        """It acts on what is still as it saw it."""
        if self.late is None:
            return
        (known, found), self.late = self.late, None
        if found.record != known:
            if known is not self.record:
                return  # a conflict: what is not recorded is not done
            self._perform(found.record, late=True)
        for action in found.actions:
            if self._is_there(action):
                self._perform(action, late=True)

    @rule(number=st.integers(0, 20))
    def label(self, number: int) -> None:
        """A person who may patch pods writes the label of a pod that is about to be deleted."""
        if self.pods:
            self._change([*self.pods][number % len(self.pods)], marked=True)

    def _is_there(self, action: Action) -> bool:
        """Return whether the API server still has the pod in the version that was seen."""
        pod = self.pods.get(action.host.uid)
        return pod is not None and pod.host.version == action.host.version

    def _group(self) -> RepairGroup:
        return RepairGroup(
            str(self.spec), self.hosts, self.replicas,
            tuple(pod.host for pod in self.pods.values()), head=self.head, repair=True,
            restart=self.restart, workers_to_delete=self.workers_to_delete)  # fmt: skip

    def _perform(self, step: Action | Record, *, late: bool = False) -> None:
        match step:
            case Record():
                for name in step.whole.keys() - self.record.whole.keys():
                    assert name in self.was_whole
                for name, reason in step.deleting.items():
                    self._check_reason(name, reason, late=late)
                self.record = step
            case Action(kind="mark", host=host):
                assert self._is_there(step)
                self._change(host.uid, marked=True)
            case Action(kind="unmark", host=host):
                assert self._is_there(step)
                self._change(host.uid, marked=False)
            case Action(kind="delete", host=host):
                assert self._is_there(step)
                assert host.marked
                assert host.identity.name in self.marked, "a label deletes a pod"
                self._delete(host.uid)

    def _check_reason(self, name: str, reason: str, *, late: bool) -> None:
        """A replica goes only if it has lost something, or no pod will fill it."""
        if name in self.marked:
            return
        self.marked.add(name)
        if reason != INCOMPLETE:
            assert name in self.faulty, "a replica that has lost nothing goes"
            return
        assert name not in self.was_whole or name in self.faulty
        if late:  # other pods may be there by now
            return
        live = [pod.host for pod in self.pods.values() if pod.host.lives]
        assert len([host for host in live if host.identity.name == name]) < self.hosts
        assert len(live) >= self.replicas * self.hosts, "a replica goes that KubeRay would fill"

    def _marked(self) -> set[str]:
        hosts = [pod.host for pod in self.pods.values()]
        return {host.identity.name for host in hosts if host.marked and not host.deleting}

    def _change(self, uid: str, **fields: object) -> None:
        pod = self.pods[uid]
        pod.version += 1
        pod.host = replace(pod.host, version=str(pod.version), **fields)
        self._report(uid)

    def _delete(self, uid: str) -> None:
        if not self.pods[uid].host.deleting:
            self._change(uid, deleting=True)

    def _report(self, uid: str) -> None:
        """The watch tells the webhook at once; a pod that is being deleted has no identity."""
        host = self.pods[uid].host
        if host.deleting:
            self.members.remove(uid)
        else:
            self.members.put(uid, Member(KEY, host.identity, marked=host.marked))

    @invariant()
    def remember(self) -> None:
        """Note which replicas were whole, and which of these have lost a host since."""
        if not hasattr(self, "pods"):
            return
        names: dict[str, list[RepairHost]] = {}
        for pod in self.pods.values():
            names.setdefault(pod.host.identity.name, []).append(pod.host)
        for name, hosts in names.items():
            live = frozenset(host.uid for host in hosts if host.lives)
            runs = all(host.runs for host in hosts if host.lives)
            known = self.was_whole.get(name)
            if known is None and runs and len(live) == len(hosts) == self.hosts:
                self.was_whole[name] = live
            elif known is not None and live != known:
                self.faulty.add(name)

    def teardown(self) -> None:
        """Nothing harms any more, all programs run: in the end every replica is whole."""
        if not hasattr(self, "pods"):
            return
        self.kuberay_runs = True
        for _ in range(60 * 6):
            self.kuberay()
            self.kubelets()
            self.remember()
            self.look(100)
            self.remember()
            self.now += LOOK
        found: dict[str, set[int]] = {}
        for pod in self.pods.values():
            assert pod.host.lives
            found.setdefault(pod.host.identity.name, set()).add(pod.host.identity.host)
        assert len(found) == self.replicas
        assert found.keys() == self.record.whole.keys()
        assert self.record.replaced.keys() == self.marked, "a replica went that is in no budget"
        assert all(hosts == set(range(self.hosts)) for hosts in found.values())
        identities: set[HostIdentity] = {pod.host.identity for pod in self.pods.values()}
        assert len(identities) == len(self.pods) == self.replicas * self.hosts


Repair.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestRepair = Repair.TestCase
