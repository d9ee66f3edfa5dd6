"""Cost of an identity with 10, 1,000 and 100,000 pods, reserved in memory."""

import sys
from time import perf_counter

from webhook.groups.identity import MAX_REPLICAS, GroupKey, HostIdentity
from webhook.groups.identity_index import Member, Membership
from webhook.reservation.allocation import Request
from webhook.reservation.identities import StandaloneIdentities
from webhook.reservation.stores import at_once

TURNS = 20_000
BATCHES = 9


def main() -> None:
    """Measure and print, for members in one group and spread over groups."""
    sys.stdout.write("\nidentities: reserve, observe, delete; microseconds (best of batches)\n")
    sys.stdout.write(
        f"  {'members':>8} {'one single-host group':>22} {'one 4-host group':>18} "
        f"{'groups of 4 x 4 hosts':>23}\n"
    )
    for members in (10, 1_000, 60_000):
        figures = [_cost(members, 1, members), _cost(members, 4, members), _cost(members, 4, 16)]
        sys.stdout.write(
            f"  {members:>8} {figures[0]:>22.2f} {figures[1]:>18.2f} {figures[2]:>23.2f}\n"
        )


def _cost(members: int, hosts: int, group_size: int) -> float:
    """Return microseconds for one pod to come and go in the last group."""
    state = Membership()
    keys = [GroupKey("default", f"uid-{i}", "group") for i in range(max(1, members // group_size))]
    for number in range(members):
        key = keys[number % len(keys)]
        place, host = divmod(number // len(keys), hosts)
        state.put(
            f"pod-{number}", Member(key, HostIdentity(place, host, "g-x" if hosts > 1 else ""))
        )
    return min(_batch(state, keys[-1], hosts) for _ in range(BATCHES))


def _batch(state: Membership, key: GroupKey, hosts: int) -> float:
    turns = TURNS // BATCHES
    identities = StandaloneIdentities(state)
    started = perf_counter()
    for turn in range(turns):
        wanted = Request("c", key, hosts, MAX_REPLICAS, f"new-{turn}")
        identity = at_once(identities.reserve(wanted, lambda identity, _: identity))
        assert isinstance(identity, HostIdentity)
        identities.deleted(key, identity)
    return (perf_counter() - started) / turns * 1e6
