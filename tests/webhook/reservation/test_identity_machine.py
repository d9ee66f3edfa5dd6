"""The invariants of identities under any interleaving, as a state machine over a cluster and its
webhook, with the store of the product.
"""

from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)
from msgspec.structs import replace

from tests.harness.leases import Direct, lease_store
from tests.harness.single_process import Lists
from webhook.groups.identity import MAX_REPLICAS, GroupKey, HostIdentity
from webhook.groups.identity_index import Member, Membership
from webhook.groups.required_reads import ReadGroup
from webhook.reservation.allocation import BLOCK, VACANT_SECONDS, Request
from webhook.reservation.identities import IdentityRequest
from webhook.reservation.stores import at_once

EXAMPLES = 300
STEPS = 60
ENOUGH = 10_000
"""The steps that the runs must come to, so that the machine did not run dry."""


@dataclass(eq=False)
class Admitted:
    """A pod that the webhook let pass: it may yet be refused by others, be stored, and go."""

    uid: str
    key: GroupKey
    identity: HostIdentity
    holder: str
    since: float
    terminating: bool = False


@dataclass
class Simulation:
    """The truth: what the API server stores, in the order in which the watch will show it."""

    pods: dict[str, Admitted] = field(default_factory=dict)
    events: list[tuple[str, Admitted]] = field(default_factory=list)


