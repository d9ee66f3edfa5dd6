"""Reservations of one group, step by step: conflicts, unknown outcomes, clocks, bounds and cost."""

import asyncio
from collections.abc import Callable
from cProfile import Profile
from itertools import islice
from typing import Any, cast

import pytest

from tests.builders import Webhook
from tests.harness.single_process import Lists, next_identity
from tests.lab.bench.reviews import CLUSTER, Body, review_bodies
from tests.webhook.reservation.server import Direct, lease_store
from webhook.admission.reviewer import Mutation
from webhook.api.review import Denied, NotNow
from webhook.cache.live import LiveReader, Stores
from webhook.cache.serve_stores import PodStore, RayClusterStore
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity import MAX_REPLICAS, GroupKey, HostIdentity
from webhook.groups.identity_index import Member, Membership
from webhook.groups.required_reads import ReadGroup
from webhook.kubeclient.client import Api
from webhook.kubeclient.errors import ApiError
from webhook.kubeclient.timeouts import ServerTime
from webhook.reservation.allocation import BLOCK, RENEW_SECONDS, VACANT_SECONDS, Request
from webhook.reservation.identities import Identities
from webhook.reservation.reservations import TRY_SECONDS, UNSEEN_MAX
from webhook.reservation.stores import (
    Conflict,
    MemoryStore,
    Stored,
    Table,
    TableKey,
    UnknownOutcome,
    at_once,
)

KEY = GroupKey("ns", "uid", "g")


