"""Seating: what a seat costs with 10, 1,000 and 100,000 members."""

import sys
from time import perf_counter

from webhook.groups.membership import Membership
from webhook.groups.seat import GroupKey, Seat
from webhook.groups.seating import next_seat

TURNS = 20_000
BATCHES = 9


def main() -> None:
    """Measure and print, for members in one group and spread over groups."""
    sys.stdout.write(
        "\nseating: next seat, assume, confirm, remove; microseconds (best of batches)\n"
    )
    sys.stdout.write(
        f"  {'members':>8} {'one single-host group':>22} {'one 4-host group':>18} "
        f"{'groups of 4 x 4 hosts':>23}\n"
    )
    for members in (10, 1_000, 100_000):
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
        state.put(f"pod-{number}", key, next_seat(state, key, hosts, f"request-{number}"))
    return min(_batch(state, keys[-1], hosts) for _ in range(BATCHES))


def _batch(state: Membership, key: GroupKey, hosts: int) -> float:
    turns = TURNS // BATCHES
    started = perf_counter()
    for turn in range(turns):
        state.expire(0.0)
        seat: Seat = next_seat(state, key, hosts, "request")
        state.assume(key, seat, 0.0)
        state.put(f"new-{turn}", key, seat)
        state.remove(f"new-{turn}")
    return (perf_counter() - started) / turns * 1e6
