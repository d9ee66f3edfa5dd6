"""Reservations of one group, step by step: conflicts, unknown outcomes, clocks and bounds."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.reservation.alone import Lists
from tests.reservation.leases import Direct, lease_store
from webhook.api.review import Denied, NotNow
from webhook.cache.live import Feeds, LiveReader
from webhook.cache.serve_stores import PodFeed, RayClusterFeed
from webhook.groups.group_config import ClusterIndex
from webhook.groups.identity import MAX_REPLICAS, GroupKey, HostIdentity
from webhook.groups.identity_index import Member, Membership
from webhook.kubeclient.client import Api, ServerTime
from webhook.reservation.allocation import (
    BLOCK,
    RENEW_SECONDS,
    VACANT_SECONDS,
    Request,
    Table,
)
from webhook.reservation.identities import Identities
from webhook.reservation.reservations import TRY_SECONDS, UNSEEN_MAX
from webhook.reservation.stores import (
    Conflict,
    MemoryStore,
    Stored,
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
        self.before: dict[int, Exception] = {}
        self.after: dict[int, Exception] = {}
        self.while_writing: Callable[[int], None] = lambda _: None

    async def get(self, key: TableKey) -> Stored | None:
        """Return a table."""
        self.reads += 1
        return await super().get(key)

    async def write(
        self, key: TableKey, table: Table, cluster: str, known: Stored | None = None
    ) -> Stored:
        """Replace or create a table."""
        return await self._disturbed(
            lambda: super(Scripted, self).write(key, table, cluster, known)
        )

    async def _disturbed(self, write: Any) -> Stored:  # noqa: ANN401
        self.writes += 1
        number = self.writes
        self.while_writing(number)
        if number in self.before:
            raise self.before[number]
        stored: Stored = await write()
        if number in self.after:
            raise self.after[number]
        return stored


class World:
    """One process, its pods, its clock and its store."""

    def __init__(self) -> None:
        self.lists = Lists()
        self.members = Membership()
        self.store = Scripted()
        self.identities: Identities = self.lists.identities(self.members, self.store)

    def reserve(
        self, uid: str, hosts: int = 1, *, given: HostIdentity | None = None, key: GroupKey = KEY
    ) -> tuple[HostIdentity, str]:
        """Return the identity and the holder that a request gets."""
        wanted = Request("ray", key, hosts, MAX_REPLICAS, uid, given=given, pod="new")
        found = at_once(self.identities.reserve(wanted, lambda *found: found))
        assert isinstance(found, tuple)
        return found

    def place(self, uid: str, hosts: int = 1, given: HostIdentity | None = None) -> tuple[int, int]:
        """Return replica and host of the identity that a request gets."""
        seat, _ = self.reserve(uid, hosts, given=given)
        return seat.replica, seat.host

    def table(self) -> Table:
        """Return the first table of the group."""
        stored = at_once(self.store.get(TableKey(KEY, 0)))
        assert stored is not None
        return stored.table

    def show(self, uid: str, seat: HostIdentity, holder: str = "") -> None:
        """Let a pod be observed."""
        self.members.put(uid, Member(KEY, seat, holder))


@pytest.fixture(name="world")
def _world() -> World:
    return World()


def test_an_entry_stays_while_its_pod_lives_and_goes_with_it(world: World) -> None:
    seat, holder = world.reserve("a")
    world.show("pod-a", seat, holder)
    world.lists.now += 10 * VACANT_SECONDS
    assert world.place("b") == (1, 0)
    world.members.remove("pod-a")
    assert world.place("c") == (0, 0)


def test_an_entry_without_a_pod_goes_only_after_a_list_that_began_a_minute_later(
    world: World,
) -> None:
    assert world.place("a") == (0, 0)
    world.lists.now += VACANT_SECONDS - 0.1
    assert (world.place("b"), world.lists.reads) == ((1, 0), [])
    world.lists.now += 0.2
    assert (world.place("c"), world.lists.reads) == ((0, 0), [KEY])


def test_a_pod_that_the_list_shows_keeps_its_entry(world: World) -> None:
    seat, holder = world.reserve("a")
    world.lists.finds = lambda: world.show("pod-a", seat, holder)
    world.lists.now += VACANT_SECONDS
    assert world.place("b") == (1, 0)


def test_a_pod_keeps_its_entry_when_its_labels_were_edited(world: World) -> None:
    _, holder = world.reserve("a")
    world.members.put("pod-a", Member(KEY, None, holder))
    world.lists.now += 2 * VACANT_SECONDS
    assert world.place("b") == (1, 0)


def test_a_copy_of_a_pod_keeps_the_entry_when_the_pod_is_gone(world: World) -> None:
    seat, holder = world.reserve("a")
    world.show("pod-a", seat, holder)
    world.show("copy", HostIdentity(7, 0, ""), holder)
    world.members.remove("pod-a")
    assert world.place("b") == (1, 0)


def test_a_silent_watch_is_not_believed(world: World) -> None:
    world.lists.silent_since = world.lists.now - 6
    world.lists.finds = lambda: world.show("pod", HostIdentity(0, 0, ""))
    assert (world.place("a"), world.lists.reads) == ((1, 0), [KEY])


def test_before_the_first_response_nothing_is_decided(world: World) -> None:
    world.lists.stopped = float("-inf")

    def answer() -> None:
        world.lists.stopped = 0.0

    world.lists.finds = answer
    assert world.place("a") == (0, 0)
    assert world.table()[0].made == 1000.0


def test_a_retried_review_gets_its_identity_again_and_an_old_entry_is_written_again(
    world: World,
) -> None:
    first = world.reserve("a")
    assert (world.reserve("a"), world.store.writes) == (first, 1)
    world.lists.now += RENEW_SECONDS + 1
    assert (world.reserve("a"), world.store.writes) == (first, 2)
    assert world.table()[0].made == world.lists.now


def test_a_retried_review_whose_place_another_pod_has_is_refused_and_its_entry_stays(
    world: World,
) -> None:
    world.reserve("a")
    world.show("other", HostIdentity(0, 0, ""))
    with pytest.raises(NotNow):
        world.reserve("a")
    assert world.table()[0].hosts


@pytest.mark.parametrize("written", [True, False])
def test_a_write_of_unknown_outcome_is_read_and_then_answered_or_repeated(
    world: World, *, written: bool
) -> None:
    lost = {1: UnknownOutcome("the response was lost")}
    if written:
        world.store.after = dict(lost)
    else:
        world.store.before = dict(lost)
    waited = asyncio.run(_with_sleep(world, "a"))
    assert (waited[0].replica, waited[0].host) == (0, 0)
    assert world.store.writes == 1 + (not written)
    assert len(world.table()) == 1


async def _with_sleep(world: World, uid: str) -> tuple[HostIdentity, str]:
    wanted = Request("ray", KEY, 1, MAX_REPLICAS, uid)
    found = await world.identities.reserve(wanted, lambda *found: found)
    assert isinstance(found, tuple)
    return found


def test_a_right_that_is_missing_refuses_at_once_and_names_it(world: World) -> None:
    world.store.before = {1: NotNow("403: may not create leases")}
    with pytest.raises(NotNow, match="may not create leases"):
        world.reserve("a")


def test_writes_that_always_conflict_end_with_the_deadline(world: World) -> None:
    def later(_: int) -> None:
        world.lists.now += 1

    world.store.while_writing = later
    world.store.before = {number: Conflict() for number in range(1, 99)}
    with pytest.raises(NotNow, match="in time"):
        world.reserve("a")
    assert world.store.writes <= TRY_SECONDS + 1


def test_an_entry_that_took_long_to_write_is_written_again_before_it_is_returned(
    world: World,
) -> None:
    def stand_still(number: int) -> None:
        if number == 1:
            world.lists.stopped += RENEW_SECONDS + 1

    world.store.while_writing = stand_still
    assert world.place("a") == (0, 0)
    assert world.store.writes == 2
    assert world.table()[0].made == world.lists.now + world.lists.stopped


def test_hosts_of_one_replica_have_one_name_whatever_numofhosts_was(world: World) -> None:
    seat, holder = world.reserve("a", 1)
    world.show("pod-a", seat, holder)
    grown = [world.reserve(f"b{number}", 4)[0] for number in range(3)]
    assert [(seat.replica, seat.host) for seat in grown] == [(0, 1), (0, 2), (0, 3)]
    assert len({seat.name for seat in grown}) == 1
    assert grown[0].name
    shrunk, _ = world.reserve("c", 1)
    assert (shrunk.replica, shrunk.host, shrunk.name) == (1, 0, "")
    again, _ = world.reserve("d", 5)
    assert (again.replica, again.host, again.name) == (0, 4, grown[0].name)


def test_a_replica_of_live_pods_keeps_the_first_name_that_any_of_them_has(world: World) -> None:
    world.show("old", HostIdentity(0, 0, ""))
    world.show("new", HostIdentity(0, 1, "g-abcde"))
    assert world.reserve("a", 3)[0] == HostIdentity(0, 2, "g-abcde")


def test_an_adopted_identity_is_reserved_once(world: World) -> None:
    given = HostIdentity(3, 1, "g-3")
    seat, holder = world.reserve("a", 2, given=given)
    assert seat == given
    assert world.table()[3].hosts == {1: holder}
    with pytest.raises(Denied, match="a pod that has not appeared"):
        world.reserve("b", 2, given=given)
    world.show("pod-a", seat, holder)
    with pytest.raises(Denied, match=r"pod new .* the pod with the uid pod-a has it"):
        world.reserve("c", 2, given=given)
    world.members.remove("pod-a")
    assert world.place("d", 2, given) == (3, 1)


def test_of_too_many_pods_that_do_not_appear_the_next_is_denied_in_its_group_alone(
    world: World,
) -> None:
    for number in range(UNSEEN_MAX):
        world.reserve(f"a{number}")
        world.lists.now += 0.1
    with pytest.raises(Denied, match=rf"{UNSEEN_MAX} pods of group g in namespace ns"):
        world.reserve("b")
    assert world.reserve("c", key=GroupKey("ns", "uid", "other"))[0] == HostIdentity(0, 0, "")
    world.lists.now += VACANT_SECONDS
    assert world.place("d") == (0, 0)


def test_an_entry_whose_pod_is_gone_keeps_no_replica_from_being_opened(world: World) -> None:
    (first, holder), (second, other) = (world.reserve(uid, 2) for uid in ("r0", "r1"))
    world.show("pod-1", second, other)
    world.members.put("pod-0", Member(KEY, first, holder, marked=True))  # no host beside it
    world.members.remove("pod-1")
    wanted = Request("ray", KEY, 2, 1, "r2", read=True, pod="new")  # one replica is desired
    found = at_once(world.identities.reserve(wanted, lambda *found: found))
    assert isinstance(found, tuple)
    assert (found[0].replica, found[0].host) == (1, 0)


def test_a_table_that_was_deleted_by_hand_is_written_again_with_what_is_known() -> None:
    lists, api, members = Lists(), Direct(), Membership()
    identities = lists.identities(members, lease_store(api))

    def reserve(uid: str) -> tuple[int, int]:
        wanted = Request("ray", KEY, 1, MAX_REPLICAS, uid)
        seat = at_once(identities.reserve(wanted, lambda seat, _: seat))
        assert isinstance(seat, HostIdentity)
        return seat.replica, seat.host

    assert reserve("a") == (0, 0)
    api.server.leases.clear()
    assert reserve("b") == (1, 0)
    assert api.entries("g").keys() == {(0, 0), (1, 0)}


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


def test_a_repeated_review_after_numofhosts_grew_writes_the_name_that_it_returns(
    world: World,
) -> None:
    assert world.reserve("a", 1)[0].name == ""
    seat, _ = world.reserve("a", 2)
    assert (seat.replica, seat.host) == (0, 0)
    assert world.table()[0].name == seat.name != ""
    assert world.reserve("b", 2)[0] == HostIdentity(0, 1, seat.name)


def test_an_entry_of_a_lost_write_by_a_machine_that_stood_still_is_written_again(
    world: World,
) -> None:
    def stand_still(number: int) -> None:
        if number == 1:
            world.lists.stopped += VACANT_SECONDS

    world.store.while_writing = stand_still
    world.store.after = {1: UnknownOutcome("the response was lost")}
    asyncio.run(_with_sleep(world, "a"))
    assert world.table()[0].made == world.lists.now + world.lists.stopped


def test_a_review_that_is_cancelled_while_it_writes_leaves_no_copy_and_the_next_one_reads(
    world: World,
) -> None:
    world.reserve("a")
    world.store.after = {2: asyncio.CancelledError()}  # type: ignore[dict-item]
    with pytest.raises(asyncio.CancelledError):
        world.reserve("b")
    assert [world.place("b"), world.place("c")] == [(1, 0), (2, 0)]
    assert [*world.table()] == [0, 1, 2]


def test_a_dry_run_writes_nothing(world: World) -> None:
    wanted = Request("ray", KEY, 1, MAX_REPLICAS, "a")
    assert world.identities.preview(wanted, lambda seat, _: seat) == HostIdentity(0, 0, "")
    assert world.store.writes == 0


def test_a_raycluster_that_was_created_again_has_tables_of_its_own(world: World) -> None:
    assert world.place("a") == (0, 0)
    again, _ = world.reserve("b", key=GroupKey("ns", "uid-2", "g"))
    assert again == HostIdentity(0, 0, "")
    assert world.place("c") == (1, 0)


def test_a_full_block_is_left_for_the_next_one(world: World) -> None:
    places = [world.place(f"a{number}") for number in range(2 * BLOCK + 1)]
    assert places == [(index, 0) for index in range(2 * BLOCK + 1)]
    assert at_once(world.store.get(TableKey(KEY, 2))) is not None


def test_a_request_that_gets_places_of_two_blocks_names_their_replicas_differently(
    world: World,
) -> None:
    first, _ = world.reserve("a", 2)
    another = World()
    another.store = world.store
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
        server_time = time

        async def get(self, *_: object) -> bytes:
            clock[0] += 2
            return b'{"metadata": {"resourceVersion": "7"}, "items": []}'

    feeds = {"": Feeds(PodFeed(Membership()), RayClusterFeed(ClusterIndex()))}
    lists = LiveReader(cast("Api", Slow()), feeds)
    asyncio.run(lists.relist(KEY, "ray"))
    assert (lists.listed(KEY), lists.contact(KEY), time.now()) == (begun, begun, begun + 2)


def test_a_group_that_many_others_follow_is_read_again(world: World) -> None:
    assert world.place("a") == (0, 0)
    for number in range(1100):
        world.reserve("a", key=GroupKey("ns", "uid", f"g{number}"))
    reads = world.store.reads
    assert (world.place("b"), world.store.reads) == ((1, 0), reads + 1)
