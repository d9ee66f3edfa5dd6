"""No identity is assigned in a replica with a host that is marked for deletion."""

from tests.reservation.alone import next_seat
from webhook.groups.identity import GroupKey, HostIdentity
from webhook.groups.identity_index import Member, Membership

KEY = GroupKey("ns", "uid", "g")


def members(*hosts: int, marked: bool) -> Membership:
    """Return a group of three hosts a replica, some of whose hosts are there."""
    found = Membership()
    for host in hosts:
        found.put(f"pod-{host}", Member(KEY, HostIdentity(0, host, "g-abcde"), marked=marked))
    return found


def test_a_replica_with_a_condemned_host_gets_no_other_until_that_is_gone() -> None:
    found = members(0, 1, marked=True)
    assert next_seat(found, KEY, 3, "uid").replica == 1
    found.remove("pod-0")
    assert next_seat(found, KEY, 3, "uid").replica == 1
    found.remove("pod-1")
    assert next_seat(found, KEY, 3, "uid").replica == 0


def test_a_host_is_condemned_after_it_was_seen() -> None:
    found = members(0, 1, marked=False)
    assert next_seat(found, KEY, 3, "uid") == HostIdentity(0, 2, "g-abcde")
    found.put("pod-1", Member(KEY, HostIdentity(0, 1, "g-abcde"), marked=True))
    assert next_seat(found, KEY, 3, "uid").replica == 1
    found.put("pod-1", Member(KEY, HostIdentity(0, 1, "g-abcde")))
    assert next_seat(found, KEY, 3, "uid") == HostIdentity(0, 2, "g-abcde")