class Scripted(MemoryStore):
    """A store whose writes a test disturbs: by number, what is raised before or after them."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = self.reads = 0
        self.before: dict[int, BaseException] = {}
        self.after: dict[int, BaseException] = {}
        self.while_writing: Callable[[int], None] = lambda _: None

    async def get(self, key: TableKey) -> Stored | None:
        self.reads += 1
        return await super().get(key)

    async def write(
        self, key: TableKey, table: Table, cluster: str, known: Stored | None = None
    ) -> Stored:
        self.writes += 1
        number = self.writes
        self.while_writing(number)
        if number in self.before:
            raise self.before[number]
        stored = await super().write(key, table, cluster, known)
        if number in self.after:
            raise self.after[number]
        return stored


class Simulation:
    """One process, its pods, its clock and its store."""

    def __init__(self) -> None:
        self.lists = Lists()
        self.members = Membership()
        self.store = Scripted()
        self.reservations = self.lists.reservations(self.members, ClusterIndex(), self.store)
        self.identities = Identities(self.reservations)

    async def reserve_later(
        self,
        uid: str,
        hosts: int = 1,
        given: HostIdentity | None = None,
        key: GroupKey = KEY,
        desired: int = MAX_REPLICAS,
    ) -> tuple[HostIdentity, str]:
        """Return the identity and the holder that a request gets."""
        wanted = Request("ray", key, hosts, desired, uid, read=True, given=given, pod="new")
        found = await self.identities.reserve(wanted, lambda *found: found)
        assert isinstance(found, tuple)
        return found

    def reserve(self, *arguments: Any, **more: Any) -> tuple[HostIdentity, str]:  # noqa: ANN401
        """Return the same, if nothing has to be waited for."""
        return at_once(self.reserve_later(*arguments, **more))

    def place(self, *arguments: Any) -> tuple[int, int]:  # noqa: ANN401
        identity, _ = self.reserve(*arguments)
        return identity.replica, identity.host

    def table(self) -> Table:
        stored = at_once(self.store.get(TableKey(KEY, 0)))
        assert stored is not None
        return stored.table

    def show(self, uid: str, identity: HostIdentity, holder: str = "") -> None:
        self.members.put(uid, Member(KEY, identity, holder))


@pytest.fixture(name="simulation")
def _simulation() -> Simulation:
    return Simulation()


def test_an_entry_stays_while_its_pod_lives_and_goes_with_it(simulation: Simulation) -> None:
    identity, holder = simulation.reserve("a")
    simulation.show("pod-a", identity, holder)
    simulation.lists.time += 10 * VACANT_SECONDS
    assert simulation.place("b") == (1, 0)
    simulation.members.remove("pod-a")
    assert simulation.place("c") == (0, 0)


def test_a_dry_run_reserves_nothing(simulation: Simulation) -> None:
    simulation.reserve("a")
    dry = Request("ray", KEY, 1, MAX_REPLICAS, "b", read=True)
    for _ in range(2):
        assert simulation.identities.preview(dry, lambda identity, _: identity.replica) == 1
    assert (simulation.store.writes, [*simulation.table()]) == (1, [0])


def test_an_entry_without_a_pod_goes_after_a_list_a_minute_later(simulation: Simulation) -> None:
    assert simulation.place("a") == (0, 0)
    simulation.lists.time += VACANT_SECONDS - 0.1
    assert (simulation.place("b"), simulation.lists.reads) == ((1, 0), [])
    simulation.lists.time += 0.2
    assert (simulation.place("c"), simulation.lists.reads) == ((0, 0), [KEY])
    assert simulation.reservations.counts["lists"] == 1


def test_a_copy_of_a_pod_keeps_the_entry_when_the_pod_is_gone(simulation: Simulation) -> None:
    identity, holder = simulation.reserve("a")
    simulation.show("pod-a", identity, holder)
    simulation.show("copy", HostIdentity(7, 0, ""), holder)
    simulation.members.remove("pod-a")
    assert simulation.place("b") == (1, 0)


def test_before_the_first_response_nothing_is_decided(simulation: Simulation) -> None:
    simulation.lists.stopped = float("-inf")

    def answer() -> None:
        simulation.lists.stopped = 0.0

    simulation.lists.finds = answer
    assert simulation.place("a") == (0, 0)
    assert simulation.table()[0].made == 1000.0


def test_a_retried_review_gets_its_identity_and_renews_old_entries(simulation: Simulation) -> None:
    first = simulation.reserve("a")
    assert (simulation.reserve("a"), simulation.store.writes) == (first, 1)
    simulation.lists.time += RENEW_SECONDS + 1
    assert (simulation.reserve("a"), simulation.store.writes) == (first, 2)
    assert simulation.table()[0].made == simulation.lists.time
    counts = {"writes": 2, "reserved": 2, "repeated": 1}
    assert simulation.reservations.counts == counts


def test_a_retried_review_whose_place_is_taken_is_refused(simulation: Simulation) -> None:
    simulation.reserve("a")
    simulation.show("other", HostIdentity(0, 0, ""))
    with pytest.raises(NotNow):
        simulation.reserve("a")
    assert simulation.table()[0].hosts


@pytest.mark.parametrize("written", [True, False])
def test_a_write_of_unknown_outcome_is_read_first(simulation: Simulation, written: bool) -> None:
    lost = simulation.store.after if written else simulation.store.before
    lost[1] = UnknownOutcome("the response was lost")
    identity, _ = asyncio.run(simulation.reserve_later("a"))
    assert (identity.replica, identity.host) == (0, 0)
    assert simulation.store.writes == 1 + (not written)
    assert len(simulation.table()) == 1


def test_writes_that_always_conflict_end_with_the_deadline(simulation: Simulation) -> None:
    def later(_: int) -> None:
        simulation.lists.time += 1

    simulation.store.while_writing = later
    simulation.store.before = {number: Conflict() for number in range(1, 99)}
    with pytest.raises(NotNow, match="in time"):
        simulation.reserve("a")
    writes = simulation.store.writes
    assert writes <= TRY_SECONDS + 1
    counts = {"writes": writes, "conflicts": writes, "unavailable": 1}
    assert (simulation.reservations.counts, simulation.reservations.seconds) == (counts, writes)


def test_an_entry_that_took_long_to_write_is_rewritten_first(simulation: Simulation) -> None:
    def stand_still(number: int) -> None:
        if number == 1:
            simulation.lists.stopped += RENEW_SECONDS + 1

    simulation.store.while_writing = stand_still
    assert simulation.place("a") == (0, 0)
    assert simulation.store.writes == 2
    assert simulation.table()[0].made == simulation.lists.time + simulation.lists.stopped


def test_hosts_of_one_replica_have_one_name_whatever_numofhosts_was(simulation: Simulation) -> None:
    identity, holder = simulation.reserve("a", 1)
    simulation.show("pod-a", identity, holder)
    grown = [simulation.reserve(f"b{number}", 4)[0] for number in range(3)]
    assert [(identity.replica, identity.host) for identity in grown] == [(0, 1), (0, 2), (0, 3)]
    assert len({identity.name for identity in grown}) == 1
    assert grown[0].name
    shrunk, _ = simulation.reserve("c", 1)
    assert (shrunk.replica, shrunk.host, shrunk.name) == (1, 0, "")
    again, _ = simulation.reserve("d", 5)
    assert (again.replica, again.host, again.name) == (0, 4, grown[0].name)


def test_a_replica_of_live_pods_keeps_the_first_of_its_names(simulation: Simulation) -> None:
    simulation.show("old", HostIdentity(0, 0, ""))
    simulation.show("new", HostIdentity(0, 1, "g-abcde"))
    assert simulation.reserve("a", 3)[0] == HostIdentity(0, 2, "g-abcde")


def test_an_adopted_identity_is_reserved_once(simulation: Simulation) -> None:
    given = HostIdentity(3, 1, "g-3")
    identity, holder = simulation.reserve("a", 2, given=given)
    assert identity == given
    assert simulation.table()[3].hosts == {1: holder}
    with pytest.raises(Denied, match="a pod that has not appeared"):
        simulation.reserve("b", 2, given=given)
    simulation.show("pod-a", identity, holder)
    with pytest.raises(Denied, match=r"pod new .* the pod with the uid pod-a has it"):
        simulation.reserve("c", 2, given=given)
    simulation.members.remove("pod-a")
    assert simulation.place("d", 2, given) == (3, 1)


def test_after_too_many_missing_pods_the_next_of_a_group_is_denied(simulation: Simulation) -> None:
    for number in range(UNSEEN_MAX):
        simulation.reserve(f"a{number}")
        simulation.lists.time += 0.1
    with pytest.raises(Denied, match=rf"{UNSEEN_MAX} pods of group g in namespace ns"):
        simulation.reserve("b")
    assert simulation.reserve("c", key=GroupKey("ns", "uid", "other"))[0] == HostIdentity(0, 0, "")
    simulation.lists.time += VACANT_SECONDS
    assert simulation.place("d") == (0, 0)


def test_a_scrape_during_a_write_raises_no_limit_of_missing_pods(simulation: Simulation) -> None:
    reservations = simulation.lists.reservations(
        simulation.members, ClusterIndex(), simulation.store
    )
    simulation.identities = Identities(reservations)
    scraped = []
    simulation.store.while_writing = lambda _: scraped.append(reservations.unseen)
    for number in range(UNSEEN_MAX):
        simulation.reserve(f"a{number}", 64)
    with pytest.raises(Denied):
        simulation.reserve("b", 64)
    assert len(scraped) == UNSEEN_MAX


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_reservation_costs_the_same_in_a_large_group(simulation: Simulation, hosts: int) -> None:
    def calls(pods: range) -> int:
        profile = Profile()
        for number in pods:
            profile.enable()
            identity, holder = simulation.reserve(f"r{number}", hosts)
            profile.disable()
            simulation.show(f"pod-{number}", identity, holder)
        return sum(each.callcount for each in profile.getstats())

    small = calls(range(BLOCK * hosts))
    calls(range(BLOCK * hosts, 45 * BLOCK * hosts))
    # No multiple of UNSEEN_MAX, at which all entries are counted.
    large = calls(range(45 * BLOCK * hosts, 46 * BLOCK * hosts))
    assert large < 1.2 * small


def test_an_entry_whose_pod_is_gone_blocks_no_new_replica(simulation: Simulation) -> None:
    (first, holder), (second, other) = (simulation.reserve(uid, 2) for uid in ("r0", "r1"))
    simulation.show("pod-1", second, other)
    simulation.members.put("pod-0", Member(KEY, first, holder, marked=True))  # no host beside it
    simulation.members.remove("pod-1")
    found, _ = simulation.reserve("r2", 2, desired=1)
    assert (found.replica, found.host) == (1, 0)


def _fill(simulation: Simulation, replicas: int, *lost: int) -> None:
    """Let replicas of 2 hosts have their pods, and then lose some of these."""
    for number in range(2 * replicas):
        identity, holder = simulation.reserve(f"r{number}", 2)
        simulation.show(f"pod-{number}", identity, holder)
    for number in lost:
        simulation.members.remove(f"pod-{number}")


def test_a_lost_host_is_replaced_before_the_index_scaled_away(simulation: Simulation) -> None:
    _fill(simulation, 20, 2 * 3, 2 * 3 + 1, 2 * 17 + 1)
    assert simulation.place("new", 2) == (17, 1)
    assert simulation.place("newer", 2) == (3, 0)


def test_a_pending_entry_hides_no_replica_of_another_block(simulation: Simulation) -> None:
    _fill(simulation, 36, 2 * 3, 2 * 3 + 1, 2 * 17 + 1, 2 * 33)
    places = [simulation.place(f"new-{number}", 2) for number in range(3)]
    assert places == [(17, 1), (33, 0), (3, 0)]


@pytest.mark.parametrize(("lost", "desired"), [(7, 4), (6, 3)])
def test_a_replica_that_lost_a_host_is_filled_after_a_live_list(
    simulation: Simulation, lost: int, desired: int
) -> None:
    _fill(simulation, 4, lost)
    request = Request("ray", KEY, 2, desired, "new")
    found = at_once(simulation.identities.reserve(request, lambda *found: found))
    assert found == ReadGroup("ray", KEY)


@pytest.mark.parametrize(("index", "read"), [(1, False), (BLOCK, True)])
def test_a_last_replica_needs_a_live_list(simulation: Simulation, index: int, read: bool) -> None:
    for host in range(2):
        simulation.show(f"pod-{host}", HostIdentity(index, host, "g-x"))
    request = Request("ray", KEY, 2, 2, "new")
    found = at_once(simulation.identities.reserve(request, lambda *found: found))
    assert isinstance(found, ReadGroup) is read


def test_an_entry_without_a_pod_is_not_filled_beyond_replicas(simulation: Simulation) -> None:
    _fill(simulation, 3)
    identity, _ = simulation.reserve("refused", 2)
    assert identity.replica == 3
    with pytest.raises(Denied, match="1 of them for pods"):
        simulation.reserve("new", 2, desired=3)


def test_a_table_that_was_deleted_by_hand_is_written_again_with_what_is_known() -> None:
    simulation, api = Simulation(), Direct()
    simulation.identities = Lists().identities(simulation.members, lease_store(api))
    assert simulation.place("a") == (0, 0)
    api.server.leases.clear()
    assert simulation.place("b") == (1, 0)
    assert api.entries("g").keys() == {(0, 0), (1, 0)}


def test_without_answers_a_review_ends_in_time_for_a_second_one(simulation: Simulation) -> None:
    async def wait(carry_out: object, seconds: float) -> bytes:
        del carry_out
        simulation.lists.time += seconds
        waits.append(seconds)
        raise ApiError("timeout", "no answer")

    api, waits = Direct(), list[float]()
    api.ask = wait  # type: ignore[method-assign]
    simulation.identities = simulation.lists.identities(simulation.members, lease_store(api))
    with pytest.raises(NotNow, match="did not answer in time"):
        asyncio.run(simulation.reserve_later("a"))
    assert len(waits) == 2  # a write and a read
    assert sum(waits) <= 5  # half of the time of the API server


def test_the_time_of_the_api_server_never_goes_back_and_is_unknown_at_first() -> None:
    clock = [100.0]
    time = ServerTime(lambda: clock[0])
    assert time.now() == float("-inf")
    time.observe("Tue, 24 Nov 2026 10:00:00 GMT")
    first = time.now()
    clock[0] += 10
    assert time.now() == first + 10
    time.observe("Tue, 24 Nov 2026 10:00:05 GMT")
    assert time.now() == first + 10, "a response that was read late"
    time.observe("Tue, 24 Nov 2026 10:01:00 GMT")
    assert time.now() == first + 60, "the clock of this machine stood still"
    time.observe("no date")
    time.observe("")
    assert time.now() == first + 60


def test_a_repeated_review_after_more_hosts_writes_its_name(simulation: Simulation) -> None:
    assert simulation.reserve("a", 1)[0].name == ""
    identity, _ = simulation.reserve("a", 2)
    assert (identity.replica, identity.host) == (0, 0)
    assert simulation.table()[0].name == identity.name != ""
    assert simulation.reserve("b", 2)[0] == HostIdentity(0, 1, identity.name)


def test_an_entry_of_a_lost_write_by_a_paused_machine_is_rewritten(simulation: Simulation) -> None:
    def stand_still(number: int) -> None:
        if number == 1:
            simulation.lists.stopped += VACANT_SECONDS

    simulation.store.while_writing = stand_still
    simulation.store.after = {1: UnknownOutcome("the response was lost")}
    asyncio.run(simulation.reserve_later("a"))
    assert simulation.table()[0].made == simulation.lists.time + simulation.lists.stopped


def test_a_review_cancelled_in_its_write_leaves_no_copy(simulation: Simulation) -> None:
    simulation.reserve("a")
    simulation.store.after = {2: asyncio.CancelledError()}
    with pytest.raises(asyncio.CancelledError):
        simulation.reserve("b")
    assert [simulation.place("b"), simulation.place("c")] == [(1, 0), (2, 0)]
    assert [*simulation.table()] == [0, 1, 2]


def test_a_raycluster_that_was_created_again_has_tables_of_its_own(simulation: Simulation) -> None:
    assert simulation.place("a") == (0, 0)
    again, _ = simulation.reserve("b", key=GroupKey("ns", "uid-2", "g"))
    assert again == HostIdentity(0, 0, "")
    assert simulation.place("c") == (1, 0)


def test_a_full_block_is_left_for_the_next_one(simulation: Simulation) -> None:
    places = [simulation.place(f"a{number}") for number in range(2 * BLOCK + 1)]
    assert places == [(index, 0) for index in range(2 * BLOCK + 1)]
    assert at_once(simulation.store.get(TableKey(KEY, 2))) is not None


def test_a_request_of_two_blocks_names_replicas_differently(simulation: Simulation) -> None:
    first, _ = simulation.reserve("a", 2)
    another = Simulation()
    another.store = simulation.store
    another.identities = another.lists.identities(another.members, another.store)
    for index in range(BLOCK):
        for host in range(2):
            another.show(f"pod-{index}-{host}", HostIdentity(index, host, f"other-{index}"))
    second, _ = another.reserve("a", 2)
    assert (first.replica, second.replica) == (0, BLOCK)
    assert first.name != second.name


def test_a_list_is_as_old_as_its_request_however_late_it_is_answered() -> None:
    clock = [100.0]
    time = ServerTime(lambda: clock[0])
    time.observe("Tue, 24 Nov 2026 10:00:00 GMT")
    begun = time.now()

    class Slow:
        server_time, timeout = time, staticmethod(asyncio.timeout)

        async def get(self, *_: object, **__: object) -> bytes:
            clock[0] += 2
            return b'{"metadata": {"resourceVersion": "7"}, "items": []}'

    stores = {"": Stores(PodStore(Membership()), RayClusterStore(ClusterIndex()))}
    lists = LiveReader(cast("Api", Slow()), stores)
    asyncio.run(lists.relist(KEY, "ray"))
    assert (lists.listed(KEY), lists.contact(KEY), time.now()) == (begun, begun, begun + 2)


def test_a_group_that_many_others_follow_is_read_again(simulation: Simulation) -> None:
    assert simulation.place("a") == (0, 0)
    for number in range(1100):
        simulation.reserve("a", key=GroupKey("ns", "uid", f"g{number}"))
    reads = simulation.store.reads
    assert (simulation.place("b"), simulation.store.reads) == ((1, 0), reads + 1)


def test_a_group_whose_indices_are_all_taken_gets_no_more_pods() -> None:
    members = Membership()
    for index in range(MAX_REPLICAS - 1):
        members.put(f"pod-{index}", Member(KEY, HostIdentity(index, 0, "")))
    assert next_identity(members, KEY, 1, "last").replica == MAX_REPLICAS - 1
    members.put("last", Member(KEY, HostIdentity(MAX_REPLICAS - 1, 0, "")))
    with pytest.raises(Denied, match="all 65536 replica indices of group g are taken"):
        next_identity(members, KEY, 1, "one too many")


REVIEWS = 320


def calls_of_reviews(kind: Body) -> int:
    """Return the calls of reviews, standalone, after as many others."""
    mutation, profile = Mutation(Webhook(CLUSTER).handler), Profile()

    async def review(*, counted: bool) -> None:
        for body in islice(bodies, REVIEWS):
            if counted:
                profile.enable()
            outcome = await mutation.review(body)
            profile.disable()
            assert outcome.answer.patch

    bodies = review_bodies(kind)
    asyncio.run(review(counted=False))
    asyncio.run(review(counted=True))
    return sum(entry.callcount for entry in profile.getstats())


def test_a_pod_without_an_identity_costs_few_calls_more_than_one_that_carries_it() -> None:
    assert calls_of_reviews(Body.FRESH) < 2.5 * calls_of_reviews(Body.LABELLED)
