"""Free identities, for any number of pods per identity and generations of an index."""

import gc
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from tests.harness.single_process import next_identity
from tests.harness.work import run_in_own_process
from webhook.groups.identity import MAX_REPLICAS, GroupKey, HostIdentity
from webhook.groups.identity_index import Member, Membership, Occupancy
from webhook.groups.indices import lowest_bit

HOSTS = 2
IDENTITIES = st.builds(
    HostIdentity, st.integers(0, 1), st.integers(0, HOSTS - 1), st.sampled_from("ABC")
)


def occupied(hosts: int, *identities: HostIdentity) -> Occupancy:
    group = Occupancy()
    group.incomplete(hosts)
    for identity in identities:
        group.take(identity)
    return group


def replica(index: int, name: str, *hosts: int) -> list[HostIdentity]:
    return [HostIdentity(index, host, name) for host in hosts]


def following(group: Occupancy, hosts: int = 0) -> HostIdentity:
    """Return the place to fill next; the name of a new replica is empty."""
    incomplete = group.incomplete(hosts or group.hosts)
    if not incomplete:
        return HostIdentity(group.occupied.lowest_absent, 0, "")
    index = next(iter(incomplete))
    return HostIdentity(index, lowest_bit(~group.taken(index)), group.name_of(index))


def place(group: Occupancy, hosts: int = 0) -> tuple[int, int]:
    identity = following(group, hosts)
    return identity.replica, identity.host


def test_more_hosts_make_full_replicas_lack_some_and_fewer_fill_them() -> None:
    group = occupied(2, *replica(0, "A", 0, 1), *replica(1, "B", 0, 1))
    assert following(group, 3) == HostIdentity(0, 2, "A")
    assert place(group, 1) == (2, 0)


def test_an_index_beyond_all_that_are_handed_out_is_held_but_never_filled() -> None:
    group = occupied(2, HostIdentity(65_536, 0, "A"))
    assert group
    assert place(group) == (0, 0)
    group.release(HostIdentity(65_536, 0, "A"))
    assert not group


def test_a_replica_with_a_marked_host_gets_no_other_until_that_is_gone() -> None:
    members, key = Membership(), GroupKey("ns", "uid", "g")

    def put(host: int, *, marked: bool) -> None:
        members.put(f"pod-{host}", Member(key, HostIdentity(0, host, "A"), marked=marked))

    def following() -> tuple[int, int]:
        identity = next_identity(members, key, 3, "uid")
        return identity.replica, identity.host

    put(0, marked=True)
    put(1, marked=False)
    assert following() == (1, 0)
    assert members.group(key).taken(0) == -1, "nor has it a free host"
    put(1, marked=True)
    members.remove("pod-0")
    assert following() == (1, 0)
    put(1, marked=False)
    assert following() == (0, 0)
    put(1, marked=True)
    members.remove("pod-1")
    assert following() == (0, 0)


def memory_of_ten_groups() -> int:
    """Return the bytes of ten groups that have a pod with the highest index."""
    tracemalloc.start()
    groups = [occupied(4, HostIdentity(MAX_REPLICAS - 1, 0, "A")) for _ in range(10)]
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    return size if groups else 0


def test_a_pod_takes_little_memory_whatever_its_index() -> None:
    assert run_in_own_process(memory_of_ten_groups) < 20_000


@given(st.lists(st.integers(0, 2000) | st.integers(0, MAX_REPLICAS - 1), max_size=60))
def test_the_lowest_free_index_is_that_of_a_set(indices: list[int]) -> None:
    group = occupied(1)
    for index in indices:
        group.take(HostIdentity(index, 0, "A"))
    for index in indices[::2]:
        group.release(HostIdentity(index, 0, "A"))
    remaining = [*indices]
    for index in indices[::2]:
        remaining.remove(index)
    taken = set(remaining)
    assert place(group, 1) == (min(set(range(len(taken) + 1)) - taken), 0)
    assert [*group.incomplete(2)] == [*group.occupied] == sorted(taken)
    assert len(group.occupied) == len(taken)
    assert group.occupied.highest == max(taken, default=-1)


def test_a_whole_block_of_indices_can_be_taken() -> None:
    group = occupied(1, *(HostIdentity(index, 0, "A") for index in range(1500)))
    assert place(group, 1) == (1500, 0)
    group.release(HostIdentity(1024, 0, "A"))
    assert place(group, 1) == (1024, 0)


@given(st.lists(st.tuples(st.integers(0, 2), IDENTITIES, st.integers(0, 99)), max_size=40))
def test_the_next_identity_is_as_counted(changes: list[tuple[int, HostIdentity, int]]) -> None:
    group, held = occupied(HOSTS), list[HostIdentity]()
    for kind, identity, number in changes:
        if kind or not held:
            group.take(identity)
            held.append(identity)
        else:
            group.release(held.pop(number % len(held)))
        found = following(group)
        assert (found.replica, found.host) == expected_place(held)
        assert not found.name or (found.replica, found.name) in {
            (identity.replica, identity.name) for identity in held
        }
        assert bool(group) == bool(held)
        assert {name for name in "ABC" if group.has_name(name)} == {
            identity.name for identity in held
        }


def expected_place(held: list[HostIdentity]) -> tuple[int, int]:
    """Return replica and host that come next, found by looking at every holder."""
    taken = {(identity.replica, identity.host) for identity in held}
    indices = {replica for replica, _ in taken}
    lacking = {(replica, host) for replica in indices for host in range(HOSTS)} - taken
    return min(lacking, default=(min(set(range(len(indices) + 1)) - indices), 0))
