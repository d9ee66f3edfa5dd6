"""Disruption budgets: disrupted replicas are the desired ones that are not whole."""

from collections.abc import Callable, Iterable

import pytest

from tests.builders import NAMESPACE, a_cluster, cluster_config, uid_of
from webhook.api import names
from webhook.groups.disruption import Eviction
from webhook.groups.identity import GroupKey, HostIdentity
from webhook.groups.identity_index import Member, Membership

KEY = GroupKey(NAMESPACE, uid_of("c"), "tpu")


class Population:
    """A group of 4 hosts, whose replicas are all ready at first."""

    def __init__(self, replicas: int, desired: int | None = None) -> None:
        self.members = Membership()
        wanted = replicas if desired is None else desired
        self.group = cluster_config(a_cluster("c").group("tpu", hosts=4, replicas=wanted)).groups[
            "tpu"
        ]
        for replica in range(replicas):
            for host in range(4):
                self.put(replica, host)

    def put(
        self, replica: int, host: int, uid: str = "", *, ready: bool = True, marked: bool = False
    ) -> None:
        identity = HostIdentity(replica, host, f"tpu-{replica}")
        member = Member(KEY, identity, marked=marked, ready=ready)
        self.members.put(uid or f"{replica}-{host}", member)

    def remove(self, replica: int, host: int) -> None:
        self.members.remove(f"{replica}-{host}")

    def refusal(
        self, replica: int, limit: int, evicting: Iterable[int] = (), *, in_progress: bool = False
    ) -> str:
        """Return why a pod may not be evicted, if so, while pods of others are being evicted."""
        source = names.ANNOTATION_MAX_DISRUPTED
        eviction = Eviction(
            "c", self.group, KEY, limit=limit, source=source, uid="", replica=replica
        )
        return eviction.refusal(self.members.group(KEY), dict.fromkeys(evicting, in_progress))


def test_all_hosts_have_to_be_ready_and_not_terminating_nor_marked() -> None:
    changes: list[Callable[[Population], None]] = [
        lambda found: found.put(0, 3, ready=False),
        lambda found: found.remove(0, 3),
        lambda found: found.put(0, 3, marked=True),
        lambda found: found.put(0, 3, "second-pod-of-the-host"),
    ]
    for change in changes:
        population = Population(2)
        assert population.refusal(1, 1) == ""
        change(population)
        assert population.refusal(0, 1) == ""
        assert "1 of at most 1" in population.refusal(1, 1)
        assert "replica 0" in population.refusal(1, 1)
        assert population.refusal(1, 2) == ""


def test_readiness_does_not_release_an_identity() -> None:
    population = Population(1)
    for ready in (False, True):
        population.put(0, 2, ready=ready)
    assert not population.members.group(KEY).has_lost(0)


def test_a_replica_that_does_not_exist_counts() -> None:
    refusal = Population(2, desired=4).refusal(0, 2)
    assert "2 of at most 2" in refusal
    assert "2 not created" in refusal
    assert Population(2, desired=3).refusal(0, 2) == ""
    assert "replica 2 (0 of 4 ready)" in Population(2, desired=3).refusal(0, 1, [2])


def test_a_replica_with_an_allowed_eviction_counts_before_the_watch_shows_it() -> None:
    population = Population(2)
    assert population.refusal(0, 1, [0]) == ""
    assert "replica 0 (4 of 4 ready)" in population.refusal(1, 1, [0])
    population.remove(1, 0)
    assert "replica 0" in population.refusal(0, 1, [0]), "it may not have been made"
    population.put(1, 0)
    population.remove(0, 0)
    assert "1 of at most 1" in population.refusal(1, 1, [0])


def test_one_eviction_is_in_progress_at_a_time() -> None:
    population = Population(3)
    assert population.refusal(1, 2, [0]) == ""
    assert population.refusal(0, 2, [0], in_progress=True) == ""
    refusal = population.refusal(1, 2, [0], in_progress=True)
    assert "eviction of replica 0 is in progress" in refusal


def test_nothing_may_go_with_a_budget_of_0_but_what_is_disrupted() -> None:
    population = Population(2)
    assert "is 0" in population.refusal(0, 0)
    population.remove(0, 0)
    assert population.refusal(0, 0) == ""


def test_a_refusal_names_the_disrupted_replicas_and_is_short() -> None:
    population = Population(40)
    for replica in range(1, 40):
        population.remove(replica, 0)
    refusal = population.refusal(0, 39)
    assert "worker group tpu: the eviction would disrupt replica 0" in refusal
    assert "39 of at most 39 (admission.ray.io/max-disrupted-replicas)" in refusal
    assert "replica 1 (3 of 4 ready)" in refusal
    assert "31 more" in refusal
    assert len(refusal) < 500


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_change_of_the_number_of_hosts_is_counted(hosts: int) -> None:
    population = Population(2)
    occupancy = population.members.group(KEY)
    assert [occupancy.whole(number) for number in (4, hosts, 5, 4)] == [2, 2, 0, 2]
