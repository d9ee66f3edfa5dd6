"""The invariants of identities, checked on stored pods."""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from webhook.api import names


class Held(NamedTuple):
    """The identity that a stored pod holds."""

    cluster: str
    group: str
    replica: int
    host: int
    name: str


def identity_of(pod: dict[str, Any]) -> Held | None:
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
    """Return what is wrong with live pods that came up without deletions: nothing, when choosing is
    right.

    `hosts` gives numOfHosts by (cluster, group). Checked: one pod an identity, one name a replica,
    replicas filled in order.
    """
    identities = [identity for pod in pods if (identity := identity_of(pod)) is not None]
    found = [
        f"{identity} is held {count} times"
        for identity, count in Counter(identity[:4] for identity in identities).items()
        if count > 1
    ]
    for group in {identity[:2] for identity in identities}:
        size = hosts[group]
        replicas: dict[int, list[Held]] = {}
        for identity in identities:
            if identity[:2] == group:
                replicas.setdefault(identity.replica, []).append(identity)
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
