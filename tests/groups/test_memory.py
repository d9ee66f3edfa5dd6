"""Seats without a watch: one request is one pod, however often it is asked."""

from webhook.groups.membership import Membership
from webhook.groups.memory import SeatRegister, at_once
from webhook.groups.seat import GroupKey, Seat
from webhook.groups.seating import Wanted

KEY = GroupKey("default", "uid", "g")


def claimed(register: SeatRegister, request_uid: str, hosts: int = 2) -> Seat:
    """Return the seat that a request claims."""
    return at_once(register.claim(Wanted("c", KEY, hosts, 9, request_uid), lambda seat: seat, 0.0))


def test_a_request_that_is_asked_twice_gets_its_seat_again_and_none_is_lost() -> None:
    members = Membership()
    register = SeatRegister(members)
    first = claimed(register, "one")
    assert [claimed(register, "one") for _ in range(3)] == [first] * 3
    other = claimed(register, "other")
    assert (other.replica, other.host, other.name) == (0, 1, first.name)
    register.deleted(KEY, first)
    register.deleted(KEY, other)
    assert (len(members), members.groups) == (0, 0)
