"""Worker groups of four hosts, as looks show them."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from webhook.groups.seat import Seat
from webhook.repair.model import Group, Head, Host, seal_of
from webhook.repair.plan import Limits, Memory, Plan, plan

N = 4
"""Hosts of a replica."""
HEAD = Head("head", "1")
DATE = 1_800_000_000.0
"""Seconds since the epoch when the clock shows none."""


def a_replica(name: str, index: int = 0) -> list[Host]:
    """Return the pods of a replica that runs."""
    return [
        Host(f"{name}-{n}", f"uid-{name}-{n}", "1", Seat(index, n, name), ours=True, runs=True)
        for n in range(N)
    ]


def sealed(pods: Sequence[Host]) -> list[Host]:
    """Return pods with the seal that they have together."""
    return [replace(host, sealed=seal_of(pods, host)) for host in pods]


def a_group(pods: Sequence[Host], **fields: Any) -> Group:  # noqa: ANN401 - those of Group
    """Return a group that asks for repair."""
    known = {"version": "1", "hosts": N, "desired": 1, "repair": True, "name": "g", "head": HEAD}
    return Group(**{**known, **fields}, pods=(*pods,))


def look(group: Group, memory: Memory, limits: Limits, now: float) -> Plan:
    """Return the plan of one look, with a date that moves as the clock does."""
    return plan(group, memory, limits, now, DATE + now)


def looks(group: Group, times: Sequence[float] = (0.0,)) -> Plan:
    """Return the last plan of several looks at the same."""
    memory = Memory()
    found = [look(group, memory, Limits(), now) for now in times]
    return found[-1]
