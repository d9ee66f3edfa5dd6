"""The invariants of identities, checked on stored pods."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from webhook.api import names


class Held(NamedTuple):
    """The seat that a stored pod holds."""

    cluster: str
    group: str
    replica: int
    host: int
    name: str


def seat_of(pod: dict[str, Any]) -> Held | None:
    """Return the seat in the labels of a pod, or None for a pod without one."""
    labels = pod["metadata"]["labels"]
    if names.LABEL_REPLICA_INDEX not in labels:
        return None
    return Held(
        labels[names.LABEL_CLUSTER],
        labels[names.LABEL_GROUP],
        int(labels[names.LABEL_REPLICA_INDEX]),
        int(labels.get(names.LABEL_HOST_INDEX, 0)),
        labels.get(names.LABEL_REPLICA_NAME, ""),
    )


def violations(pods: Iterable[dict[str, Any]], hosts: dict[tuple[str, str], int]) -> list[str]:
    """Return what is wrong with live pods that came up without deletions: nothing, when seating is
    right.

    `hosts` gives numOfHosts by (cluster, group). Checked: one pod a seat, one name a replica,
    replicas filled in order.
    """
    seats = [seat for pod in pods if (seat := seat_of(pod)) is not None]
    found = [
        f"{seat} is held {count} times"
        for seat, count in Counter(seat[:4] for seat in seats).items()
        if count > 1
    ]
    for group in {seat[:2] for seat in seats}:
        size = hosts[group]
        replicas: dict[int, list[Held]] = {}
        for seat in seats:
            if seat[:2] == group:
                replicas.setdefault(seat.replica, []).append(seat)
        if sorted(replicas) != list(range(len(replicas))):
            found.append(f"{group}: replica indices {sorted(replicas)} have holes")
        if sum(len(members) < size for members in replicas.values()) > 1:
            found.append(f"{group}: more than one replica lacks hosts")
        found += [
            f"{group}: replica {i} has two names"
            for i, members in replicas.items()
            if len({m.name for m in members}) > 1
        ]
    return found
