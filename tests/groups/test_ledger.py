"""What a process knows of a page of claims, and what the next page says."""

from unittest.mock import patch

from webhook.groups import ledger
from webhook.groups.claims import ASSUMED_SECONDS
from webhook.groups.ledger import Account, Claim, Key, Ledger, Page, Value
from webhook.groups.membership import Membership
from webhook.groups.seat import GroupKey, Seat
from webhook.groups.seating import next_seat
from webhook.groups.shards import ShardIndex, ShardKey

KEY = GroupKey("ns", "uid", "tpu")
SHARD = ShardKey("ns", "search")
FIRST, SECOND = Seat(0, 0, "tpu-a"), Seat(0, 1, "tpu-a")


class Table:
    """Who is held, and what is there."""

    def __init__(self) -> None:
        self.held: list[tuple[Key, Value]] = []
        self.there: dict[Value, int] = {}

    def hold(self, key: Key, value: Value) -> None:
        """Hold."""
        self.held.append((key, value))

    def free(self, key: Key, value: Value) -> None:
        """Free."""
        self.held.remove((key, value))

    def seen(self, key: Key, value: Value) -> int:
        """Look."""
        del key
        return self.there.get(value, 0)


def page(floor: int = 0, key: Key = KEY, **claims: Claim) -> Page:
    """Return a page with one group."""
    return Page({key: Account(floor, claims)}, settled=True)


def knowing(known: Page) -> tuple[Ledger, Table]:
    """Return a ledger that has taken in a page at version 1."""
    table = Table()
    book = Ledger(table)
    book.take(known, 1, 0.0)
    return book, table


def test_a_claim_holds_its_seat_until_a_newer_pod_is_seen_in_it() -> None:
    book, table = knowing(page(a=Claim(FIRST, 10)))
    assert table.held == [(KEY, FIRST)]
    book.saw(KEY, FIRST, 10)
    book.saw(KEY, SECOND, 11)
    assert table.held == [(KEY, FIRST)], "an older pod, and one in another seat"
    book.saw(KEY, FIRST, 11)
    assert table.held == []
    assert book.draft(0.0).page().accounts == {KEY: Account(11, {})}


def test_a_pod_that_was_seen_before_its_claim_confirms_it() -> None:
    table = Table()
    table.there[FIRST] = 12
    book = Ledger(table)
    book.take(page(a=Claim(FIRST, 10)), 1, 0.0)
    assert table.held == []
    assert book.foldable


def test_a_claim_that_left_the_page_holds_nothing() -> None:
    book, table = knowing(page(a=Claim(FIRST, 10), b=Claim(SECOND, 10)))
    book.take(page(20, b=Claim(SECOND, 10)), 2, 1.0)
    assert table.held == [(KEY, SECOND)]


def test_an_older_page_is_not_taken_in() -> None:
    book, _ = knowing(page(a=Claim(FIRST, 10)))
    book.take(page(), 1, 1.0)
    assert book.unseen == 1
    book.forget()
    book.take(page(), 1, 1.0)
    assert book.unseen == 0


def test_a_claim_is_given_up_only_after_its_time_and_a_list_that_began_later() -> None:
    book, table = knowing(page(7, a=Claim(FIRST, 10)))
    assert book.overdue(ASSUMED_SECONDS - 1) == []
    assert book.overdue(ASSUMED_SECONDS) == [KEY]
    book.give_up(KEY, ASSUMED_SECONDS - 1)
    assert table.held == [(KEY, FIRST)]
    book.give_up(KEY, ASSUMED_SECONDS)
    assert table.held == []
    assert book.draft(0.0).page().accounts == {KEY: Account(7, {})}, (
        "no pod came, so nobody has to know one"
    )


def test_a_claim_is_as_old_as_any_process_has_known_it_to_be() -> None:
    book, _ = knowing(page(7, a=Claim(FIRST, 10)))
    assert not book.aged(4.9)
    assert book.draft(4.9).page().ages == {}
    assert book.aged(12.0)
    after = book.draft(12.0).page()
    assert after.ages == {"a": 12}
    started = Ledger(Table())
    started.take(after, 2, 1000.0)
    assert started.overdue(1047.9) == []
    assert started.overdue(1048.0) == [KEY]
    assert not started.aged(1004.9)
    assert started.draft(1005.0).page().ages == {"a": 17}


def test_a_page_that_was_written_by_who_knew_a_claim_for_less_makes_it_no_younger() -> None:
    book, _ = knowing(page(7, a=Claim(FIRST, 10)))
    for version, seconds in ((2, 30.0), (3, 31.0)):
        book.take(Page(page(7, a=Claim(FIRST, 10)).accounts, ages={"a": 10}), version, seconds)
    assert book.overdue(59.9) == []
    assert book.overdue(60.0) == [KEY]


def test_a_shard_index_is_confirmed_by_whoever_has_it_as_its_name_may_be_generated_later() -> None:
    book, table = knowing(page(key=SHARD, a=Claim(ShardIndex(3, ""), 10)))
    book.saw(SHARD, ShardIndex(4, "x"), 11)
    assert len(table.held) == 1
    book.saw(SHARD, ShardIndex(3, "x-7bq2d"), 11)
    assert table.held == []


def test_a_group_has_so_many_claims_at_most() -> None:
    claims = {
        str(number): Claim(Seat(number, 0, ""), 0) for number in range(ledger.GROUP_CLAIMS_MAX)
    }
    book, _ = knowing(Page({KEY: Account(0, claims)}, settled=True))
    assert book.draft(0.0).full(KEY)
    assert not book.draft(0.0).full(SHARD)
    fewer = {ident: claim for ident, claim in claims.items() if ident != "0"}
    assert not knowing(Page({KEY: Account(0, fewer)}, settled=True))[0].draft(0.0).full(KEY)


def test_too_many_groups_lose_the_floors_of_those_without_claims_and_the_page_says_so() -> None:
    known = Page(
        {KEY: Account(5, {}), SHARD: Account(6, {"a": Claim(ShardIndex(0, "x"), 1)})}, settled=True
    )
    book, _ = knowing(known)
    with patch.object(ledger, "FLOORS_MAX", 1):
        after = book.draft(0.0).page()
    assert (list(after.accounts), after.dropped) == ([SHARD], 1)


def test_a_replica_that_another_process_began_anew_has_the_name_that_was_claimed() -> None:
    members = Membership()
    members.put("gone, but nobody has said so here", KEY, Seat(0, 1, "tpu-old"))
    members.hold(KEY, Seat(0, 0, "tpu-new"))
    assert next_seat(members, KEY, 4, "request") == Seat(0, 2, "tpu-new")
