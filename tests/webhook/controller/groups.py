"""Worker groups of 4 hosts, with their records, over several reconciliations."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from webhook.controller.repair.plan import (
    EMPTY,
    Memory,
    Plan,
    Record,
    RepairGroup,
    RepairHost,
    RepairLimits,
    plan,
)
from webhook.groups.identity import HostIdentity

N = 4
"""Hosts of a replica."""
DATE = 1_800_000_000.0
"""Seconds since the epoch at time 0 of the clock."""


def a_replica(name: str, index: int = 0) -> list[RepairHost]:
    """Return the pods of a replica that runs."""
    return [
        RepairHost(
            f"{name}-{n}",
            f"uid-{name}-{n}",
            "1",
            HostIdentity(index, n, name),
            ours=True,
            runs=True,
        )
        for n in range(N)
    ]


def recorded(*replicas: Sequence[RepairHost], **fields: Any) -> Record:  # noqa: ANN401 - those of Record
    """Return the record of replicas that were complete with these pods."""
    whole = {pods[0].identity.name: {host.id: host.restarts for host in pods} for pods in replicas}
    return Record(whole=whole, **fields)


def a_group(pods: Sequence[RepairHost], **fields: Any) -> RepairGroup:  # noqa: ANN401 - those of Group
    """Return a group that asks for repair."""
    known = {"version": "1", "hosts": N, "desired": 1, "repair": True, "head": True}
    return RepairGroup(**{**known, **fields}, pods=(*pods,))


def look(
    group: RepairGroup, record: Record, memory: Memory, limits: RepairLimits, now: float
) -> Plan:
    """Return the plan of one look, with a date that moves as the clock does."""
    return plan(group, record, memory, limits, now, DATE + now)


def rechecks(group: RepairGroup, record: Record = EMPTY, times: Sequence[float] = (0.0,)) -> Plan:
    """Return the last plan of several looks at the same."""
    memory = Memory()
    found = [look(group, record, memory, RepairLimits(), now) for now in times]
    return found[-1]


def recreated(pods: Sequence[RepairHost]) -> list[RepairHost]:
    return [
        replace(host, name=f"{host.name}-x", uid=f"{host.uid}-x", marked=False) for host in pods
    ]