class Identities(RuleBasedStateMachine):
    """Creations, deletions, failures, dry runs, retries, restarts and watch delay, in any order."""

    steps = 0
    passed = Bundle("passed")
    stored = Bundle("stored")

    @initialize(hosts=st.lists(st.integers(1, 5), min_size=1, max_size=3))
    def begin(self, hosts: list[int]) -> None:
        """Start with a few groups of several sizes."""
        self.requests = 0
        self.lists = Lists(finds=self._show_all)
        self.api = Direct()
        self.simulation = Simulation()
        self.groups = {GroupKey("ns", "uid", f"group-{i}"): count for i, count in enumerate(hosts)}
        self._start()

    def _start(self) -> None:
        self.members = Membership()
        self.identities = self.lists.identities(self.members, lease_store(self.api))

    def _wanted(self, key: GroupKey, uid: str = "") -> IdentityRequest:
        """Return the identity that a review wants, in a group that is never full."""
        self.requests += 1
        hosts = self.groups[key]
        return Request("ray", key, hosts, MAX_REPLICAS, uid or f"request-{self.requests}")

    def _reserve(self, wanted: IdentityRequest) -> tuple[HostIdentity, str]:
        found = at_once(self.identities.reserve(wanted, lambda *found: found))
        if isinstance(found, ReadGroup):
            at_once(self.lists.relist(wanted.key, wanted.cluster))
            found = at_once(
                self.identities.reserve(replace(wanted, read=True), lambda *found: found)
            )
        assert isinstance(found, tuple)
        return found

    @rule(target=passed, number=st.integers(0, 2))
    def create(self, number: int) -> Admitted:
        """KubeRay creates a pod, and the webhook gives it an identity."""
        key = list(self.groups)[number % len(self.groups)]
        wanted, before = self._wanted(key), self.api.entries(key.group)
        identity, holder = self._reserve(wanted)
        after = self.api.entries(key.group)
        assert after[identity.replica, identity.host] == holder
        kept = {place for place in before if after.get(place) == before[place]}
        self._check_order(key, identity, kept)
        return Admitted(wanted.uid, key, identity, holder, self.lists.time)

    @rule(number=st.integers(0, 2))
    def dry_run(self, number: int) -> None:
        """A dry run reserves nothing: the next one gets the same identity."""
        key = list(self.groups)[number % len(self.groups)]
        before = self.api.entries(key.group)
        first, second = (
            self.identities.preview(
                replace(self._wanted(key), read=True), lambda identity, _: identity
            )
            for _ in range(2)
        )
        assert isinstance(first, HostIdentity)
        assert isinstance(second, HostIdentity)
        assert (first.replica, first.host) == (second.replica, second.host)
        assert self.api.entries(key.group) == before

    @rule(pod=passed)
    def retry(self, pod: Admitted) -> None:
        """The API server repeats a review whose response was lost: the identity is the same."""
        if self.lists.time < pod.since + VACANT_SECONDS / 2 and pod.uid not in self.simulation.pods:
            assert self._reserve(self._wanted(pod.key, pod.uid)) == (pod.identity, pod.holder)
            pod.since = self.lists.time

    @rule(target=stored, pod=consumes(passed))
    def store(self, pod: Admitted) -> Admitted:
        """The API server stores the pod, unless its admission took longer than it allows."""
        if self.lists.time < pod.since + VACANT_SECONDS / 2:
            self.simulation.pods[pod.uid] = pod
            self.simulation.events.append(("put", pod))
        return pod

    @rule(pod=consumes(passed))
    def refuse(self, pod: Admitted) -> None:
        """A later webhook or the quota refuses the pod."""

    @rule(pod=stored)
    def terminate(self, pod: Admitted) -> None:
        """The pod is deleted gracefully."""
        if pod.uid in self.simulation.pods and not pod.terminating:
            pod.terminating = True
            self.simulation.events.append(("gone", pod))

    @rule(pod=consumes(stored))
    def delete(self, pod: Admitted) -> None:
        """The pod vanishes."""
        if self.simulation.pods.pop(pod.uid, None) is not None and not pod.terminating:
            pod.terminating = True
            self.simulation.events.append(("gone", pod))

    @rule(count=st.integers(1, 10))
    def watch(self, count: int) -> None:
        """The watch delivers some of what happened."""
        due, self.simulation.events = (
            self.simulation.events[:count],
            self.simulation.events[count:],
        )
        for event, pod in due:
            if event == "put":
                self.members.put(pod.uid, Member(pod.key, pod.identity, pod.holder))
            else:
                self.members.remove(pod.uid)

    def _show_all(self) -> None:
        self.watch(len(self.simulation.events))

    @rule(seconds=st.sampled_from([0.1, 5.0, 40.0, 61.0]))
    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.lists.time += seconds

    @rule()
    def silence(self) -> None:
        """The watch has been silent for a while."""
        self.lists.silent_since = self.lists.time - 6

    @rule()
    def restart(self) -> None:
        """The process dies, and lists the pods when it starts again."""
        self._start()
        self.simulation.events.clear()
        self.lists.listed_at = self.lists.time
        for pod in self.simulation.pods.values():
            if not pod.terminating:
                self.members.put(pod.uid, Member(pod.key, pod.identity, pod.holder))

    def _check_order(
        self, key: GroupKey, identity: HostIdentity, kept: set[tuple[int, int]]
    ) -> None:
        """A replica is filled before another is opened, and the lowest free index is opened."""
        hosts, group = self.groups[key], self.members.group(key)
        places = {
            (index, host) for index in range(64) for host in range(hosts)
            if group.taken(index) >> host & 1
        }  # fmt: skip
        held = (kept | places) - {(identity.replica, identity.host)}
        replicas = {replica for replica, _ in held}
        if any(replica >= BLOCK for replica in replicas):
            return  # a table that this process has not read may have more
        lacking = [i for i in replicas if len([each for each in held if each[0] == i]) < hosts]
        if identity.replica in replicas:
            opened = {replica for replica, _ in places}.intersection(lacking)
            assert identity.replica == min(opened or lacking)
            taken = {host for replica, host in held if replica == identity.replica}
            assert identity.host == min(set(range(hosts)) - taken)
        else:
            assert not lacking
            assert identity.replica == min(set(range(len(replicas) + 1)) - replicas)
            assert identity.host == 0

    @invariant()
    def no_identity_is_held_twice(self) -> None:
        """No two live pods have one identity, and a replica has one name."""
        Identities.steps += 1
        live = [pod for pod in self.simulation.pods.values() if not pod.terminating]
        places = [(pod.key, pod.identity.replica, pod.identity.host) for pod in live]
        assert len(places) == len(set(places))
        called = {(pod.key, pod.identity.replica): pod.identity.name for pod in live}
        assert all(called[pod.key, pod.identity.replica] == pod.identity.name for pod in live)


@pytest.mark.hypothesis
def test_the_invariants_hold_under_any_interleaving() -> None:
    Identities.steps = 0
    run_state_machine_as_test(
        Identities,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
    assert Identities.steps >= ENOUGH, f"only {Identities.steps} steps were made"
